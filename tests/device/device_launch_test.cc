// Ranks whose buffers lie on one device: one of them does the work of all in one launch, with the bits of the
// processor, and where that cannot be the call goes through host memory.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <vector>

#include "check.h"
#include "device/copy.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"
#include "device/on_both.h"
#include "device/said.h"
#include "transport/device_card.h"

namespace tutti {
namespace {

using testing::all_reduce_of;
using testing::Case;
using testing::compare;
using testing::DeviceBytes;
using testing::error_of;
using testing::fake;
using testing::kLaunched;
using testing::kOtherVerbs;
using testing::require;
using testing::TestStream;
using testing::VerbOnBoth;

TEST(DeviceLaunch, HasTheBitsOfTheProcessor) {
  for (const int ranks : {2, 3, 5}) {
    testing::expect_all_ok(run_processes(ranks, [](Communicator& comm) {
      for (const Case tried : {Case{DType::float32, ReduceOp::sum}, Case{DType::float32, ReduceOp::average},
                               Case{DType::float32, ReduceOp::minimum}, Case{DType::float64, ReduceOp::sum},
                               Case{DType::bfloat16, ReduceOp::sum}, Case{DType::bfloat16, ReduceOp::average},
                               Case{DType::bfloat16, ReduceOp::maximum}, Case{DType::float16, ReduceOp::sum},
                               Case{DType::float16, ReduceOp::product}, Case{DType::int32, ReduceOp::average},
                               Case{DType::int64, ReduceOp::product}, Case{DType::uint8, ReduceOp::bor}}) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{1003}}) {
          compare(comm, tried, count, 0, false);
          compare(comm, tried, count, 1, true);
        }
      }
      compare(comm, {DType::float32, ReduceOp::sum}, 300'000, 0, true);
    }));
  }
}

TEST(DeviceLaunch, DoesEveryVerb) {
  for (const int ranks : {2, 3, 5}) {
    testing::expect_all_ok(run_processes(ranks, [](Communicator& comm) {
      for (const Verb verb : kOtherVerbs) {
        for (const bool in_place : {false, true}) {
          const bool launched = !(in_place && verb == Verb::all_to_all);
          for (const auto& [count, shift] : {std::pair<std::size_t, std::size_t>{1, 0}, {1003, 1}, {4096, 0}}) {
            for (const int root : {0, comm.size() - 1}) {
              for (const DType type : {DType::float32, DType::uint8, DType::bfloat16})
                VerbOnBoth(comm, {verb, root, in_place, count, shift, type, launched}).run();
            }
          }
        }
      }
      // What no kernel reduces is moved like all else.
      VerbOnBoth(comm, {Verb::all_gather, 0, false, 77, 0, DType::complex128}).run();
      VerbOnBoth(comm, {Verb::broadcast, 1, false, 77, 0, DType::boolean}).run();
    }));
  }
}

// A root that broadcasts out of host memory shows no card, and is in later calls, of which it does, before others have
// found that out.
TEST(DeviceLaunch, RanksThatLeaveEarlyAreNotWaitedFor) {
  testing::expect_all_ok(run_processes(3, [](Communicator& comm) {
    constexpr int kEarly = 4;           // as many as there are channels: the next one writes over the card of the first
    constexpr std::size_t kCount = 16;  // few enough for a root to leave at once
    comm.set_timeout(std::chrono::seconds(10));
    Communicator beside = comm.duplicate();
    const DeviceBytes on_device(kCount * sizeof(int));
    std::vector<int> values(kCount);
    const auto broadcast = [&](void* buffer, int root) {
      comm.run({.verb = Verb::broadcast,
                .input = buffer,
                .output = buffer,
                .input_count = kCount,
                .output_count = kCount,
                .element = DType::int32,
                .root = root});
    };
    for (int round = 0; round < 20; ++round) {
      const int root = round % 3;
      const bool is_root = comm.rank() == root;
      if (!is_root) beside.recv(std::span<int>(values.data(), 1), root);
      for (int call = 0; call <= kEarly; ++call) {
        values.assign(kCount, is_root ? 10 * round + call : -1);
        on_device.write(values.data(), on_device.size());
        for (int other = 0; is_root && call == kEarly && other < comm.size(); ++other) {
          if (other != root) beside.send(std::span<const int>(&other, 1), other);
        }
        const bool in_host = is_root && call < kEarly;
        broadcast(in_host ? static_cast<void*>(values.data()) : on_device.data(), root);
        require((comm.last_algorithm() == kLaunched) == (call == kEarly), "another way");
        if (!in_host) on_device.read(values.data(), on_device.size());
        require(values == std::vector<int>(kCount, 10 * round + call), "another value");
      }
    }
  }));
}

