// What calls on device memory take: blocking ones, which one rank launches for all; async ones, which go through host
// memory; and beside them the same calls on host memory. Ranks are processes that share the first GPU.
//
//   TUTTI_CUDA_DRIVER=libcuda.so.1 build/bin/device_rates
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/driver.h"
#include "tutti/communicator.h"
#include "tutti/local.h"

namespace {

using tutti::device::CuAddress;
using tutti::device::Driver;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

const Driver& the_driver() {
  tutti::device::look_for_driver();
  if (tutti::device::driver() == nullptr) throw std::runtime_error("no CUDA driver: set TUTTI_CUDA_DRIVER");
  return *tutti::device::driver();
}

std::byte* allocate(std::size_t bytes) {
  const Driver& driver = the_driver();
  tutti::device::CuContext context = nullptr;
  driver.check(driver.cuDevicePrimaryCtxRetain(&context, 0), "using device 0");
  const tutti::device::Current current(driver, context);
  CuAddress address = 0;
  driver.check(driver.cuMemAlloc_v2(&address, bytes), "allocating");
  return reinterpret_cast<std::byte*>(address);
}

double time_calls(tutti::Communicator& comm, void* buffer, std::size_t bytes, bool async = false) {
  const int rounds = bytes > (4 << 20) ? 12 : 100;
  const tutti::Request request{.verb = tutti::Verb::all_reduce,
                               .input = buffer,
                               .output = buffer,
                               .input_count = bytes / 4,
                               .output_count = bytes / 4,
                               .element = tutti::DType::float32};
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    comm.barrier();
    const double begin = now_us();
    if (async) {
      comm.submit(request).wait();
    } else {
      comm.run(request);
    }
    if (round >= 3) times.push_back(now_us() - begin);
  }
  return median(times);
}

void print_recognition(std::byte* on_device) {
  constexpr int kAsked = 100'000;
  std::vector<std::byte> host(4096);
  for (const void* const address : {static_cast<const void*>(host.data()), static_cast<const void*>(on_device)}) {
    const double begin = now_us();
    int found = 0;
    for (int i = 0; i < kAsked; ++i) found += tutti::device::device_of(the_driver(), address);
    std::printf("where %s memory lies: %.0f ns (%s)\n", address == on_device ? "device" : "host",
                (now_us() - begin) * 1e3 / kAsked, found < 0 ? "none" : "device 0");
  }
}

}  // namespace

int main() {
  for (const int ranks : {2, 4, 8}) {
    const auto ends = tutti::run_processes(ranks, [](tutti::Communicator& comm) {
      constexpr std::size_t kMostBytes = std::size_t{256} << 20, kMostInHost = std::size_t{16} << 20;
      std::byte* const on_device = allocate(kMostBytes);
      std::vector<std::byte> host(kMostInHost);
      if (comm.rank() == 0 && comm.size() == 2) print_recognition(on_device);
      for (const std::size_t bytes : {64, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20}) {
        const double blocking = time_calls(comm, on_device, bytes);
        if (comm.rank() == 0) {
          std::printf("%d ranks  all_reduce %9zu B  device %9.1f us (%s)", comm.size(), bytes, blocking,
                      std::string(comm.last_algorithm()).c_str());
        }
        if (bytes <= kMostInHost) {
          const double async = time_calls(comm, on_device, bytes, true), plain = time_calls(comm, host.data(), bytes);
          if (comm.rank() == 0) std::printf("  async %9.1f us  host %9.1f us", async, plain);
        }
        if (comm.rank() == 0) std::puts("");
        std::fflush(stdout);
      }
    });
    for (const tutti::RankEnd& end : ends) {
      if (!end.ok()) std::printf("a rank failed: %s\n", end.message.c_str());
    }
  }
  return 0;
}
