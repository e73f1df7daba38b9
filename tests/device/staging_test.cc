// Staging over a driver: what comes over, in which order with the caller's stream, and what becomes of failures.
#include "device/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

#include "device/device_memory.h"
#include "device/fake_cuda.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using device::StagingPool;
using testing::DeviceBytes;
using testing::fake;
using ::testing::HasSubstr;
using testing::PinnedFloats;
using testing::test_driver;
using testing::TestStream;

// A rank that sleeps until it is woken.
class Rank {
 public:
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  template <class Condition>
  void sleep_until(Condition&& condition) {
    while (!condition()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return woken_; });
      woken_ = false;
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

class StagingTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail")) {
      for (const char* function : {"cuMemHostRegister_v2", "cuMemcpyDtoHAsync_v2", "cuStreamIsCapturing"})
        fail(function, 0, 0);
      fake<void(int)>("fake_cuda_let_copies_wait")(0);
    }
  }
  StagingPool::Handle open(const DeviceBytes& input, const DeviceBytes& output, const TestStream& stream, bool gated) {
    StagingPool::Plan plan{.bytes = input.size() + output.size(),
                           .input_device = 0,
                           .output_device = 0,
                           .input = {{input.data(), 0, input.size()}},
                           .output = {{output.data(), input.size(), output.size()}},
                           .stream = stream.get()};
    StagingPool::Handle staging = pool_.open(test_driver(), plan);
    if (gated) chain(*staging, false);
    return staging;
  }
  static void chain(device::Staging& stage, bool keeps_rest) {
    stage.prepare_chain(keeps_rest);
    stage.chain_output({});
  }
  static std::vector<unsigned char> counted(std::size_t bytes) {
    std::vector<unsigned char> values(bytes);
    std::iota(values.begin(), values.end(), static_cast<unsigned char>(1));
    return values;
  }

  const device::Driver& driver_ = test_driver();
  Rank rank_;
  StagingPool pool_{[this] { rank_.wake(); }};
};

TEST_F(StagingTest, RecognisesMemoryOfDevices) {
  const DeviceBytes memory(1000);
  std::vector<int> host(100);
  EXPECT_EQ(device::device_of(driver_, memory.data()), 0);
  EXPECT_EQ(device::device_of(driver_, memory.data() + 999), 0);
  EXPECT_EQ(device::device_of(driver_, host.data()), device::kOnHost);
  EXPECT_EQ(device::device_of(driver_, nullptr), device::kOnHost);
  EXPECT_TRUE(device::is_on_device(memory.data()));
}

TEST_F(StagingTest, InputComesAndOutputGoesBack) {
  const TestStream stream;
  const DeviceBytes input(100'000), output(100'000);
  const auto values = counted(input.size());
  input.write(values.data(), values.size());
  for (int round = 0; round < 20; ++round) {
    const StagingPool::Handle stage = open(input, output, stream, false);
    rank_.sleep_until([&] { return stage->has_input(); });
    EXPECT_EQ(std::memcmp(stage->memory(), values.data(), values.size()), 0);
    std::memset(stage->memory() + input.size(), round, output.size());
    EXPECT_FALSE(stage->output_started());
    stage->start_output(~std::uint64_t{0});
    rank_.sleep_until([&] { return stage->has_output(); });
    std::vector<unsigned char> back(output.size());
    output.read(back.data(), back.size());
    EXPECT_EQ(back, std::vector<unsigned char>(back.size(), static_cast<unsigned char>(round)));
  }
}

TEST_F(StagingTest, ComesAfterWhatTheStreamHolds) {
  const TestStream stream;
  const DeviceBytes input(5000), output(64);
  const auto values = counted(input.size());
  device::StreamGate gate = stream.hold();
  stream.write(input.data(), values.data(), values.size());
  const StagingPool::Handle stage = open(input, output, stream, false);
  for (int look = 0; look < 100; ++look) ASSERT_FALSE(stage->has_input());
  gate.open();
  rank_.sleep_until([&] { return stage->has_input(); });
  EXPECT_EQ(std::memcmp(stage->memory(), values.data(), values.size()), 0);
  device::StreamGates::of_process().give_back(gate);
}

