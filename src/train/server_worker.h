// Behind train::ParameterServer, on a worker: pushes, pulls and clocks in the worker's own communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "train/server_wire.h"
#include "tutti/train/parameter_server.h"

namespace tutti::train {

class ServerWorker {
 public:
  ServerWorker(const ServerPlan& plan, Communicator group, int rank);

  void push(std::size_t key, std::span<const float> gradient);
  void pull(std::size_t key, std::span<float> values);
  void push_rows(std::size_t key, std::span<const std::int64_t> rows, std::span<const float> gradient);
  void pull_rows(std::size_t key, std::span<const std::int64_t> rows, std::span<float> values);
  void clock();
  void finish();

  std::int64_t clocks() const { return clocks_; }
  int present() const { return present_; }
  Sentence sentence() const;
  Counters counters() const;

 private:
  // Rows as servers number them, and their places among those that were asked for.
  struct DealtRows {
    std::vector<std::int64_t> rows;
    std::vector<std::size_t> places;
    std::vector<float> data;
  };

  // Push or pull, key, and of a table the server and how many rows of it. Counted, so that a clock that never ends
  // takes no memory for every call.
  using CallKind = std::tuple<bool, std::size_t, std::size_t, std::size_t>;
  using CallCounts = std::map<CallKind, std::uint64_t>;

  void count(const strategy::KeyCall& call);
  void check(const char* call, std::size_t key, std::size_t length, std::size_t expected) const;
  void check_rows(const char* call, std::size_t key, std::span<const std::int64_t> rows) const;
  std::vector<DealtRows> deal(std::span<const std::int64_t> rows) const;
  std::vector<std::int64_t> all_rows(std::size_t key) const;
  std::string in_words(const char* call, std::size_t key) const;
  void command(ServerWord word, std::size_t key, std::size_t rows, std::size_t server);
  // Makes the requests of a call, and nothing else meanwhile.
  void talk(const std::string& what);
  void hear(std::size_t server);
  [[noreturn]] void tell(const Error& error, const std::string& what) const;
  void require_taking_part(const char* call) const;

  ServerPlan plan_;
  Communicator group_;
  int rank_;
  std::int64_t clocks_ = 0;
  int present_;
  bool finished_ = false;
  Counters until_finished_;
  std::deque<ServerCommand> commands_;  // of this call
  std::vector<Request> requests_;       // of this call
  CallCounts calls_, last_calls_;       // of this clock, and of the last one that ended
};

}  // namespace tutti::train
