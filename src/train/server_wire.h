// What workers and servers of train::ParameterServer say to each other, in the communicator that a worker has with its
// servers: servers are its first ranks, in their order, the worker is the last one.
//
//   worker                                   server
//                                            command (go), once every server has made the groups of all workers
//   command (push, key, rows) [which rows] data ...
//   command (pull, key, rows) [which rows]   data ...
//   command (clock)                          answer (go), once the clock lets it; (wait) now and then until then
//   command (finish)
//
// Data goes in messages of strategy::rows_per_message() rows.
//
// Servers have a communicator of their own besides (other_servers.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "strategy/server_keys.h"
#include "tutti/communicator.h"
#include "tutti/train/parameter_server.h"

namespace tutti::train {

enum class ServerWord : std::int64_t { push, pull, clock, finish, go, wait };

// Word, key, rows; of go: word, workers that take part.
using ServerCommand = std::array<std::int64_t, 4>;
static_assert(sizeof(ServerCommand) == strategy::kCommandBytes);

inline constexpr int kCommandTag = 0, kRowsTag = 1, kDataTag = 2, kNothingTag = 3;

// What all ranks know alike.
struct ServerPlan {
  std::vector<strategy::KeyShape> keys = {};
  strategy::KeyCuts cuts = {};
  std::vector<int> servers = {}, workers = {};  // ranks
  ServerOptions options;

  int server_count() const { return static_cast<int>(servers.size()); }
  std::size_t width_of(std::size_t key) const { return keys[key].table ? keys[key].width : 1; }
};

// A server's communicators: one with each worker, and one with the other servers where there are several.
struct ServerGroups {
  std::vector<Communicator> workers = {};
  std::optional<Communicator> servers = {};
};

// The messages of so many rows, as requests: `data` is cut, and a dense part has rows of one element.
inline void add_data(std::vector<Request>& requests, Direction direction, const float* input, float* output,
                     std::size_t rows, std::size_t width, int peer) {
  const std::size_t each = strategy::rows_per_message(width);
  for (std::size_t row = 0; row < rows; row += each) {
    const std::size_t count = (rows - row < each ? rows - row : each) * width;
    Request request{.verb = Verb::send_recv, .element = DType::float32, .direction = direction};
    request.peer = peer;
    request.tag = kDataTag;
    if (direction == Direction::send) {
      request.input = input + row * width;
      request.input_count = count;
    } else {
      request.output = output + row * width;
      request.output_count = count;
    }
    requests.push_back(request);
  }
}

inline void add_send(std::vector<Request>& requests, std::span<const std::int64_t> words, int peer, int tag) {
  Request request{.verb = Verb::send_recv, .input = words.data(), .input_count = words.size()};
  request.element = DType::int64;
  request.direction = Direction::send;
  request.peer = peer;
  request.tag = tag;
  requests.push_back(request);
}

}  // namespace tutti::train