TEST_F(StagingTest, TheStreamGoesOnWhenTheOutputIsBack) {
  const TestStream stream;
  const DeviceBytes input(64), output(5000);
  const PinnedFloats seen(output.size() / sizeof(float));
  for (int round = 1; round < 10; ++round) {
    const StagingPool::Handle stage = open(input, output, stream, true);
    stream.read(seen.data(), output.data(), output.size());
    rank_.sleep_until([&] { return stage->has_input(); });
    std::memset(stage->memory() + input.size(), round, output.size());
    stage->start_output(~std::uint64_t{0});
    rank_.sleep_until([&] { return stage->has_output(); });
    stream.synchronize();
    std::vector<unsigned char> expected(output.size(), static_cast<unsigned char>(round));
    EXPECT_EQ(std::memcmp(seen.data(), expected.data(), expected.size()), 0);
  }
}

// Those that are short go in rows, which takes no turn of the device: also those of odd lengths.
TEST_F(StagingTest, OutputsOfAllLengthsComeBack) {
  const TestStream stream;
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  for (const std::size_t bytes : {1, 2, 3, 63, 64, 65, 1009, 4096, 32'749, 65'535, 65'536, 100'001}) {
    const DeviceBytes input(64), output(bytes + 1);
    const std::vector<unsigned char> before(bytes + 1, 7);
    output.write(before.data(), before.size());
    const int whole = calls == nullptr ? 0 : calls("cuMemcpyHtoDAsync_v2");
    const StagingPool::Handle stage = open(input, output, stream, false);
    std::vector<unsigned char> expected(bytes + 1);
    for (std::size_t i = 0; i < bytes; ++i) expected[i] = static_cast<unsigned char>(i * 31 + 1);
    expected[bytes] = 7;
    std::memcpy(stage->memory() + input.size(), expected.data(), bytes);
    stage->start_output(bytes);
    rank_.sleep_until([&] { return stage->has_output(); });
    if (calls != nullptr) {
      EXPECT_EQ(calls("cuMemcpyHtoDAsync_v2") - whole, bytes == 1 || bytes >= 65'536 ? 1 : 0) << bytes;
    }
    std::vector<unsigned char> back(bytes + 1);
    output.read(back.data(), back.size());
    EXPECT_EQ(back, expected) << bytes;
  }
}

// Nothing that comes later takes the driver's part: whoever waits inside it keeps others out.
TEST_F(StagingTest, WhatIsChainedIsLeftToTheDevice) {
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  if (calls == nullptr) GTEST_SKIP() << "only the fake driver counts";
  const TestStream stream;
  const DeviceBytes input(64), output(64);
  const auto count = [&] {
    int sum = 0;
    for (const char* function : {"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpy2DAsync_v2",
                                 "cuLaunchHostFunc", "cuEventRecord", "cuStreamWaitEvent"})
      sum += calls(function);
    return sum;
  };
  StagingPool::Handle stage = open(input, output, stream, true);
  const int before = count();
  rank_.sleep_until([&] { return stage->has_input(); });
  stage->start_output(64);
  rank_.sleep_until([&] { return stage->has_output(); });
  stage.reset();
  EXPECT_EQ(count(), before);
}

TEST_F(StagingTest, WhatIsChainedKeepsTheRestOfTheOutputWhereAsked) {
  const TestStream stream;
  const DeviceBytes input(64), output(1000);
  for (const std::size_t fresh : {0, 300, 1000}) {
    const std::vector<unsigned char> before(1000, 7);
    output.write(before.data(), before.size());
    const StagingPool::Handle stage = open(input, output, stream, false);
    chain(*stage, true);
    std::memset(stage->memory() + input.size(), 9, output.size());
    stage->start_output(fresh);
    rank_.sleep_until([&] { return stage->has_output(); });
    std::vector<unsigned char> back(1000), expected(1000, 7);
    std::fill_n(expected.begin(), fresh, 9);
    output.read(back.data(), back.size());
    EXPECT_EQ(back, expected);
  }
}

TEST_F(StagingTest, OnlyWhatHasComeGoesBack) {
  const TestStream stream;
  const DeviceBytes input(64), output(1000);
  const std::vector<unsigned char> before(1000, 7);
  output.write(before.data(), before.size());
  const StagingPool::Handle stage = open(input, output, stream, false);
  rank_.sleep_until([&] { return stage->has_input(); });
  std::memset(stage->memory() + input.size(), 9, output.size());
  stage->start_output(300);
  rank_.sleep_until([&] { return stage->has_output(); });
  std::vector<unsigned char> back(1000), expected(1000, 7);
  std::fill_n(expected.begin(), 300, 9);
  output.read(back.data(), back.size());
  EXPECT_EQ(back, expected);
}

TEST_F(StagingTest, AStageGivenUpKeepsItsMemoryUntilTheDeviceIsDone) {
  const TestStream stream;
  const DeviceBytes input(5000), output(64);
  device::StreamGate gate = stream.hold();
  const std::byte* given_up = nullptr;
  {
    const StagingPool::Handle stage = open(input, output, stream, true);
    given_up = stage->memory();
  }
  const TestStream other;
  const StagingPool::Handle next = open(input, output, other, false);
  EXPECT_NE(next->memory(), given_up);
  gate.open();
  stream.synchronize();  // the stage has closed, so that the stream is not held by it
  device::StreamGates::of_process().give_back(gate);
}

// No stream comes after it: whoever is told of the failure may free the output.
TEST_F(StagingTest, AStageGivenUpWritesNothingAfterwards) {
  const DeviceBytes output(4000);
  device::StreamGate gate = testing::hold_stream(nullptr);
  StagingPool::Plan plan{.bytes = 4000, .output_device = 0, .input = {}, .output = {{output.data(), 0, 4000}}};
  StagingPool::Handle stage = pool_.open(driver_, plan);
  std::memset(stage->memory(), 9, 4000);
  stage->start_output(4000);
  std::thread opening([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    gate.open();
  });
  stage.reset();
  const std::vector<unsigned char> later(4000, 7);
  output.write(later.data(), later.size());
  opening.join();
  const TestStream blocking(0, 0);
  const StagingPool::Handle next = open(output, output, blocking, false);
  rank_.sleep_until([&] { return next->has_input(); });
  EXPECT_EQ(std::memcmp(next->memory(), later.data(), later.size()), 0);
  device::StreamGates::of_process().give_back(gate);
}

TEST_F(StagingTest, AStreamOfAnotherDeviceIsRefused) {
  int devices = 0;
  driver_.cuDeviceGetCount(&devices);
  if (devices < 2) GTEST_SKIP() << "there is one device";
  const TestStream elsewhere(1);
  const DeviceBytes input(64), output(64);
  try {
    open(input, output, elsewhere, false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("the stream belongs to device 1 and the buffer lies on device 0"));
  }
}

TEST_F(StagingTest, WhatTheDriverRefusesIsToldByItsName) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real driver does not fail on demand";
  const TestStream stream;
  const DeviceBytes input(64), output(64);
  fail("cuMemcpyDtoHAsync_v2", device::kCuInvalidValue, 1);
  try {
    open(input, output, stream, false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::system);
    EXPECT_THAT(error.what(), HasSubstr("copying the input from device 0 failed: CUDA_ERROR_INVALID_VALUE"));
  }
  // The next one is served.
  const StagingPool::Handle stage = open(input, output, stream, false);
  rank_.sleep_until([&] { return stage->has_input(); });
}

