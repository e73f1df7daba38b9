// What calls on device memory are predicted to take, by rates that are easy to add up: worked out by hand, and the way
// that the prediction counts on is the one that the call takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.h"
#include "cost_file.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"
#include "device/on_both.h"
#include "topology/rates.h"
#include "tutti/trace.h"
#include "tutti/tune.h"

namespace tutti {
namespace {

using testing::Costs;
using testing::DeviceBytes;
using testing::fake;
using testing::kLaunched;
using testing::require;
using topology::DeviceRates;

constexpr std::size_t kCount = 1000, kBytes = kCount * sizeof(float);
constexpr std::size_t kTraced = 4096;

constexpr DeviceRates kRates{.launch_s = 11e-6,
                             .touch_bytes_per_s = 10e9,
                             .to_host_s = 7e-6,
                             .to_host_bytes_per_s = 2e9,
                             .to_device_s = 5e-6,
                             .to_device_bytes_per_s = 4e9,
                             .copy_bytes_per_s = 3e9};
// How long the kernel takes to read or write a vector.
constexpr double kTouch_us = kBytes / 10e3;
constexpr double kToHost_us = 7 + kBytes / 2e3, kToDevice_us = 5 + kBytes / 4e3;

// Of a group of two, over shared memory with one launch, and over streams without.
topology::CostTable costs_with(bool devices, const DeviceRates& rates = kRates) {
  topology::CostTable costs = topology::usual_costs(64);
  put_survey(costs, {true, 2, 1, costs.memory, {}, {}});
  put_survey(costs, {false, 2, 1, costs.streams, {}, {}});
  DeviceRates streams = rates;
  streams.launch_s = streams.touch_bytes_per_s = 0;
  if (devices) {
    costs.surveys[0].device = rates;
    costs.surveys[1].device = streams;
  }
  return costs;
}

void require_near(double found, double expected, const std::string& what) {
  require(std::abs(found - expected) <= 1e-4 * expected,
          what + ": " + std::to_string(found) + " us, not " + std::to_string(expected));
}

Request request_of(Verb verb, const void* input, void* output, bool input_is_chunk = false,
                   bool output_is_chunk = false) {
  return {.verb = verb,
          .input = input,
          .output = output,
          .input_count = input_is_chunk ? kCount / 2 : kCount,
          .output_count = output_is_chunk ? kCount / 2 : kCount};
}

TEST(PredictOnADevice, OneLaunchIsItsCostAndWhatItReadsAndWrites) {
  const Costs costs(costs_with(true));
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes in(kBytes), out(kBytes);
    // By hand: how often two ranks together read and write as much as the vector, or all chunks.
    const auto expect = [&](double times, const Request& request) {
      require_near(comm.predicted_us(request), 11 + times * kTouch_us, std::string(name_of(request.verb)));
      comm.run(request);
      require(comm.last_algorithm() == kLaunched, std::string(name_of(request.verb)) + " is not launched");
    };
    expect(4, request_of(Verb::all_reduce, in.data(), out.data()));
    expect(4, request_of(Verb::all_reduce, in.data(), in.data()));
    expect(3, request_of(Verb::reduce, in.data(), out.data()));
    expect(3, request_of(Verb::reduce_scatter, in.data(), out.data(), false, true));
    expect(3, request_of(Verb::all_gather, in.data(), out.data(), true, false));
    expect(2, request_of(Verb::gather, in.data(), out.data(), true, false));
    expect(2, request_of(Verb::scatter, in.data(), out.data(), false, true));
    expect(4, request_of(Verb::all_to_all, in.data(), out.data()));
    expect(comm.rank() == 0 ? 2 : 3, request_of(Verb::broadcast, comm.rank() == 0 ? in.data() : nullptr, in.data()));
    // Each rank's own chunk is there already.
    std::byte* const own = out.data() + static_cast<std::size_t>(comm.rank()) * kBytes / 2;
    expect(2, request_of(Verb::all_gather, own, out.data(), true, false));
  }));
}

