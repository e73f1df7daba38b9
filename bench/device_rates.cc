// What calls on device memory take: blocking and async ones, which one rank launches for all, and beside them the same
// calls on host memory, and for 256 MB the kernel alone, without a library around it. Ranks are processes that share
// the first GPU. Before that every verb on 64 and 256 MB: the bytes that it must read and write a second, over those of
// a copy within the device.
//
//   TUTTI_CUDA_DRIVER=libcuda.so.1 build/bin/device_rates
//   TUTTI_CUDA_DRIVER=libcuda.so.1 build/bin/device_rates verbs     or calls, for one of the two alone
//   TUTTI_CUDA_DRIVER=libcuda.so.1 build/bin/device_rates tcp       what goes through host memory over TCP
//
// Over TCP: the call, and the same in host memory, which is what staging could come to if all copies were hidden; by
// one thread of each rank, by two and by four.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/driver.h"
#include "device/kernel_compiler.h"
#include "device/launch.h"
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

double time_request(tutti::Communicator& comm, const tutti::Request& request, int rounds, bool async = false) {
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

tutti::Request all_reduce_of(void* buffer, std::size_t bytes) {
  return {.verb = tutti::Verb::all_reduce,
          .input = buffer,
          .output = buffer,
          .input_count = bytes / 4,
          .output_count = bytes / 4,
          .element = tutti::DType::float32};
}

double time_calls(tutti::Communicator& comm, void* buffer, std::size_t bytes, bool async = false) {
  return time_request(comm, all_reduce_of(buffer, bytes), bytes > (4 << 20) ? 12 : 100, async);
}

void print_over_tcp(tutti::Communicator& comm, int threads) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  std::byte* const on_device = allocate(kMostBytes);
  std::vector<std::byte> host(kMostBytes);
  for (std::size_t bytes = threads == 1 ? 64 : std::size_t{4} << 20; bytes <= kMostBytes; bytes *= 4) {
    const double device = time_calls(comm, on_device, bytes), plain = time_calls(comm, host.data(), bytes);
    if (comm.rank() != 0) continue;
    std::printf("%d ranks over TCP  %d %s  all_reduce %8zu B  device %8.0f us  host %8.0f us\n", comm.size(), threads,
                threads == 1 ? "thread " : "threads", bytes, device, plain);
    std::fflush(stdout);
  }
}

void report(const std::vector<tutti::RankEnd>& ends) {
  for (const tutti::RankEnd& end : ends) {
    if (!end.ok()) std::printf("a rank failed: %s\n", end.message.c_str());
  }
}

// Bytes that a copy within the device reads and writes in a microsecond.
double copy_rate(std::byte* to, const std::byte* from, std::size_t bytes) {
  const Driver& driver = the_driver();
  tutti::device::CuContext context = nullptr;
  driver.check(driver.cuDevicePrimaryCtxRetain(&context, 0), "using device 0");
  const tutti::device::Current current(driver, context);
  constexpr int kCopies = 20;
  std::vector<double> times;
  for (int round = 0; round < 12; ++round) {
    const double begin = now_us();
    for (int copy = 0; copy < kCopies; ++copy)
      driver.check(driver.cuMemcpy(reinterpret_cast<CuAddress>(to), reinterpret_cast<CuAddress>(from), bytes), "copy");
    driver.check(driver.cuStreamSynchronize(nullptr), "waiting");
    times.push_back((now_us() - begin) / kCopies);
  }
  return 2.0 * static_cast<double>(bytes) / median(times);
}

// The launch that does an all_reduce for so many ranks, by one process.
double time_kernel(int ranks, std::size_t bytes) {
  const Driver& driver = the_driver();
  tutti::device::UsedDevice device;
  driver.check(driver.cuDevicePrimaryCtxRetain(&device.context, 0), "using device 0");
  const tutti::device::Current current(driver, device.context);
  int multiprocessors = 1;
  driver.check(driver.cuDeviceGetAttribute(&multiprocessors, tutti::device::kCuMultiprocessors, 0), "asking");
  device.multiprocessors = static_cast<unsigned>(multiprocessors);
  const auto kernel =
      tutti::device::KernelCompiler::of_process().reduce(driver, 0, tutti::DType::float32, tutti::ReduceOp::sum, ranks);
  std::vector<void*> buffers;
  for (int rank = 0; rank < ranks; ++rank) buffers.push_back(allocate(bytes));
  tutti::device::CuStream stream = nullptr;
  driver.check(driver.cuStreamCreateWithPriority(&stream, tutti::device::kCuNonBlockingStream, 0), "making a stream");
  std::vector<double> times;
  for (int round = 0; round < 12; ++round) {
    const double begin = now_us();
    launch_reduce(driver, device, stream, kernel,
                  {.element_bytes = sizeof(float), .sources = buffers, .destinations = buffers, .count = bytes / 4});
    driver.check(driver.cuStreamSynchronize(stream), "waiting");
    if (round >= 3) times.push_back(now_us() - begin);
  }
  driver.check(driver.cuStreamDestroy_v2(stream), "dropping a stream");
  for (void* const buffer : buffers) driver.check(driver.cuMemFree_v2(reinterpret_cast<CuAddress>(buffer)), "freeing");
  return median(times);
}