TEST_F(StagingTest, MemoryThatCannotBeRegisteredServesToo) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real driver does not fail on demand";
  const TestStream stream;
  const DeviceBytes input(1 << 20), output(64);
  const auto values = counted(input.size());
  input.write(values.data(), values.size());
  fail("cuMemHostRegister_v2", device::kCuOutOfMemory, 1);
  const StagingPool::Handle stage = open(input, output, stream, false);
  rank_.sleep_until([&] { return stage->has_input(); });
  EXPECT_EQ(std::memcmp(stage->memory(), values.data(), values.size()), 0);
}

// Of what is put into a stream for later: a driver may keep whoever puts a copy from other memory there until the
// stream comes to it, or copy what the memory holds by then.
TEST_F(StagingTest, WhatIsChainedLiesInRegisteredMemory) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real driver does not fail on demand";
  device::StreamGates::of_process().give_back(TestStream().hold());  // the words of gates are there
  fake<void(int)>("fake_cuda_let_copies_wait")(1);
  for (const bool keeps_rest : {false, true}) {
    for (const std::size_t bytes : {1000, 100'000}) {
      const TestStream stream;
      const DeviceBytes input(64), output(bytes);
      StagingPool stagings([this] { rank_.wake(); });
      const auto open_chained = [&] {
        StagingPool::Plan plan{.bytes = 64 + bytes,
                               .input_device = 0,
                               .output_device = 0,
                               .input = {{input.data(), 0, 64}},
                               .output = {{output.data(), 64, bytes}},
                               .stream = stream.get()};
        StagingPool::Handle stage = stagings.open(driver_, plan);
        chain(*stage, keeps_rest);
        return stage;
      };
      fail("cuMemHostRegister_v2", device::kCuOutOfMemory, 4);
      try {
        open_chained();
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::system);
        EXPECT_THAT(error.what(), HasSubstr("needs where it holds a stream, and a blocking one does not, failed"));
      }
      fail("cuMemHostRegister_v2", device::kCuOutOfMemory, 0);
      stream.synchronize();                              // it is not held
      const StagingPool::Handle stage = open_chained();  // by the memory of before
      rank_.sleep_until([&] { return stage->has_input(); });
      std::memset(stage->memory() + 64, 9, bytes);
      stage->start_output(bytes);
      rank_.sleep_until([&] { return stage->has_output(); });
      std::vector<unsigned char> back(bytes);
      output.read(back.data(), bytes);
      EXPECT_EQ(back, std::vector<unsigned char>(bytes, 9));
    }
  }
}

