// Ranks with a device each: one rank of each device does the device's share of the work of all, with the bits of the
// processor, and where that cannot be on all of them, the call goes through host memory on all of them.
//
// A machine with one GPU cannot run it: over the fake driver alone, which lets kernels touch the memory of other
// devices only where they asked for it.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"
#include "device/held_kernel.h"
#include "device/on_both.h"
#include "device/said.h"

namespace tutti {
namespace {

using testing::all_reduce_of;
using testing::Case;
using testing::compare;
using testing::DeviceBytes;
using testing::error_of;
using testing::expect_one_killed;
using testing::fake;
using testing::fill;
using testing::give_up_beside_a_held_kernel;
using testing::kBytes;
using testing::kCount;
using testing::kLaunched;
using testing::kShared;
using testing::MeetingPoint;
using testing::Place;
using testing::require;
using testing::said_by;
using testing::sum_of;
using testing::TestStream;
using testing::VerbOnBoth;

class OwnShares : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::on_real_device()) GTEST_SKIP() << "takes several devices, which only the fake driver has";
  }
};

void require_filled(const DeviceBytes& buffer, int value, const std::string& what) {
  std::vector<int> found(kCount);
  buffer.read(found.data(), kBytes);
  require(found == std::vector<int>(kCount, value), what + ": " + std::to_string(found[0]) + " to " +
                                                        std::to_string(found[kCount - 1]) + ", not " +
                                                        std::to_string(value));
}

// Over all ranks.
int total_of(Communicator& comm, int value) {
  std::vector<int> values = {value};
  comm.all_reduce(values);
  return values[0];
}

int calls_of(const char* function) { return fake<int(const char*)>("fake_cuda_calls")(function); }

// Which devices ranks are on.
struct Placement {
  const char* name;
  int ranks, devices;
  int (*device_of)(int rank);
};
constexpr Placement kPlacements[] = {{"2 ranks", 2, 2, [](int rank) { return rank; }},
                                     {"3 ranks, the other way round", 3, 3, [](int rank) { return 3 - rank; }},
                                     {"4 ranks", 4, 4, [](int rank) { return rank; }},
                                     {"4 ranks on 2 devices", 4, 2, [](int rank) { return rank / 2; }},
                                     {"4 ranks on 2 devices, in turn", 4, 2, [](int rank) { return rank % 2; }},
                                     {"4 ranks on 3 devices", 4, 3, [](int rank) { return rank == 3 ? 0 : rank; }}};

void do_every_verb(Communicator& comm, const Placement& placement) {
  const Place place{placement.device_of(comm.rank()), kShared};
  for (const Verb verb : testing::kOtherVerbs) {
    for (const bool in_place : {false, true}) {
      const bool launched = !(in_place && verb == Verb::all_to_all);
      for (const auto& [count, shift] : {std::pair<std::size_t, std::size_t>{1, 0}, {1003, 1}, {4096, 0}}) {
        for (const int root : {0, comm.size() - 1}) {
          for (const DType type : {DType::float32, DType::bfloat16})
            VerbOnBoth(comm, {verb, root, in_place, count, shift, type, launched, place}).run();
        }
      }
    }
  }
  VerbOnBoth(comm, {Verb::all_gather, 0, false, 77, 0, DType::complex128, true, place}).run();
  VerbOnBoth(comm, {Verb::broadcast, 1, false, 777, 3, DType::uint8, true, place}).run();
}

void reduce_every_way(Communicator& comm, const Placement& placement) {
  const Place place{placement.device_of(comm.rank()), kShared};
  for (const Case tried : {Case{DType::float32, ReduceOp::sum}, Case{DType::float32, ReduceOp::average},
                           Case{DType::float64, ReduceOp::sum}, Case{DType::bfloat16, ReduceOp::average},
                           Case{DType::float16, ReduceOp::product}, Case{DType::int32, ReduceOp::average},
                           Case{DType::int64, ReduceOp::product}, Case{DType::uint8, ReduceOp::bor}}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{127}, std::size_t{1003}}) {
      compare(comm, tried, count, 0, false, place);
      compare(comm, tried, count, 1, true, place);
    }
  }
  compare(comm, {DType::float32, ReduceOp::sum}, 300'000, 0, true, place);
}

TEST_F(OwnShares, DoEveryVerb) {
  for (const Placement& placement : kPlacements) {
    SCOPED_TRACE(placement.name);
    testing::expect_all_ok(run_processes(placement.ranks, [&](Communicator& comm) { do_every_verb(comm, placement); }));
  }
}