// A rank that leaves a later call may say so before all have seen what became of this one.
TEST(DeviceLaunch, WhatBecameOfACallOutlastsLaterOnes) {
  using transport::LaunchState;
  transport::DeviceCard first{};
  ASSERT_TRUE(begin_outcome(first, 8, LaunchState::launching));
  EXPECT_EQ(outcome_of(first, 8), LaunchState::launching);
  ASSERT_TRUE(end_outcome(first, 8, LaunchState::done));
  for (const std::uint64_t later : {12, 16}) {
    EXPECT_EQ(outcome_of(first, later), LaunchState::launching);
    ASSERT_TRUE(begin_outcome(first, later, LaunchState::through_host));
    EXPECT_EQ(outcome_of(first, 8), LaunchState::done);
    EXPECT_EQ(outcome_of(first, later), LaunchState::through_host);
  }
  EXPECT_EQ(outcome_of(first, 12), LaunchState::through_host);
  ASSERT_TRUE(begin_outcome(first, 20, LaunchState::launching));
  ASSERT_TRUE(end_outcome(first, 20, LaunchState::through_host));
  ASSERT_TRUE(begin_outcome(first, 24, LaunchState::launching));
  EXPECT_FALSE(end_outcome(first, 8, LaunchState::done)) << "somebody who found so, too, and comes late";
  ASSERT_TRUE(end_outcome(first, 24, LaunchState::done));
  EXPECT_FALSE(end_outcome(first, 8, LaunchState::done));
  ASSERT_TRUE(begin_outcome(first, 28, LaunchState::through_host));
  EXPECT_EQ(outcome_of(first, 20), LaunchState::through_host);
  EXPECT_EQ(outcome_of(first, 24), LaunchState::done);
}

// A process cannot open what it has shown itself. In one of their own: none can be forked from a process that has used
// a device.
TEST(DeviceLaunch, ThreadsOfOneProcessUseTheirPointers) {
  testing::expect_all_ok(run_processes(1, [](Communicator&) {
    const auto ends = run_threads(3, [](Communicator& comm) {
      compare(comm, {DType::float32, ReduceOp::sum}, 1003, 0, false);
      compare(comm, {DType::bfloat16, ReduceOp::average}, 1003, 1, true);
    });
    for (const RankEnd& end : ends) require(end.ok(), end.message);
  }));
}

TEST(DeviceLaunch, IsOneForAllRanks) {
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  if (calls == nullptr) GTEST_SKIP() << "only the fake driver counts";
  testing::expect_all_ok(run_processes(3, [&](Communicator& comm) {
    const DeviceBytes buffer(4000);
    for (int call = 0; call < 20; ++call) comm.run(all_reduce_of(buffer.data(), buffer.data(), 1000, DType::int32));
    std::vector<int> counts = {calls("cuLaunchKernel"), calls("cuMemcpyDtoHAsync_v2")};
    comm.all_reduce(counts);
    require(counts[0] == 20, std::to_string(counts[0]) + " launches");
    require(counts[1] == 0, std::to_string(counts[1]) + " copies to the host");
  }));
}

TEST(DeviceLaunch, MemoryFreedAndAllocatedAnewIsAnother) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    for (int round = 0; round < 10; ++round) {
      const DeviceBytes buffer(64 << 10);
      const std::vector<int> values(16 << 10, round + comm.rank());
      buffer.write(values.data(), buffer.size());
      comm.run(all_reduce_of(buffer.data(), buffer.data(), values.size(), DType::int32));
      require(comm.last_algorithm() == kLaunched, "not launched");
      std::vector<int> found(values.size());
      buffer.read(found.data(), buffer.size());
      require(found == std::vector<int>(values.size(), 2 * round + 1), "another sum");
    }
  }));
}

TEST(DeviceLaunch, ComesAfterTheStream) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const TestStream stream;
    const DeviceBytes buffer(4000);
    for (int round = 0; round < 20; ++round) {
      const testing::PinnedFloats values(1000);
      std::fill_n(values.data(), 1000, static_cast<float>(round + comm.rank()));
      stream.write(buffer.data(), values.data(), buffer.size());
      Request request = all_reduce_of(buffer.data(), buffer.data(), 1000, DType::float32);
      request.stream = stream.get();
      comm.run(request);
      require(comm.last_algorithm() == kLaunched, "not launched");
      std::vector<float> found(1000);
      buffer.read(found.data(), buffer.size());
      require(found == std::vector<float>(1000, static_cast<float>(2 * round + 1)), "another sum");
    }
  }));
}

