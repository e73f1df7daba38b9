// The launches that do a call's work for all ranks: reductions with the bits of kernels::find_reduce, and copies.
//
// Into `stream`, in the current context, which is one of `device`. They throw as KernelCompiler does.
#pragma once

#include <cstdint>
#include <span>

#include "device/driver.h"
#include "tutti/types.h"

namespace tutti::device {

// Of every block, `count` elements of all sources become those of a destination: of all of them where there is one
// block, else of the one with the block's number.
struct ReduceLaunch {
  DType type{};
  ReduceOp op{};
  std::uint32_t divisor = 1;
  std::span<void*const> sources, destinations;
  std::uint64_t count = 0;
  std::uint32_t blocks = 1;
};

void launch_reduce(const Driver& driver, CuDevice device, CuStream stream, const ReduceLaunch& launch);

// A source has `columns` pieces of `bytes`. The pieces of source s go to place s of a destination: of all of them where
// there is one column, else of the one with the column's number. What is in place already stays.
struct CopyLaunch {
  std::span<void*const> sources, destinations;
  std::uint64_t bytes = 0;
  std::uint32_t columns = 1;
};

void launch_copy(const Driver& driver, CuDevice device, CuStream stream, const CopyLaunch& launch);

}  // namespace tutti::device