TEST(PredictOnADevice, WhatIsStagedIsTheCallInHostMemoryAndBothWays) {
  const Costs costs(costs_with(true));
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes in(kBytes), out(kBytes);
    std::vector<float> host_in(kCount), host_out(kCount);
    const double host_us = comm.predicted_us(request_of(Verb::scan, host_in.data(), host_out.data()));
    const auto expect = [&](double expected_us, const Request& request, const char* what) {
      require_near(comm.predicted_us(request), expected_us, what);
      comm.run(request);
      require(comm.last_algorithm() != kLaunched, std::string(what) + " is launched");
    };
    expect(host_us + kToHost_us + kToDevice_us, request_of(Verb::scan, in.data(), out.data()), "both on the device");
    expect(host_us + kToHost_us, request_of(Verb::scan, in.data(), host_out.data()), "the input there");
    expect(host_us + kToDevice_us, request_of(Verb::scan, host_in.data(), out.data()), "the output there");
    const double sum_us = comm.predicted_us(request_of(Verb::all_reduce, host_in.data(), host_out.data()));
    expect(sum_us + kToHost_us, request_of(Verb::all_reduce, in.data(), host_out.data()), "one side of a sum there");
    const int other = 1 - comm.rank();
    const auto message = [&](Direction direction, void* buffer) {
      return Request{.verb = Verb::send_recv,
                     .input = direction == Direction::send ? buffer : nullptr,
                     .output = direction == Direction::send ? nullptr : buffer,
                     .input_count = direction == Direction::send ? kCount : 0,
                     .output_count = direction == Direction::send ? 0 : kCount,
                     .direction = direction,
                     .peer = other};
    };
    const double exchange_us =
        comm.predicted_us(message(Direction::send, host_in.data()), message(Direction::receive, host_out.data()));
    require_near(comm.predicted_us(message(Direction::send, in.data()), message(Direction::receive, out.data())),
                 exchange_us + kToHost_us + kToDevice_us, "an exchange");
  }));
}

// Four thousand bytes: 31.6 us by a launch, 15 and the sum in host memory by way of that. Four million: 1.6 ms by a
// launch, 3 and the sum.
TEST(PredictOnADevice, ACallGoesTheWayThatIsPredictedToBeQuicker) {
  DeviceRates slow_to_launch = kRates;
  slow_to_launch.launch_s = 30e-6;
  const Costs costs(costs_with(true, slow_to_launch));
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const auto runs = [&](std::size_t count) {
      const DeviceBytes vector(count * sizeof(float));
      std::vector<float> host(count);
      const Request request{
          .input = vector.data(), .output = vector.data(), .input_count = count, .output_count = count};
      Request in_host = request;
      in_host.input = in_host.output = host.data();
      const auto bytes = static_cast<double>(count * sizeof(float));
      const double staged_us = comm.predicted_us(in_host) + 7 + bytes / 2e3 + 5 + bytes / 4e3;
      require_near(comm.predicted_us(request), std::min(staged_us, 30 + 4 * bytes / 10e3), "the quicker way");
      comm.run(request);
      return comm.last_algorithm();
    };
    require(runs(kCount) != kLaunched, "a launch that takes longer");
    require(runs(1000 * kCount) == kLaunched, "staged, though a launch is quicker");
  }));
}

// What an earlier tune() found does not keep this one from finding it.
TEST(PredictOnADevice, IsMeasuredAnewWhicheverWayCallsGo) {
  DeviceRates slow_to_launch = kRates;
  slow_to_launch.launch_s = 100;
  const Costs costs(costs_with(true, slow_to_launch));
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes vector(kBytes);
    const Request request = request_of(Verb::all_reduce, vector.data(), vector.data());
    comm.run(request);
    require(comm.last_algorithm() != kLaunched, "a launch of a hundred seconds");
    const Tuned tuned = tune(comm, nullptr, true);
    require(topology::costs_from_text(tuned.costs).surveys.at(0).device.value().launches(), "no launch was measured");
    comm.run(request);
    require(comm.last_algorithm() != kLaunched, "launched after tune()");
  }));
}