// What one rank lacks, all of them do without; the sum is right all the same, and the next call is launched again.
void run_without(const std::function<void(Communicator&)>& spoil, bool launched_again = true) {
  testing::expect_all_ok(run_processes(3, [&](Communicator& comm) {
    const DeviceBytes buffer(4000);
    const auto sum = [&](const char* what) {
      const std::vector<int> values(1000, comm.rank() + 1);
      buffer.write(values.data(), buffer.size());
      comm.run(all_reduce_of(buffer.data(), buffer.data(), 1000, DType::int32));
      std::vector<int> found(1000);
      buffer.read(found.data(), buffer.size());
      require(found == std::vector<int>(1000, 6), what);
    };
    spoil(comm);
    sum("another sum without");
    require(comm.last_algorithm() != kLaunched, "launched all the same");
    sum("another sum afterwards");
    if (launched_again) require(comm.last_algorithm() == kLaunched, "not launched again");
  }));
}

TEST(DeviceLaunch, WhereARankShowsNoMemoryAllGoThroughTheHost) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real driver does not fail on demand";
  run_without([&](Communicator& comm) {
    if (comm.rank() == 1) fail("cuIpcGetMemHandle", device::kCuInvalidValue, 1);
  });
}

TEST(DeviceLaunch, WhereMemoryCannotBeOpenedAllGoThroughTheHost) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real driver does not fail on demand";
  run_without([&](Communicator&) { fail("cuIpcOpenMemHandle_v2", device::kCuInvalidValue, 1); }, false);
}

TEST(DeviceLaunch, WhereKernelsCannotBeCompiledAllGoThroughTheHost) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real compiler does not fail on demand";
  run_without([&](Communicator&) { fail("nvrtcCompileProgram", device::kCuInvalidValue, 1); }, false);
}

TEST(DeviceLaunch, BuffersInHostMemoryAndAsyncCallsMixWithOthers) {
  testing::expect_all_ok(run_processes(3, [](Communicator& comm) {
    for (int odd_one = 0; odd_one < 3; ++odd_one) {
      const DeviceBytes buffer(4000);
      std::vector<int> values(1000, comm.rank() + 1);
      buffer.write(values.data(), buffer.size());
      if (comm.rank() == odd_one) {
        comm.all_reduce(values);
      } else {
        comm.run(all_reduce_of(buffer.data(), buffer.data(), 1000, DType::int32));
        buffer.read(values.data(), buffer.size());
      }
      require(values == std::vector<int>(1000, 6), "another sum with host memory");
      require(comm.last_algorithm() != kLaunched, "launched without a buffer");
      Request request = all_reduce_of(buffer.data(), buffer.data(), 1000, DType::int32, ReduceOp::maximum);
      if (comm.rank() == odd_one) {
        buffer.write(values.data(), buffer.size());
        comm.submit(request).wait();
      } else {
        comm.run(request);
      }
      buffer.read(values.data(), buffer.size());
      require(values == std::vector<int>(1000, 6), "another maximum with an async call");
    }
  }));
}

// Of a call that nobody waits for, the progress thread launches.
TEST(AsyncLaunch, IsOneForAllRanks) {
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  testing::expect_all_ok(run_processes(3, [&](Communicator& comm) {
    constexpr int kCalls = 6;  // more than there are tracks
    std::vector<std::unique_ptr<DeviceBytes>> buffers;
    for (int call = 0; call < kCalls; ++call) {
      buffers.push_back(std::make_unique<DeviceBytes>(4000));
      const std::vector<int> values(1000, comm.rank() + call);
      buffers.back()->write(values.data(), 4000);
    }
    const int launches = calls == nullptr ? 0 : calls("cuLaunchKernel");
    const int copies = calls == nullptr ? 0 : calls("cuMemcpyDtoHAsync_v2");
    std::vector<Work> works;
    for (const auto& buffer : buffers)
      works.push_back(comm.submit(all_reduce_of(buffer->data(), buffer->data(), 1000, DType::int32)));
    wait_all(works);
    if (calls != nullptr) {
      std::vector<int> counts = {calls("cuLaunchKernel") - launches, calls("cuMemcpyDtoHAsync_v2") - copies};
      comm.all_reduce(counts);
      require(counts[0] == kCalls, std::to_string(counts[0]) + " launches");
      require(counts[1] == 0, std::to_string(counts[1]) + " copies to the host");
    }
    for (int call = 0; call < kCalls; ++call) {
      std::vector<int> found(1000);
      buffers[static_cast<std::size_t>(call)]->read(found.data(), 4000);
      require(found == std::vector<int>(1000, 3 + 3 * call), "another sum");
    }
  }));
}

