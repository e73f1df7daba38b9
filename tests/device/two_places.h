// Cases of the verbs' model on buffers that lie on a device, or partly.
#pragma once

#include <span>
#include <vector>

#include "device/device_memory.h"
#include "tutti/communicator.h"
#include "verbs/model.h"

namespace tutti::testing {

// Host memory and its counterpart on the device; some calls see the one, some the other.
class TwoPlaces {
 public:
  explicit TwoPlaces(std::span<std::byte> host) : host_(host), device_(host.size()) {}

  std::span<std::byte> host() const { return host_; }
  std::byte* on_device(const void* address) const {
    return device_.data() + (static_cast<const std::byte*>(address) - host_.data());
  }
  bool holds(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= host_.data() && byte < host_.data() + host_.size();
  }
  void upload() const { device_.write(host_.data(), host_.size()); }
  void download() const { device_.read(host_.data(), host_.size()); }

 private:
  std::span<std::byte> host_;
  DeviceBytes device_;
};

// Which buffers of a call are on the device.
struct Where {
  bool input = true, output = true;
};

template <class T>
T* moved(T* address, const TwoPlaces& one, const TwoPlaces& other) {
  if (one.holds(address)) return reinterpret_cast<T*>(one.on_device(address));
  if (other.holds(address)) return reinterpret_cast<T*>(other.on_device(address));
  return address;
}

inline void run_on_device(Communicator& comm, const Trial& trial, const TwoPlaces& input, const TwoPlaces& output,
                          Where where, bool async) {
  input.upload();
  output.upload();
  std::vector<Request> requests(trial.requests().begin(), trial.requests().end());
  const bool in_place = output.holds(requests[0].input) && output.holds(requests[0].output);
  if (in_place) where.input = where.output;
  for (Request& request : requests) {
    if (where.input) request.input = moved(request.input, input, output);
    if (where.output) request.output = moved(request.output, input, output);
  }
  if (async) {
    std::vector<Work> works = comm.submit_all(requests);
    wait_all(works);
  } else if (requests.size() == 2) {
    comm.exchange(requests[0], requests[1]);
  } else {
    comm.run(requests[0]);
  }
  if (where.input) input.download();
  if (where.output) output.download();
}

}  // namespace tutti::testing
