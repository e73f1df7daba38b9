// What a blocking call that one rank launches for all asks of the driver, call by call, and that it allocates and locks
// nothing. A question more is a microsecond more, or a context switch of the device.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "device/device_memory.h"
#include "device/driver.h"
#include "engine/counting.h"

namespace tutti {
namespace {

using testing::all_reduce_of;
using testing::DeviceBytes;
using testing::fake;
using testing::require;
using testing::TestStream;

constexpr const char* kFunctions[] = {
#define X(function, parameters) #function,
    TUTTI_DRIVER_FUNCTIONS(X)
#undef X
        "cuPointerGetAttributes"};

// Calls of the driver by function, those that were made.
using Calls = std::map<std::string, int>;

Calls calls_so_far() {
  auto* const count = fake<int(const char*)>("fake_cuda_calls");
  Calls calls;
  for (const char* const function : kFunctions) calls[function] = count(function);
  return calls;
}

std::string words_of(const Calls& calls) {
  std::string words;
  for (const auto& [function, count] : calls) words += function + " " + std::to_string(count) + ", ";
  return words;
}

struct CountedCall {
  Calls calls;
  testing::Counts counts;
  bool launched = false;
};

CountedCall count_call(Communicator& comm, const Request& request) {
  auto* const is_inside = fake<int()>("fake_cuda_is_inside");
  const Calls before = calls_so_far();
  testing::start_counting(is_inside);
  comm.run(request);
  const testing::Counts counts = testing::stop_counting();
  CountedCall counted{calls_so_far(), counts, false};
  for (const auto& [function, count] : before) {
    if ((counted.calls[function] -= count) == 0) counted.calls.erase(function);
  }
  counted.launched = counted.calls.contains("cuLaunchKernel");
  return counted;
}

// What a rank asks for when it first launches on a channel does not count. Who waits for a launch asks again and again,
// and after a while to be called: such calls do not count, and the next is made when the driver has called. What
// remains asks for this, and each time the same.
void expect_calls(Communicator& comm, const Request& request, Calls everybody) {
  auto* const is_idle = fake<int()>("fake_cuda_is_idle");
  for (int warm_up = 0; warm_up < 20; ++warm_up) {
    comm.run(request);
    while (is_idle() == 0) std::this_thread::yield();
  }
  everybody["cuPointerGetAttributes"] = 2;  // where it lies, and by which name others find it
  everybody["cuStreamIsCapturing"] = 1;
  everybody["cuCtxPushCurrent_v2"] = 2;                // to look at the buffers, and from there on
  everybody["cuThreadExchangeStreamCaptureMode"] = 4;  // around both
  Calls launcher = everybody;
  launcher["cuLaunchKernel"] = 1;
  launcher["cuStreamQuery"] = 1;  // of its own
  int counted = 0, launches = 0;
  std::array<bool, 4> knows_all{};  // by channel
  for (int call = 0; call < 200; ++call) {
    CountedCall made = count_call(comm, request);
    const bool asked = made.calls.contains("cuLaunchHostFunc");
    require(made.calls["cuLaunchKernel"] <= 1, "more than one launch");
    bool& knows = knows_all[static_cast<std::size_t>(call) % knows_all.size()];
    while (is_idle() == 0) std::this_thread::yield();
    const bool counts = !asked && (knows || !made.launched);
    knows = knows || made.launched;
    if (!counts) continue;
    ++counted;
    launches += made.launched ? 1 : 0;
    require(made.calls.erase("cuCtxGetCurrent") == 1, "nobody asked what is current");
    if (made.launched) made.calls["cuStreamQuery"] = 1;
    if (everybody.contains("cuEventQuery")) made.calls["cuEventQuery"] = 1;
    const Calls& expected = made.launched ? launcher : everybody;
    std::erase_if(made.calls, [](const auto& each) { return each.second == 0; });
    require(made.calls == expected, "asked for " + words_of(made.calls) + "and not for " + words_of(expected));
    require(made.counts.allocations == 0, std::to_string(made.counts.allocations) + " allocations");
    require(made.counts.locks == 0, std::to_string(made.counts.locks) + " locks");
  }
  std::vector<int> all = {launches};
  require(counted > 0, "in all calls the driver was asked for a call");
  comm.all_reduce(all);
  require(all[0] > 0, "no launch was counted");
}

// A default stream comes after others, of which an event tells.
TEST(DevicePath, AsksForNoMoreThanItNeeds) {
  if (testing::on_real_device()) GTEST_SKIP() << "only the fake driver counts";
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes buffer(4000);
    Request request = all_reduce_of(buffer.data(), buffer.data(), 1000, DType::float32);
    request.stream = reinterpret_cast<void*>(std::uintptr_t{2});  // the default stream of this thread
    expect_calls(comm, request, {{"cuEventRecord", 1}, {"cuEventQuery", 1}});
  }));
}

TEST(DevicePath, AsksOfAStreamWhoseItIs) {
  if (testing::on_real_device()) GTEST_SKIP() << "only the fake driver counts";
  testing::expect_all_ok(run_processes(3, [](Communicator& comm) {
    const DeviceBytes buffer(4000);
    const TestStream stream;
    Request request = all_reduce_of(buffer.data(), buffer.data(), 1000, DType::float32);
    request.stream = stream.get();
    expect_calls(comm, request, {{"cuStreamGetCtx", 1}, {"cuStreamGetFlags", 1}, {"cuStreamQuery", 1}});
  }));
}

// The device turned to the one that launches, time after time: it has others to work for, and this rank has no work of
// its own there.
TEST(DevicePath, AnotherLaunchesWhereLaunchesTakeTooLong) {
  auto* const before = fake<void(const char*, void (*)(void*), void*)>("fake_cuda_before");
  if (before == nullptr) GTEST_SKIP() << "a real device takes its own time";
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  const auto turns = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    const DeviceBytes buffer(4000);
    const Request request = all_reduce_of(buffer.data(), buffer.data(), 1000, DType::float32);
    for (int call = 0; call < 40; ++call) {
      if (comm.rank() == 0 && call >= 8) before("cuLaunchKernel", turns, nullptr);
      if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // as a rule it is the last
      comm.run(request);
    }
    std::vector<int> launches = {calls("cuLaunchKernel"), comm.rank() == 1 ? calls("cuLaunchKernel") : 0};
    comm.all_reduce(launches);
    require(launches[0] == 40, std::to_string(launches[0]) + " launches of 40 calls");
    require(launches[1] > 0, "rank 0 went on to launch");
  }));
}

}  // namespace
}  // namespace tutti