TEST(AsyncLaunch, FollowsAStreamWithoutHoldingIt) {
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    const TestStream stream;
    const DeviceBytes buffer(4000);
    comm.follow_stream(stream.get());
    for (int round = 0; round < 10; ++round) {
      const testing::PinnedFloats values(1000), seen(1000);
      std::fill_n(values.data(), 1000, static_cast<float>(round + comm.rank()));
      const int launches = calls == nullptr ? 0 : calls("cuLaunchKernel");
      device::StreamGate gate = stream.hold();
      stream.write(buffer.data(), values.data(), buffer.size());
      Work work = comm.all_reduce_async(std::span(reinterpret_cast<float*>(buffer.data()), 1000));
      comm.barrier();
      require(!work.test(), "a call ended before its stream came to it");
      if (comm.rank() == 0) {
        gate.open();
        stream.synchronize();  // which goes on without the other rank's
      }
      comm.barrier();
      require(!work.test(), "a call ended before the other rank's stream came to it");
      comm.barrier();
      if (comm.rank() == 1) gate.open();
      work.wait();
      std::vector<float> found(1000);
      buffer.read(found.data(), buffer.size());
      require(found == std::vector<float>(1000, static_cast<float>(2 * round + 1)), "another sum");
      if (calls != nullptr) {
        std::vector<int> count = {calls("cuLaunchKernel") - launches};
        comm.all_reduce(count);
        require(count[0] == 1, "not launched");
      }
      device::StreamGates::of_process().give_back(gate);
    }
  }));
}

// A thread that frees memory waits for all streams, and whoever puts work into one for that thread: no longer than the
// streams take by themselves.
TEST(AsyncLaunch, GoesOnWhileMemoryIsFreed) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes buffer(4000), received(4040);
    for (int round = 0; round < 10; ++round) {
      const std::vector<int> values(1000, round);
      buffer.write(values.data(), buffer.size());
      std::vector<Work> works;
      works.push_back(comm.submit(all_reduce_of(buffer.data(), buffer.data(), 1000, DType::int32)));
      works.push_back(comm.recv_async(std::span(reinterpret_cast<int*>(received.data()), 1000), 1 - comm.rank()));
      for (int freed = 0; freed < 5; ++freed) const DeviceBytes unwanted(4000);
      comm.send(std::span<const int>(values), 1 - comm.rank());
      wait_all(works);
      std::vector<int> found(1000);
      buffer.read(found.data(), buffer.size());
      require(found == std::vector<int>(1000, 2 * round), "another sum");
      received.read(found.data(), 4000);
      require(found == values, "another message");
    }
  }));
}

TEST(AsyncLaunch, ACallThatHoldsAStreamWaitsForThoseThatHoldNone) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const TestStream followed, held;
    const DeviceBytes one(4000), two(4000);
    const std::vector<int> values(1000, 1);
    one.write(values.data(), one.size());
    two.write(values.data(), two.size());
    comm.run(all_reduce_of(two.data(), two.data(), 1000, DType::int32, ReduceOp::maximum));  // loads the kernel
    device::StreamGate gate = followed.hold();
    comm.follow_stream(followed.get());
    Work work = comm.submit(all_reduce_of(one.data(), one.data(), 1000, DType::int32, ReduceOp::maximum));
    Request request = all_reduce_of(two.data(), two.data(), 1000, DType::int32);
    request.stream = held.get();
    const auto timeout = comm.timeout();
    comm.set_timeout(std::chrono::milliseconds(50));
    const Error error = error_of([&] { static_cast<void>(comm.submit(request)); });
    require(error.code() == ErrorCode::timeout, error.what());
    require(std::string(error.what()).find("wait for them first") != std::string::npos, error.what());
    comm.set_timeout(timeout);
    gate.open();
    Work second = comm.submit(request);
    work.wait();
    // And the other way round: what is made now does not rely on streams that nobody holds.
    Work third = comm.submit(all_reduce_of(one.data(), one.data(), 1000, DType::int32));
    { const DeviceBytes unwanted(4000); }
    second.wait();
    third.wait();
    std::vector<int> found(1000);
    for (const DeviceBytes* buffer : {&one, &two}) {
      buffer->read(found.data(), buffer->size());
      require(found == std::vector<int>(1000, 2), "another sum");
    }
    device::StreamGates::of_process().give_back(gate);
  }));
}