TEST_F(OwnShares, HaveTheBitsOfTheProcessor) {
  for (const Placement& placement : kPlacements) {
    SCOPED_TRACE(placement.name);
    testing::expect_all_ok(
        run_processes(placement.ranks, [&](Communicator& comm) { reduce_every_way(comm, placement); }));
  }
}

// Whose kernels may touch each other's memory only after the driver was asked. In a process of their own: none can be
// forked from one that has used a device.
TEST_F(OwnShares, ThreadsOfOneProcessEnableTheirPeers) {
  testing::expect_all_ok(run_processes(1, [](Communicator&) {
    const Placement& placement = kPlacements[4];
    const auto ends = run_threads(placement.ranks, [&](Communicator& comm) {
      do_every_verb(comm, placement);
      reduce_every_way(comm, placement);
    });
    for (const RankEnd& end : ends) require(end.ok(), end.message);
    require(calls_of("cuCtxEnablePeerAccess") == 2, "each device enables the other, once");
  }));
}

TEST_F(OwnShares, AreOneLaunchOfEachDevice) {
  for (const Placement& placement : kPlacements) {
    SCOPED_TRACE(placement.name);
    testing::expect_all_ok(run_processes(placement.ranks, [&](Communicator& comm) {
      const DeviceBytes buffer(kBytes, placement.device_of(comm.rank()));
      fill(buffer, 0);
      for (int call = 0; call < 20; ++call) comm.run(sum_of(buffer));
      require(comm.last_algorithm() == kShared, "another way");
      const int launches = total_of(comm, calls_of("cuLaunchKernel")),
                copies = total_of(comm, calls_of("cuMemcpyDtoHAsync_v2"));
      require(launches == 20 * placement.devices, std::to_string(launches) + " launches");
      require(copies == 0, std::to_string(copies) + " copies to the host");
    }));
  }
}

TEST_F(OwnShares, OfAFewElementsOneDeviceDoesAll) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes buffer(kBytes, comm.rank());
    fill(buffer, comm.rank() + 1);
    comm.run(all_reduce_of(buffer.data(), buffer.data(), 10, DType::int32));
    require(comm.last_algorithm() == kShared, "another way");
    require(total_of(comm, calls_of("cuLaunchKernel")) == 1, "more than one launch");
  }));
}

TEST_F(OwnShares, ComeAfterEveryRanksStream) {
  testing::expect_all_ok(run_processes(3, [](Communicator& comm) {
    fake<void(unsigned)>("fake_cuda_seed")(static_cast<unsigned>(comm.rank() + 1));
    const TestStream stream(comm.rank());
    const DeviceBytes buffer(kBytes, comm.rank());
    const testing::PinnedFloats values(kCount);
    for (int round = 0; round < 40; ++round) {
      std::fill_n(values.data(), kCount, static_cast<float>(round + comm.rank()));
      stream.write(buffer.data(), values.data(), kBytes);
      Request request = all_reduce_of(buffer.data(), buffer.data(), kCount, DType::float32);
      request.stream = stream.get();
      comm.run(request);
      require(comm.last_algorithm() == kShared, "another way");
      std::vector<float> found(kCount);
      buffer.read(found.data(), kBytes);
      require(found == std::vector<float>(kCount, static_cast<float>(3 * round + 3)), "another sum");
    }
  }));
}

// Launches begin and end in all orders, and calls on one device, on several and in host memory follow each other.
TEST_F(OwnShares, MixWithOtherWays) {
  testing::expect_all_ok(run_processes(3, [](Communicator& comm) {
    std::mt19937 random(7);  // the same on all ranks
    std::mt19937 own(static_cast<unsigned>(comm.rank()));
    auto* const delay = fake<void(const char*, int)>("fake_cuda_delay");
    const DeviceBytes shared(kBytes), mine(kBytes, comm.rank());
    std::vector<int> host(kCount);
    for (int round = 0; round < 100; ++round) {
      for (const char* function : {"cuLaunchKernel", "cuStreamQuery", "cuPointerGetAttributes"})
        delay(function, own() % 4 == 0 ? static_cast<int>(own() % 300) : 0);
      const unsigned way = random() % 4;
      const int odd_one = static_cast<int>(random() % 3);
      const DeviceBytes& buffer = way == 0 ? shared : mine;
      fill(buffer, round + comm.rank());
      if (way == 3 && comm.rank() == odd_one) {
        host.assign(kCount, round + comm.rank());
        comm.run(all_reduce_of(host.data(), host.data(), kCount, DType::int32));
      } else {
        comm.run(sum_of(buffer));
        require_filled(buffer, 3 * round + 3, "another sum");
      }
      const std::string_view by = comm.last_algorithm();
      require(by == (way == 0   ? kLaunched
                     : way == 3 ? by
                                : kShared) &&
                  (way != 3 || (by != kLaunched && by != kShared)),
              "way " + std::to_string(way) + " was done by " + std::string(by));
    }
  }));
}

