// A verb with its arguments, as the engine sees it.
//
// What the choice of algorithm depends on is read on the caller's thread when the call is made, because that is the one
// order that all ranks share: an async call may start at different moments on different ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/kernels.h"
#include "transport/transport.h"
#include "tutti/types.h"

namespace tutti::engine {

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

  // Filled in by the engine.
  std::uint64_t sequence = 0;            // of the collective, or of the message in its direction
  bool symmetric_memory_exists = false;  // the group has made some
  transport::MemoryRef input_ref = 0, output_ref = 0;

  std::uint64_t bytes() const { return count * size_of(type); }
  // Equal on all ranks that make the same call: what peers compare before they believe each other's data. `options`
  // stands for whatever else all ranks must have alike.
  std::uint64_t fingerprint(std::uint64_t options) const {
    const auto mix = [](std::uint64_t hash, std::uint64_t value) {
      hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
      return hash ^ (hash >> 29);
    };
    const std::uint64_t kinds = static_cast<std::uint64_t>(verb) | static_cast<std::uint64_t>(type) << 8 |
                                static_cast<std::uint64_t>(op) << 16 |
                                static_cast<std::uint64_t>(static_cast<std::uint32_t>(root)) << 24;
    return mix(mix(mix(options, kinds), count), sequence);
  }
  std::string describe() const;
};

}  // namespace tutti::engine
