// A verb with its arguments, as the engine sees it.
//
// What the choice of algorithm depends on is read on the caller's thread when the call is made, because that is the one
// order that all ranks share: an async call may start at different moments on different ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/statement.h"
#include "kernels/kernels.h"
#include "transport/transport.h"
#include "tutti/types.h"

namespace tutti::engine {

// Equal on all ranks that make the same call after the same calls: what peers compare before they believe each other's
// data. `before` stands for the calls before it, so that a difference nobody met shows at the next call.
inline std::uint64_t fingerprint_of(const Statement& statement, std::uint64_t before) {
  const auto mix = [](std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ (hash >> 29);
  };
  return mix(mix(mix(before, statement.kinds), statement.count), statement.sequence);
}

// "all_reduce #3 of 10 float32, sum": what a statement says, in words.
std::string words_of(const Statement& statement);

struct Call {
  Verb verb = Verb::all_reduce;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t count = 0;
  DType type = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;                              // broadcast: the root; send_recv: the sender
  int peer = -1;                             // send_recv: the other rank
  kernels::ReduceFunction reduce = nullptr;  // all_reduce: the kernel of (type, op)
  kernels::ScaleFunction scale = nullptr;    // premul_sum: scales the input into the output, which is then summed
  double factor = 1.0;

  // Filled in by the engine.
  std::uint64_t sequence = 0;            // of the collective, or of the message in its direction
  std::uint64_t fingerprint = 0;         // of this call and of all before it in its sequence
  std::chrono::milliseconds timeout{0};  // without any movement
  bool symmetric_memory_exists = false;  // the group has made some
  transport::MemoryRef input_ref = 0, output_ref = 0;

  std::uint64_t bytes() const { return count * size_of(type); }
  bool is_message() const { return verb == Verb::send_recv; }
  // What `rank`, which makes this call, says of it: the same on all ranks that make the same call.
  Statement statement(int rank) const {
    const int receiver = !is_message() ? -1 : peer == root ? rank : peer;
    return {sequence + 1, Statement::kinds_of(verb, type, op, root, receiver), count};
  }
  std::string describe() const;
};

}  // namespace tutti::engine
