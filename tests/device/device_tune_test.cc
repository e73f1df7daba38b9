// What tune() finds of a device. The fake driver takes as long as it is told to, so that it is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "check.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"
#include "device/on_both.h"
#include "topology/rates.h"
#include "tutti/tune.h"

namespace tutti {
namespace {

using testing::fake;
using testing::kLaunched;
using testing::require;
using topology::DeviceRates;

topology::Survey survey_of(const Tuned& tuned) { return topology::costs_from_text(tuned.costs).surveys.at(0); }

int calls_of(const Tuned& tuned, bool launched) {
  return static_cast<int>(std::ranges::count_if(
      tuned.calls, [&](const TunedCall& call) { return call.on_device && (call.algorithm == kLaunched) == launched; }));
}

// Far more than the rest of a call, and than what other work of the machine holds it up by.
constexpr int kUsPerMb = 40000, kLaunch_us = 4000, kToHostTakes_us = 6000, kToDeviceTakes_us = 9000;

// Bytes that are touched so often: where the machine has other work a bit slower, and where a short call was held up by
// it a bit quicker.
void require_paced(double bytes_per_s, double touches, const char* what) {
  const double part = bytes_per_s * touches * kUsPerMb * 1e-6 / (1 << 20);
  require(part > 0.2 && part < 1.7, std::string(what) + " is " + std::to_string(part) + " times as quick as it is");
}

TEST(TuneOfADevice, FindsWhatTheDriverTakes) {
  auto* const delay = fake<void(const char*, int)>("fake_cuda_delay");
  auto* const pace = fake<void(int)>("fake_cuda_pace");
  if (delay == nullptr) GTEST_SKIP() << "a real driver takes what it takes";
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    delay("cuLaunchKernel", kLaunch_us);
    delay("cuMemcpyDtoHAsync_v2", kToHostTakes_us);
    for (const char* copy : {"cuMemcpyHtoDAsync_v2", "cuMemcpy2DAsync_v2"}) delay(copy, kToDeviceTakes_us);
    pace(kUsPerMb);
    const Tuned tuned = tune(comm, nullptr, true);
    const DeviceRates rates = survey_of(tuned).device.value();
    require_paced(rates.touch_bytes_per_s, 1, "a kernel");
    require_paced(rates.to_host_bytes_per_s, 1, "staging to the host");
    require_paced(rates.to_device_bytes_per_s, 1, "staging to the device");
    require_paced(rates.copy_bytes_per_s, 2, "a copy, which reads and writes,");
    require(rates.launch_s >= kLaunch_us * 1e-6, "a launch in " + std::to_string(rates.launch_s));
    require(rates.to_host_s >= kToHostTakes_us * 1e-6, "to the host in " + std::to_string(rates.to_host_s));
    require(rates.to_device_s >= kToDeviceTakes_us * 1e-6, "to the device in " + std::to_string(rates.to_device_s));
    if (comm.rank() != 0) return;
    require(calls_of(tuned, true) == 8 * 2 && calls_of(tuned, false) == 3 * 2,
            std::to_string(calls_of(tuned, true)) + " calls were launched, " + std::to_string(calls_of(tuned, false)) +
                " staged");
    for (const TunedCall& call : tuned.calls) {
      if (!call.on_device) continue;
      const bool launched = call.algorithm == kLaunched;
      const double least_us = launched ? kLaunch_us : kToHostTakes_us + kToDeviceTakes_us;
      const std::string what = std::string(name_of(call.verb)) + " by " + std::string(call.algorithm);
      require(call.measured_us >= least_us, what + " was measured as " + std::to_string(call.measured_us));
      require(call.predicted_us >= least_us, what + " is predicted as " + std::to_string(call.predicted_us));
      if (!launched || call.verb != Verb::all_reduce) continue;
      const double bytes = 4.0 * static_cast<double>(call.bytes);
      const double expected_us = (rates.launch_s + bytes / rates.touch_bytes_per_s) * 1e6;
      require(std::abs(call.predicted_us - expected_us) <= 2e-3 * expected_us, what + ": not by the rates");
    }
    require(tuned.device_error >= 1 && tuned.device_error < 4,
            "predictions are off by " + std::to_string(tuned.device_error));
  }));
}

TEST(TuneOfADevice, HoldsOfWhateverDriverThereIs) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    static_cast<void>(testing::test_driver());
    const Tuned tuned = tune(comm, nullptr, true);
    const DeviceRates rates = survey_of(tuned).device.value();
    require(rates.known() && rates.launches() && rates.copy_bytes_per_s > 0, "the rates are " + to_text(rates));
    if (comm.rank() == 0) require(calls_of(tuned, true) == 16 && calls_of(tuned, false) == 6, "calls are missing");
  }));
}

TEST(TuneOfADevice, WithoutACompilerOnlyStagingIsMeasured) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real compiler does not fail on demand";
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    fail("nvrtcCompileProgram", device::kCuInvalidValue, 1000);
    const Tuned tuned = tune(comm, nullptr, true);
    const DeviceRates rates = survey_of(tuned).device.value();
    require(!rates.launches() && rates.known(), "the rates are " + to_text(rates));
    if (comm.rank() == 0) require(calls_of(tuned, true) == 0 && calls_of(tuned, false) == 6, "calls were launched");
  }));
}

TEST(TuneOfADevice, WhereARankGetsNoMemoryItIsSaidAndTheRestIsMeasured) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real driver does not fail on demand";
  constexpr int kOutOfMemory = 2;
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    if (comm.rank() == 1) fail("cuMemAlloc_v2", kOutOfMemory, 1);
    const Tuned tuned = tune(comm, nullptr, true);
    const char* const words = comm.rank() == 1 ? "CUDA_ERROR_OUT_OF_MEMORY" : "rank 1 got no";
    require(tuned.why_no_device.find(words) != std::string::npos, "it is said: " + tuned.why_no_device);
    require(!survey_of(tuned).device && tuned.device_error == 0, "rates of a device");
    require(survey_of(tuned).rates.step > 0, "nothing was measured");
  }));
}

}  // namespace
}  // namespace tutti