// As the driver has it of work that is put into the default stream: it comes after what blocking streams hold.
TEST_F(StagingTest, TheDefaultStreamComesAfterBlockingStreams) {
  const DeviceBytes buffer(64);
  for (const unsigned kind : {0U, device::kCuNonBlockingStream}) {
    const TestStream other(0, kind);
    device::StreamGate gate = other.hold();
    StagingPool::Plan plan{
        .bytes = 64, .input_device = 0, .input = {{buffer.data(), 0, 64}}, .output = {}, .deferred = true};
    const StagingPool::Handle stage = pool_.open(driver_, plan);
    if (kind == device::kCuNonBlockingStream) {
      while (!stage->is_reached()) std::this_thread::yield();  // whom this stream does not block
    } else {
      for (int look = 0; look < 100; ++look) EXPECT_FALSE(stage->is_reached());
    }
    gate.open();
    other.synchronize();
    while (!stage->is_reached()) std::this_thread::yield();
  }
}

TEST_F(StagingTest, ABlockingStreamComesAfterTheDefaultStream) {
  const DeviceBytes buffer(64);
  const TestStream blocking(0, 0), by_itself;
  device::StreamGate gate = testing::hold_stream(nullptr);
  for (const TestStream* stream : {&by_itself, &blocking}) {
    StagingPool::Plan plan{.bytes = 64,
                           .input_device = 0,
                           .input = {{buffer.data(), 0, 64}},
                           .output = {},
                           .stream = stream->get(),
                           .deferred = true};
    const StagingPool::Handle stage = pool_.open(driver_, plan);
    if (stream == &by_itself) {
      while (!stage->is_reached()) std::this_thread::yield();
      continue;
    }
    for (int look = 0; look < 100; ++look) EXPECT_FALSE(stage->is_reached());
    gate.open();
    while (!stage->is_reached()) std::this_thread::yield();
  }
  device::StreamGates::of_process().give_back(gate);
}

// The first call of a caller that waits is opened while the progress thread closes one that nobody waited for.
TEST_F(StagingTest, StagesAreClosedWhileOthersAreOpened) {
  const TestStream stream;
  const DeviceBytes input(64), output(64);
  for (int round = 0; round < 20; ++round) {
    Rank rank;
    StagingPool stagings([&] { rank.wake(); });
    StagingPool::Plan plan{
        .bytes = 64, .input_device = 0, .input = {{input.data(), 0, 64}}, .output = {}, .stream = stream.get()};
    plan.background = true;
    StagingPool::Handle background = stagings.open(driver_, plan);
    rank.sleep_until([&] { return background->has_input(); });
    std::thread closing([&] { background.reset(); });
    plan.background = false;
    const StagingPool::Handle callers = stagings.open(driver_, plan);
    closing.join();
    while (!callers->has_input()) std::this_thread::yield();
  }
}

