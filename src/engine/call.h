// A verb with its arguments, as the engine sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/kernels.h"
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

  std::uint64_t bytes() const { return count * size_of(type); }
  // Equal on all ranks that make the same call: what peers compare before they believe each other's data.
  std::uint64_t fingerprint() const;
  std::string describe() const;
};

}  // namespace tutti::engine
