#include "backend/devices.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <pybind11/pybind11.h>

#include <cstdint>

#include "backend/errors.h"

namespace tutti::pytorch {
namespace {

// cudaStream_t of the stream, which is the current one of its device. Older versions of PyTorch tell it Python alone.
template <class Stream>
void* handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    const pybind11::gil_scoped_acquire python;
    const pybind11::object raw = pybind11::module_::import("torch._C").attr("_cuda_getCurrentRawStream");
    return reinterpret_cast<void*>(raw(static_cast<int>(stream.device_index())).template cast<std::uintptr_t>());
  }
}

}  // namespace

std::optional<c10::Device> gpu_of(at::TensorList inputs, at::TensorList outputs) {
  for (const at::TensorList& tensors : {inputs, outputs}) {
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.device().is_cpu()) return tensor.device();
    }
  }
  return std::nullopt;
}

void follow_current_stream(tutti_comm comm, const std::optional<c10::Device>& gpu) {
  if (!gpu) return;
  const c10::Stream current = c10::impl::VirtualGuardImpl(gpu->type()).getStream(*gpu);
  check(tutti_follow_stream(comm, handle_of(current)));
}

StreamAside::StreamAside(const std::optional<c10::Device>& gpu) {
  if (gpu) guard_.reset_stream(c10::impl::VirtualGuardImpl(gpu->type()).getStreamFromGlobalPool(*gpu, true));
}

void StreamAside::finish() const {
  const auto stream = guard_.current_stream();
  if (stream) c10::impl::VirtualGuardImpl(stream->device_type()).synchronizeStream(*stream);
}

}  // namespace tutti::pytorch
