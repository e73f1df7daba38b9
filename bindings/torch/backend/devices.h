// Tensors on GPUs, by what c10 says of any device: one source serves PyTorch with and without CUDA.
//
// A call on tensors of a GPU begins after what the current stream of their device holds. It has ended when its outputs
// are there, and whoever waits for it waits on the host, as with CPU tensors: so an error is told where a call is
// waited for, and memory that a call keeps until its end needs no record of streams. What is copied behind a call, and
// the end of a future, go into a stream of PyTorch's pool (StreamAside), and whoever waits waits for that one, too.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <optional>

#include "tutti/tutti.h"

namespace tutti::pytorch {

// The GPU that the tensors of a call lie on, if any does.
std::optional<c10::Device> gpu_of(at::TensorList inputs, at::TensorList outputs);

// Has the calls that follow begin after what the current stream of the GPU holds. Does nothing without one.
void follow_current_stream(tutti_comm comm, const std::optional<c10::Device>& gpu);

// What is put into the current stream while this lives goes into another, of high priority, from PyTorch's pool, which
// may have given the program the same: then it comes behind what the program has put there. Nothing without a GPU.
class StreamAside {
 public:
  explicit StreamAside(const std::optional<c10::Device>& gpu);
  // Returns when all of it is done.
  void finish() const;

 private:
  c10::OptionalStreamGuard guard_;
};

}  // namespace tutti::pytorch