void print_kernel(tutti::Communicator& comm, std::size_t bytes) {
  comm.barrier();
  if (comm.rank() == 0) {
    std::printf("%d ranks  one kernel alone, %zu MB %9.1f us\n", comm.size(), bytes >> 20,
                time_kernel(comm.size(), bytes));
    std::fflush(stdout);
  }
  comm.barrier();
}

// A verb on vectors, or chunks of all ranks together, of `bytes`: what both buffers hold, and how often such bytes are
// read and written on all ranks together.
struct TimedVerb {
  tutti::Verb verb;
  bool all_in, all_out;       // or a chunk
  double passes_p, passes_1;  // times the ranks, and once
};
constexpr TimedVerb kTimedVerbs[] = {
    {tutti::Verb::all_reduce, true, true, 2, 0},      {tutti::Verb::broadcast, true, true, 1, 0},
    {tutti::Verb::reduce, true, true, 1, 1},          {tutti::Verb::scatter, true, false, 0, 2},
    {tutti::Verb::gather, false, true, 0, 2},         {tutti::Verb::all_gather, false, true, 1, 1},
    {tutti::Verb::reduce_scatter, true, false, 1, 1}, {tutti::Verb::all_to_all, true, true, 2, 0}};

void print_verbs(tutti::Communicator& comm, std::size_t bytes) {
  std::byte *const input = allocate(bytes), *const output = allocate(bytes);
  comm.barrier();
  const double copies = comm.rank() == 0 ? copy_rate(output, input, bytes) : 0;
  if (comm.rank() == 0) std::printf("%d ranks  a copy of %zu MB: %.2f TB/s\n", comm.size(), bytes >> 20, copies * 1e-6);
  for (const TimedVerb& timed : kTimedVerbs) {
    const std::size_t all = bytes / 4, chunk = all / static_cast<std::size_t>(comm.size());
    // In a broadcast the root's output is its input, as with most callers.
    const bool in_place = timed.verb == tutti::Verb::broadcast;
    const double us = time_request(comm,
                                   {.verb = timed.verb,
                                    .input = input,
                                    .output = in_place ? input : output,
                                    .input_count = timed.all_in ? all : chunk,
                                    .output_count = timed.all_out ? all : chunk,
                                    .element = tutti::DType::float32},
                                   40);
    const double moved = static_cast<double>(bytes) * (timed.passes_p * comm.size() + timed.passes_1);
    if (comm.rank() == 0) {
      std::printf("%d ranks  %-14s %3zu MB  %8.1f us (%s)  %.2f TB/s, %.2f of a copy\n", comm.size(),
                  std::string(name_of(timed.verb)).c_str(), bytes >> 20, us, std::string(comm.last_algorithm()).c_str(),
                  moved / us * 1e-6, moved / us / copies);
      std::fflush(stdout);
    }
  }
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

int main(int arguments, char** words) {
  const std::string wanted = arguments > 1 ? words[1] : "both";
  if (wanted == "tcp") {
    tutti::Options over_tcp;
    over_tcp.transport = tutti::TransportKind::tcp;
    for (const int ranks : {2, 4}) {
      for (const int threads : {1, 2, 4}) {
        over_tcp.tcp_threads = threads;
        report(tutti::run_processes(
            ranks, [threads](tutti::Communicator& comm) { print_over_tcp(comm, threads); }, over_tcp));
      }
    }
    return 0;
  }
  for (const int ranks : {2, 4, 8}) {
    const auto ends = tutti::run_processes(ranks, [&wanted](tutti::Communicator& comm) {
      for (const std::size_t megabytes : {64, 256}) {
        if (wanted != "calls") print_verbs(comm, megabytes << 20);
      }
      if (wanted == "verbs") return;
      print_kernel(comm, std::size_t{256} << 20);
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
    report(ends);
  }
  return 0;
}
