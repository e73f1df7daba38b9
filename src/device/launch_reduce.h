// One launch that reduces sources on a device into destinations there, with the bits of kernels::find_reduce.
#pragma once

#include <cstdint>
#include <span>

#include "device/driver.h"
#include "tutti/types.h"

namespace tutti::device {

struct ReduceLaunch {
  DType type{};
  ReduceOp op{};
  std::uint32_t divisor = 1;
  std::span<void*const> sources, destinations;
  std::uint64_t count = 0;  // elements
};

// Into `stream`, in the current context, which is one of `device`. Throws as KernelCompiler::reduce() does.
void launch_reduce(const Driver& driver, CuDevice device, CuStream stream, const ReduceLaunch& launch);

}  // namespace tutti::device
