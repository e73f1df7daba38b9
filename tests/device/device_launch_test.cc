// Ranks whose buffers lie on one device: one of them does the work of all in one launch, with the bits of the
// processor, and where that cannot be the call goes through host memory.
#include <gtest/gtest.h>
#include <signal.h>

#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "check.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"

namespace tutti {
namespace {

using testing::all_reduce_of;
using testing::DeviceBytes;
using testing::error_of;
using testing::require;
using testing::TestStream;

constexpr std::string_view kLaunched = "one_launch";

template <class Function>
Function* fake(const char* name) {
  return reinterpret_cast<Function*>(testing::fake_function(name));
}

// Elements of any type, with what floats have special among them.
std::vector<std::byte> make_values(DType type, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count * size_of(type));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto put = [&](std::size_t i, auto value) {
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(static_cast<std::int64_t>(random() % 2000) - 1000) / 64;
    const bool special = i % 97 == seed % 97;
    if (type == DType::float32)
      put(i, special ? std::numeric_limits<float>::infinity() : static_cast<float>(value / 3));
    if (type == DType::float64) put(i, special ? -std::numeric_limits<double>::quiet_NaN() : value / 3);
  }
  return bytes;
}

struct Case {
  DType type;
  ReduceOp op;
};

// Of the processor, and of the device: the same bits.
void compare(Communicator& comm, const Case& tried, std::size_t count, std::size_t shift, bool in_place) {
  const std::size_t element = size_of(tried.type), bytes = count * element;
  const auto values = make_values(tried.type, count, static_cast<unsigned>(comm.rank() + 7));
  std::vector<std::byte> expected(bytes), found(bytes);
  comm.run(all_reduce_of(values.data(), expected.data(), count, tried.type, tried.op));
  const DeviceBytes input(bytes + shift * element), output(bytes + shift * element);
  std::byte* const from = input.data() + shift * element;
  std::byte* const to = in_place ? from : output.data() + shift * element;
  input.write(values.data(), bytes, shift * element);
  comm.run(all_reduce_of(from, to, count, tried.type, tried.op));
  const std::string what = std::string(name_of(tried.type)) + " " + std::string(name_of(tried.op)) + " of " +
                           std::to_string(count) + ", shifted by " + std::to_string(shift);
  require(comm.last_algorithm() == kLaunched, what + " was not launched but " + std::string(comm.last_algorithm()));
  (in_place ? input : output).read(found.data(), bytes, shift * element);
  require(found == expected, what + ": other bits than the processor's");
}

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
  int killed = 0;
  for (const RankEnd& end : ends) {
    if (end.signal == SIGKILL) {
      ++killed;
    } else {
      EXPECT_TRUE(end.ok()) << end.message;
    }
  }
  EXPECT_EQ(killed, 1);
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
      require(std::string(error.what()).find("launching a reduction on device 0") != std::string::npos, error.what());
  }));
}

}  // namespace
}  // namespace tutti