// A launch that ends when its gate is opened.
struct HeldLaunch {
  explicit HeldLaunch(device::Staging& stage) {
    stage.start_launch([&](const device::Driver&, const device::UsedDevice&, device::CuStream stream) {
      gate = testing::hold_stream(stream);
    });
  }
  ~HeldLaunch() { device::StreamGates::of_process().give_back(gate); }
  HeldLaunch(const HeldLaunch&) = delete;
  HeldLaunch& operator=(const HeldLaunch&) = delete;

  device::StreamGate gate;
};

// A launch is asked about by its stream, and where that takes long by an event that the rank is woken behind: a caller
// who has a core yields for two milliseconds before it sleeps.
TEST_F(StagingTest, ALaunchWakesWhoSleeps) {
  const DeviceBytes buffer(64);
  StagingPool crowded_pool([this] { rank_.wake(); }, true);
  for (int round = 0; round < 30; ++round) {
    StagingPool::Plan plan{
        .bytes = 64, .input_device = 0, .input = {{buffer.data(), 0, 64}}, .output = {}, .deferred = true};
    plan.background = round % 3 == 1;
    const bool crowded = round % 3 == 2;
    const StagingPool::Handle stage = (crowded ? crowded_pool : pool_).open(driver_, plan);
    HeldLaunch launch(*stage);
    auto begin = std::chrono::steady_clock::now();
    const auto sleeps = [&](int looks) {
      if (plan.background || crowded) return looks == (plan.background ? 3 : 201);
      if (looks == 200) begin = std::chrono::steady_clock::now();  // from then on the time counts
      return looks > 1000 && std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(2);
    };
    for (int looks = 0; !sleeps(looks); ++looks) EXPECT_FALSE(stage->has_launched());
    EXPECT_FALSE(stage->has_launched());  // after that time, as whoever sleeps looks once more
    launch.gate.open();
    rank_.sleep_until([&] { return stage->has_launched(); });
  }
}

// Which costs a launch that is about to end tens of microseconds.
TEST_F(StagingTest, WhoDoesNotSleepSoonDoesNotAskToBeWoken) {
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  if (calls == nullptr) GTEST_SKIP() << "only the fake driver counts";
  const DeviceBytes buffer(64);
  for (const bool background : {false, true}) {
    StagingPool::Plan plan{
        .bytes = 64, .input_device = 0, .input = {{buffer.data(), 0, 64}}, .output = {}, .deferred = true};
    plan.background = background;
    const StagingPool::Handle stage = pool_.open(driver_, plan);
    HeldLaunch launch(*stage);
    const int before = calls("cuLaunchHostFunc");
    pool_.set_caller_drives(background);
    for (int look = 0; look < 200; ++look) EXPECT_FALSE(stage->has_launched());
    EXPECT_EQ(calls("cuLaunchHostFunc"), before);
    pool_.set_caller_drives(false);
    EXPECT_FALSE(stage->has_launched());
    if (background) {
      EXPECT_EQ(calls("cuLaunchHostFunc"), before + 1) << "the progress thread is about to sleep";
    }
    launch.gate.open();
    while (!stage->has_launched()) std::this_thread::yield();
  }
}

TEST_F(StagingTest, NothingIsLeftBehind) {
  auto* const live = fake<int()>("fake_cuda_live");
  if (live == nullptr) GTEST_SKIP() << "only the fake driver counts";
  const TestStream stream;
  const DeviceBytes input(64), output(64);
  { const StagingPool::Handle warm_up = open(input, output, stream, true); }  // the words of gates stay
  const auto use = [&] {
    Rank rank;
    StagingPool stagings([&] { rank.wake(); });
    StagingPool::Plan plan{.bytes = 128,
                           .input_device = 0,
                           .output_device = 0,
                           .input = {{input.data(), 0, 64}},
                           .output = {{output.data(), 64, 64}},
                           .stream = stream.get()};
    const StagingPool::Handle stage = stagings.open(driver_, plan);
    chain(*stage, false);
    stage->start_output(64);
  };
  const int before = live();
  for (int i = 0; i < 3; ++i) use();
  EXPECT_EQ(live(), before);
}

}  // namespace
}  // namespace tutti
