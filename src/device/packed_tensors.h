// Tensors of a device and of the host, packed into one piece of host memory and unpacked again.
//
// Those of a device are staged (device/staging.h), all together: what a call needs is registered memory and a stream of
// its own, because a copy to ordinary memory, or in the default stream, has the driver wait for streams that others
// hold, and whoever holds them may wait for this rank.
//
// Threads: any, one at a time for each of these.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "device/staging.h"

namespace tutti::device {

struct TensorToPack {
  void* data = nullptr;
  std::size_t bytes = 0;  // more than none
};

class PackedTensors {
 public:
  // Brings them over, one behind the other, after what `stream` holds (of the caller's; nullptr: the default stream of
  // each device). `alignment` of the memory is a power of two. Throws Error(timeout) where the stream does not come to
  // it in time, and Error(system) where the device failed.
  PackedTensors(std::span<const TensorToPack> tensors, std::size_t alignment, void* stream,
                std::chrono::milliseconds timeout);
  ~PackedTensors();
  PackedTensors(const PackedTensors&) = delete;
  PackedTensors& operator=(const PackedTensors&) = delete;

  std::byte* memory() const { return memory_; }
  // Takes what is there now back to the tensors. Throws likewise.
  void unpack();

 private:
  // Tensors of one device, at their places in memory of the staging's own.
  struct OnDevice {
    StagingPool::Plan plan;
    StagingPool::Handle staging;
  };
  struct Release {
    std::align_val_t alignment;
    void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
  };

  OnDevice& on_device(const FoundMemory& found);
  template <class HasEnded>
  void wait_for_all(HasEnded&& has_ended) const;
  // Calls copy(theirs, place in `memory_`, bytes) for tensors of devices whose staging has other memory.
  template <class Copy>
  void copy_others(Copy&& copy) const;

  std::chrono::milliseconds timeout_;
  std::size_t bytes_ = 0;
  std::vector<OnDevice> devices_;  // the memory of the first serves for all
  std::vector<StagedPiece> on_host_;
  std::unique_ptr<std::byte, Release> own_;  // where none is on a device
  std::byte* memory_ = nullptr;
};

}  // namespace tutti::device