TEST(DeviceMemory, IsOpenedByAllRanksWhenItIsAllocated) {
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  testing::expect_all_ok(run_processes(3, [&](Communicator& comm) {
    const DeviceMemory<int> values = comm.allocate_device<int>(1000);
    require(values.size() == 1000, "another size");
    const int opened = calls == nullptr ? 0 : calls("cuIpcOpenMemHandle_v2");
    if (calls != nullptr) require(opened == 2, std::to_string(opened) + " parts opened");
    for (int round = 0; round < 3; ++round) {
      comm.all_reduce(values.span(), ReduceOp::maximum);
      require(comm.last_algorithm() == kLaunched, "not launched");
    }
    if (calls != nullptr) require(calls("cuIpcOpenMemHandle_v2") == opened, "opened in a call");
    std::vector<int> found(1000, -1);
    device::copy_anywhere(found.data(), values.data(), 4000);
    require(found == std::vector<int>(1000), "not zeroed");
  }));
}

TEST(DeviceMemory, FailsOnAllRanksOrOnNone) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  auto* const live = fake<int()>("fake_cuda_live");
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    const auto says = [](const Error& error, const char* words) {
      require(std::string(error.what()).find(words) != std::string::npos, error.what());
    };
    says(error_of([&] { static_cast<void>(comm.allocate_device<float>(10, 99)); }), "there is no device 99");
    if (fail != nullptr) {
      comm.barrier();
      const int before = live();
      if (comm.rank() == 1) fail("cuMemAlloc_v2", device::kCuOutOfMemory, 1);
      const Error error = error_of([&] { static_cast<void>(comm.allocate_device<float>(10)); });
      require(error.code() == ErrorCode::system, error.what());
      says(error, comm.rank() == 1 ? "allocating 40 bytes on device 0 failed: CUDA_ERROR_OUT_OF_MEMORY"
                                   : "rank 1 got no 40 bytes");
      require(live() == before, "memory is left");
    }
    const DeviceMemory<float> values = comm.allocate_device<float>(10);
    comm.all_reduce(values.span());
    const Error error = error_of([&] { static_cast<void>(comm.allocate_device<char>(comm.rank() == 0 ? 10 : 11)); });
    require(error.code() == ErrorCode::mismatch, error.what());
  }));
}

TEST(DeviceLaunch, WhichWayIsTakenIsSaidOnce) {
  const std::string said = testing::said_by(2, "info", [](Communicator& comm) {
    const DeviceBytes buffer(4000);
    std::vector<int> host(1000);
    for (int call = 0; call < 3; ++call) {
      comm.run(all_reduce_of(buffer.data(), buffer.data(), 1000, DType::int32));
      comm.run(all_reduce_of(host.data(), buffer.data(), 1000, DType::int32));
    }
  });
  for (const char* words : {"all_reduce on device memory: one rank launches a kernel for all",
                            "all_reduce on device memory: through host memory, by "})
    EXPECT_EQ(testing::times_in(said, words), 2U) << words << " is to be said once by each rank:\n" << said;
}

TEST(DeviceLaunch, AnotherCallIsTold) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes buffer(4000);
    const std::size_t count = comm.rank() == 0 ? 1000 : 999;
    const Error error = error_of([&] { comm.run(all_reduce_of(buffer.data(), buffer.data(), count, DType::int32)); });
    require(error.code() == ErrorCode::mismatch, error.what());
  }));
}

TEST(DeviceLaunch, ARankThatDiesWhileItLaunchesIsNamed) {
  auto* const kill_at = fake<void(const char*)>("fake_cuda_kill_at");
  if (kill_at == nullptr) GTEST_SKIP() << "a real driver does not kill on demand";
  const std::vector<RankEnd> ends = run_processes(3, [&](Communicator& comm) {
    const DeviceBytes buffer(4000);
    comm.barrier();
    kill_at("cuLaunchKernel");
    const Error error = error_of([&] { comm.run(all_reduce_of(buffer.data(), buffer.data(), 1000, DType::int32)); });
    require(error.code() == ErrorCode::peer_lost && error.peer() >= 0, error.what());
  });
  testing::expect_one_killed(ends);
}

TEST(DeviceLaunch, ADeviceThatRefusesTheLaunchIsTold) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real driver does not fail on demand";
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    const DeviceBytes buffer(4000);
    fail("cuLaunchKernel", 700, 1);
    const Error error = error_of([&] { comm.run(all_reduce_of(buffer.data(), buffer.data(), 1000, DType::int32)); });
    require(error.code() == ErrorCode::system || error.code() == ErrorCode::peer_failed, error.what());
    if (error.code() == ErrorCode::system)
      require(std::string(error.what()).find("launching a kernel on device 0") != std::string::npos, error.what());
  }));
}

}  // namespace
}  // namespace tutti