TEST(PredictOnADevice, MemoryThatNobodyElseCanOpenIsStaged) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real driver does not fail on demand";
  const Costs costs(costs_with(true));
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    const DeviceBytes in(kBytes), out(kBytes);
    std::vector<float> host_in(kCount), host_out(kCount);
    const double host_us = comm.predicted_us(request_of(Verb::all_reduce, host_in.data(), host_out.data()));
    const Request request = request_of(Verb::all_reduce, in.data(), out.data());
    fail("cuIpcGetMemHandle", device::kCuInvalidValue, 1);
    require_near(comm.predicted_us(request), host_us + kToHost_us + kToDevice_us, "not shown");
    require_near(comm.predicted_us(request), 11 + 4 * kTouch_us, "shown");
  }));
}

TEST(PredictOnADevice, OverStreamsNothingIsLaunched) {
  const Costs costs(costs_with(true));
  Options options;
  options.transport = TransportKind::tcp;
  const auto body = [](Communicator& comm) {
    const DeviceBytes in(kBytes), out(kBytes);
    std::vector<float> host_in(kCount), host_out(kCount);
    const double host_us = comm.predicted_us(request_of(Verb::all_reduce, host_in.data(), host_out.data()));
    require_near(comm.predicted_us(request_of(Verb::all_reduce, in.data(), out.data())),
                 host_us + kToHost_us + kToDevice_us, "over streams");
  };
  testing::expect_all_ok(run_processes(2, body, options));
}

TEST(PredictOnADevice, OfADeviceThatNobodyHasMeasuredNothingIsSaid) {
  const Costs costs(costs_with(false));
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes in(kBytes), out(kBytes);
    for (const Verb verb : {Verb::all_reduce, Verb::scan})
      require(comm.predicted_us(request_of(verb, in.data(), out.data())) == 0, "a prediction out of nothing");
  }));
}

// Of calls by name of the algorithm; those that nothing is predicted of are not there.
std::map<std::string, double> predicted_in_trace(bool devices) {
  const Costs costs(costs_with(devices));
  const auto file = std::filesystem::temp_directory_path() / ("device-trace-" + std::to_string(::getpid()) + ".json");
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    const DeviceBytes in(kTraced), out(kTraced);
    std::vector<float> host(kTraced / sizeof(float));
    comm.trace().start(file);
    const auto call = [&](Verb verb, const void* input, void* output) {
      comm.run({.verb = verb,
                .input = input,
                .output = output,
                .input_count = kTraced / sizeof(float),
                .output_count = kTraced / sizeof(float)});
    };
    call(Verb::all_reduce, in.data(), out.data());
    call(Verb::exclusive_scan, in.data(), host.data());
    comm.trace().stop();
  }));
  std::map<std::string, double> found;
  const auto trace = nlohmann::json::parse(std::ifstream(file));
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("cat", "") != "call" || !event.at("args").contains("predicted_us")) continue;
    found[event.at("name")] = event.at("args").at("predicted_us");
  }
  std::filesystem::remove(file);
  return found;
}

// Nobody has measured several devices together: the rates are of one.
TEST(PredictOnADevice, OfRanksWithADeviceEachNothingIsSaid) {
  if (testing::on_real_device()) GTEST_SKIP() << "takes several devices, which only the fake driver has";
  const Costs costs(costs_with(true));
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceMemory<float> own = comm.allocate_device<float>(kCount, kOwnDevice);
    const Request request = request_of(Verb::all_reduce, own.data(), own.data());
    require(comm.predicted_us(request) == 0, "predicted by what a single device takes");
    comm.run(request);
    require(comm.last_algorithm() == testing::kShared, "another way");
    const DeviceBytes together(kBytes);
    const Request shared = request_of(Verb::all_reduce, together.data(), together.data());
    comm.run(shared);
    require_near(comm.predicted_us(shared), 11 + 4 * kTouch_us, "on one device again");
  }));
}

TEST(PredictOnADevice, TracesHaveTheSame) {
  const std::map<std::string, double> found = predicted_in_trace(true);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NEAR(found.at("all_reduce"), 11 + 4 * kTraced / 10e3, 0.01);
  EXPECT_GT(found.at("exclusive_scan"), 7 + kTraced / 2e3) << "and more, in host memory";
  EXPECT_TRUE(predicted_in_trace(false).empty()) << "what was predicted of a device that nobody has measured?";
}

}  // namespace
}  // namespace tutti