TEST_F(OwnShares, AsyncCallsAreDoneSoToo) {
  testing::expect_all_ok(run_processes(3, [](Communicator& comm) {
    constexpr int kCalls = 6;  // more than there are tracks
    std::vector<std::unique_ptr<DeviceBytes>> buffers;
    for (int call = 0; call < kCalls; ++call) {
      buffers.push_back(std::make_unique<DeviceBytes>(kBytes, comm.rank()));
      fill(*buffers.back(), comm.rank() + call);
    }
    std::vector<Work> works;
    for (const auto& buffer : buffers) works.push_back(comm.submit(sum_of(*buffer)));
    wait_all(works);
    for (int call = 0; call < kCalls; ++call)
      require_filled(*buffers[static_cast<std::size_t>(call)], 3 + 3 * call, "another sum");
    require(total_of(comm, calls_of("cuLaunchKernel")) == 3 * kCalls, "another way");
  }));
}

TEST_F(OwnShares, MemoryThatIsAllocatedTogetherIsOpenOnAllDevices) {
  testing::expect_all_ok(run_processes(3, [](Communicator& comm) {
    const DeviceMemory<int> values = comm.allocate_device<int>(kCount, comm.rank());
    const int opened = calls_of("cuIpcOpenMemHandle_v2");
    require(opened == 2, std::to_string(opened) + " parts opened");
    comm.all_reduce(values.span(), ReduceOp::maximum);
    require(comm.last_algorithm() == kShared, "another way");
    require(calls_of("cuIpcOpenMemHandle_v2") == opened, "opened in a call");
  }));
}

// ---- where it cannot be

// What one rank lacks, all of them do without, and nobody has launched anything: the sum is right, in place.
void run_without(int ranks, const std::function<void(Communicator&)>& spoil) {
  testing::expect_all_ok(run_processes(ranks, [&](Communicator& comm) {
    const DeviceBytes buffer(kBytes, comm.rank());
    fill(buffer, comm.rank() + 1);
    spoil(comm);
    comm.run(sum_of(buffer));
    require(comm.last_algorithm() != kShared, "done all the same");
    require_filled(buffer, comm.size() * (comm.size() + 1) / 2, "another sum");
    require(total_of(comm, calls_of("cuLaunchKernel")) == 0, "some launched before all could");
  }));
}

TEST_F(OwnShares, WithoutPeerAccessAllGoThroughTheHost) {
  for (const int odd_one : {0, 2}) {
    run_without(3, [&](Communicator& comm) {
      if (comm.rank() == odd_one) fake<void(int, int)>("fake_cuda_part")(odd_one, 1);
    });
  }
  testing::expect_all_ok(run_processes(1, [](Communicator&) {
    const auto ends = run_threads(3, [](Communicator& comm) {
      testing::test_driver();
      if (comm.rank() == 1) fake<void(int, int)>("fake_cuda_part")(1, 2);
      comm.barrier();
      const DeviceBytes buffer(kBytes, comm.rank());
      fill(buffer, comm.rank() + 1);
      comm.run(sum_of(buffer));
      require(comm.last_algorithm() != kShared, "done all the same");
      require_filled(buffer, 6, "another sum");
      comm.barrier();  // before buffers go
    });
    for (const RankEnd& end : ends) require(end.ok(), end.message);
  }));
}

TEST_F(OwnShares, WhatCannotBePreparedOnOneDeviceIsDoneByNone) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  for (const char* function : {"cuIpcOpenMemHandle_v2", "nvrtcCompileProgram", "cuDeviceCanAccessPeer"}) {
    SCOPED_TRACE(function);
    run_without(3, [&](Communicator& comm) {
      if (comm.rank() == 1) fail(function, device::kCuInvalidValue, 1);
    });
  }
}

