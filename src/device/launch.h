// The launches that do a call's work for all ranks: reductions with the bits of kernels::find_reduce, and copies.
//
// Into `stream`, in the device's context, which is the current one. They throw where the driver refuses.
#pragma once

#include <cstdint>
#include <span>

#include "device/driver.h"
#include "device/used_device.h"

namespace tutti::device {

// Of every block, `count` elements of all sources become those of a destination: of all of them where there is one
// block, else of the one with the block's number.
struct ReduceLaunch {
  std::uint64_t element_bytes = 1;
  std::uint32_t divisor = 1;
  std::span<void*const> sources, destinations;
  std::uint64_t count = 0;
  std::uint32_t blocks = 1;
};

// `kernel` is KernelCompiler::reduce() of as many sources.
void launch_reduce(const Driver& driver, const UsedDevice& device, CuStream stream, CuFunction kernel,
                   const ReduceLaunch& launch);

// A source has `columns` pieces of `bytes`. The pieces of source s go to place s of a destination: of all of them where
// there is one column, else of the one with the column's number. What is in place already stays.
struct CopyLaunch {
  std::span<void*const> sources, destinations;
  std::uint64_t bytes = 0;
  std::uint32_t columns = 1;
};

// `kernel` is KernelCompiler::copy().
void launch_copy(const Driver& driver, const UsedDevice& device, CuStream stream, CuFunction kernel,
                 const CopyLaunch& launch);

}  // namespace tutti::device