TEST_F(OwnShares, WhichWayIsTakenAndWhyNotIsSaidOnce) {
  const auto sums = [](Communicator& comm) {
    const DeviceBytes buffer(kBytes, comm.rank());
    for (int call = 0; call < 3; ++call) comm.run(sum_of(buffer));
  };
  const std::string said = said_by(2, "info", sums);
  const char* const words = "all_reduce on device memory: each device does its share by a kernel of its own";
  EXPECT_EQ(testing::times_in(said, words), 2U) << said;
  const std::string apart = said_by(2, "info", [&](Communicator& comm) {
    testing::test_driver();
    if (comm.rank() == 0) fake<void(int, int)>("fake_cuda_part")(0, 1);
    sums(comm);
  });
  EXPECT_EQ(testing::times_in(apart, "device 0 cannot reach device 1: the driver has no peer access"), 1U) << apart;
  EXPECT_EQ(testing::times_in(apart, "all_reduce on device memory: through host memory, by "), 2U) << apart;
}

// ---- failures

TEST_F(OwnShares, ADeviceThatRefusesItsLaunchIsTold) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  for (const int refused : {0, 1, 2}) {
    testing::expect_all_ok(run_processes(3, [&](Communicator& comm) {
      const DeviceBytes buffer(kBytes, comm.rank());
      fill(buffer, 1);
      comm.run(sum_of(buffer));
      if (comm.rank() == refused) fail("cuLaunchKernel", 700, 1);
      const Error error = error_of([&] { comm.run(sum_of(buffer)); });
      const std::string words = error.what();
      if (comm.rank() == refused) {
        require(error.code() == ErrorCode::system, words);
        require(words.find("launching a kernel on device " + std::to_string(refused)) != std::string::npos, words);
      } else {
        require(error.code() == ErrorCode::peer_failed && error.peer() == refused, words);
      }
    }));
  }
}

// When all have prepared, some have launched, and one that should is gone.
TEST_F(OwnShares, ARankThatDiesBeforeItsLaunchIsNamed) {
  for (const int killed : {0, 2}) {
    expect_one_killed(run_processes(3, [&](Communicator& comm) {
      const DeviceBytes buffer(kBytes, comm.rank());
      fill(buffer, 1);
      comm.barrier();
      if (comm.rank() == killed) fake<void(const char*)>("fake_cuda_kill_at")("cuLaunchKernel");
      const Error error = error_of([&] { comm.run(sum_of(buffer)); });
      require(error.code() == ErrorCode::peer_lost && error.peer() == killed, error.what());
    }));
  }
}

TEST_F(OwnShares, ARankThatDiesWhileItsKernelRunsIsNamed) {
  expect_one_killed(run_processes(3, [](Communicator& comm) {
    const DeviceBytes buffer(kBytes, comm.rank());
    fill(buffer, 1);
    comm.run(sum_of(buffer));
    comm.barrier();
    if (comm.rank() == 1) {
      fake<void(int)>("fake_cuda_hold_kernels")(1);
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ::kill(::getpid(), SIGKILL);
      }).detach();
    }
    const Error error = error_of([&] { comm.run(sum_of(buffer)); });
    require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
  }));
}

// A rank whose time is over while a kernel of its own device or of another one still writes to its buffer: when it is
// told, the buffer is its own again.
TEST_F(OwnShares, NobodyWritesToTheBuffersOfARankThatGaveUp) {
  for (const bool async : {false, true}) {
    for (const int slow : {0, 1}) {
      for (const int impatient : {0, 1}) {
        const MeetingPoint ended;
        testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
          give_up_beside_a_held_kernel(comm, comm.rank(), comm.rank() == slow, comm.rank() == impatient, async, ended);
        }));
      }
    }
  }
}

// One prepares for so long that another gives up meanwhile: then nobody launches.
TEST_F(OwnShares, NobodyLaunchesForARankThatGaveUp) {
  const MeetingPoint ended;
  testing::expect_all_ok(run_processes(3, [&](Communicator& comm) {
    const DeviceBytes buffer(kBytes, comm.rank());
    fill(buffer, comm.rank() + 1);
    comm.barrier();
    if (comm.rank() == 1) fake<void(const char*, int)>("fake_cuda_delay")("cuIpcOpenMemHandle_v2", 300'000);
    if (comm.rank() == 2) comm.set_timeout(std::chrono::milliseconds(100));
    const Error error = error_of([&] { comm.run(sum_of(buffer)); });
    require(error.code() == (comm.rank() == 2 ? ErrorCode::timeout : ErrorCode::peer_failed), error.what());
    require_filled(buffer, comm.rank() + 1, "written to");
    ended.meet(3);
    require_filled(buffer, comm.rank() + 1, "written to later");
    require(calls_of("cuLaunchKernel") == 0, "launched");
  }));
}

}  // namespace
}  // namespace tutti
