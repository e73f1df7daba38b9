// What may go wrong around a launch for all ranks: memory that goes while others have it open, kernels that cannot be
// made, graphs that other threads capture, and ranks that give up while the kernel runs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"
#include "device/held_kernel.h"
#include "device/on_both.h"
#include "device/said.h"
#include "device/shared_allocations.h"

namespace tutti {
namespace {

using device::SharedAllocations;
using testing::all_reduce_of;
using testing::DeviceBytes;
using testing::fake;
using testing::fill;
using testing::give_up_beside_a_held_kernel;
using testing::kBytes;
using testing::kCount;
using testing::kLaunched;
using testing::MeetingPoint;
using testing::require;
using testing::sum_of;
using testing::TestStream;

void require_filled(const DeviceBytes& buffer, int value, const char* what) {
  std::vector<int> found(kCount);
  buffer.read(found.data(), kBytes);
  require(found == std::vector<int>(kCount, value), what);
}

// The driver's number of what is there.
std::uint64_t allocation_at(const std::byte* address) {
  unsigned long long number = 0;
  int attribute = device::kCuBufferNumber;
  void* value = &number;
  testing::test_driver().cuPointerGetAttributes(1, &attribute, &value, reinterpret_cast<std::uintptr_t>(address));
  return number;
}

// Which forbids all threads of the process what might spoil it, unless they ask for more.
TEST(LaunchHazards, AnotherThreadMayCaptureAGraphMeanwhile) {
  auto* const capture = fake<void(int)>("fake_cuda_capture_elsewhere");
  if (capture == nullptr) GTEST_SKIP() << "only the fake driver captures on demand";
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    const DeviceBytes launched(4000), staged(4000), message(4000);
    const std::vector<int> values(1000, comm.rank() + 1);
    for (const DeviceBytes* buffer : {&launched, &staged, &message}) buffer->write(values.data(), 4000);
    const TestStream held;
    capture(1);
    for (int call = 0; call < 3; ++call)
      comm.run(all_reduce_of(launched.data(), launched.data(), 1000, DType::int32, ReduceOp::maximum));
    require(comm.last_algorithm() == kLaunched, "not launched");
    Request request = all_reduce_of(staged.data(), staged.data(), 1000, DType::int32, ReduceOp::maximum);
    request.stream = held.get();
    comm.submit(request).wait();
    comm.submit(all_reduce_of(staged.data(), staged.data(), 1000, DType::int32)).wait();
    const auto ints = std::span(reinterpret_cast<int*>(message.data()), 1000);
    Work sent = comm.send_async(ints.first(10), 1 - comm.rank());
    comm.recv(ints.last(10), 1 - comm.rank());
    sent.wait();
    { const DeviceMemory<int> allocated = comm.allocate_device<int>(10); }
    capture(0);
    std::vector<int> found(1000);
    launched.read(found.data(), 4000);
    require(found == std::vector<int>(1000, 2), "another maximum");
    staged.read(found.data(), 4000);
    require(found == std::vector<int>(1000, 4), "another sum");
    message.read(found.data(), 4000);
    require(found.back() == 2 - comm.rank(), "another message");
  }));
}

// What a process allocates may begin elsewhere than what it has freed, and overlap it: to the driver that is mapped.
TEST(LaunchHazards, MemoryMayOverlapWhatWasFreed) {
  auto* const place_next = fake<void(void*)>("fake_cuda_place_next");
  if (place_next == nullptr) GTEST_SKIP() << "a real driver places memory where it wants";
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    constexpr std::size_t kAllocated = 512 << 10;
    auto* const begin = reinterpret_cast<std::byte*>(std::uintptr_t{0x2000'0000'0000});  // where nothing else comes
    place_next(begin);
    auto buffer = std::make_unique<DeviceBytes>(kAllocated);
    for (int round = 0; round < 4; ++round) {
      fill(*buffer, round + comm.rank());
      comm.run(sum_of(*buffer));
      require(comm.last_algorithm() == kLaunched, "not launched");
      require_filled(*buffer, 2 * round + 1, "another sum");
      const bool all = round % 2 != 0;  // else the second half of what is freed
      buffer.reset();
      place_next(all ? begin : begin + kAllocated / 2);
      buffer = std::make_unique<DeviceBytes>(all ? kAllocated : kAllocated / 2);
      require((buffer->data() == begin) == all, "placed elsewhere");
    }
  }));
}

TEST(LaunchHazards, MemoryInUseIsNotClosed) {
  if (testing::on_real_device()) GTEST_SKIP() << "a real driver may map several allocations as one";
  constexpr std::size_t kAllocations = 300;  // more than stay open
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    std::vector<std::unique_ptr<DeviceBytes>> memory;
    std::vector<DevicePlace> places(kAllocations);
    std::uint64_t process = SharedAllocations::of_process().process();
    const device::Driver& driver = testing::test_driver();
    const testing::WithDevice current;
    device::CuContext context = nullptr;
    driver.check(driver.cuCtxGetCurrent(&context), "asking for the context");
    for (DevicePlace& place : places) {
      if (comm.rank() == 0) memory.push_back(std::make_unique<DeviceBytes>(64));
      if (comm.rank() == 0) SharedAllocations::of_process().show(driver, memory.back()->data(), place);
    }
    comm.broadcast(std::span(reinterpret_cast<std::byte*>(places.data()), places.size() * sizeof(DevicePlace)), 0);
    comm.broadcast(std::span(&process, 1), 0);
    if (comm.rank() == 1) {
      auto& allocations = SharedAllocations::of_process();
      SharedAllocations::Last last;
      std::vector<std::byte*> opened;
      {
        const SharedAllocations::Opened held = allocations.open(driver, context, process, places[0], last);
        for (const DevicePlace& place : std::span(places).subspan(1)) {
          const SharedAllocations::Opened other = allocations.open(driver, context, process, place, last);
          opened.push_back(other.data());
        }
        require(allocation_at(held.data()) == places[0].allocation, "closed while it was in use");
        require(allocation_at(opened[0]) != places[1].allocation, "nothing was closed");
        opened.push_back(held.data());
      }
      for (const DevicePlace& place : std::span(places).subspan(1))
        allocations.open(driver, context, process, place, last);
      require(allocation_at(opened.back()) != places[0].allocation, "open though nobody uses it");
    }
    comm.barrier();
  }));
}

// What is open goes with the context it was opened in, unless somebody keeps that.
TEST(LaunchHazards, OpenedMemoryOutlastsWhoUsedTheContextBefore) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    auto& allocations = SharedAllocations::of_process();
    const device::Driver& driver = testing::test_driver();
    std::unique_ptr<DeviceBytes> memory;
    DevicePlace place;
    std::uint64_t process = allocations.process();
    if (comm.rank() == 0) {
      const testing::WithDevice current;
      memory = std::make_unique<DeviceBytes>(64);
      allocations.show(driver, memory->data(), place);
    }
    comm.broadcast(std::as_writable_bytes(std::span(&place, 1)), 0);
    comm.broadcast(std::span(&process, 1), 0);
    for (int round = 0; round < 2 && comm.rank() == 1; ++round) {
      const testing::WithDevice current;  // nobody else uses the context
      device::CuContext context = nullptr;
      driver.check(driver.cuCtxGetCurrent(&context), "asking for the context");
      SharedAllocations::Last last;
      const SharedAllocations::Opened opened = allocations.open(driver, context, process, place, last);
      require(allocation_at(opened.data()) == place.allocation, "what was opened is not there");
    }
    comm.barrier();
  }));
}

TEST(LaunchHazards, AKernelThatDoesNotCompileIsTriedOnce) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  if (fail == nullptr) GTEST_SKIP() << "a real compiler does not fail on demand";
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    const DeviceBytes buffer(kBytes);
    fail("nvrtcCompileProgram", device::kCuInvalidValue, 100);
    for (int call = 1; call < 10; ++call) {
      fill(buffer, call);
      comm.run(sum_of(buffer));
      require_filled(buffer, 2 * call, "another sum");
      require(comm.last_algorithm() != kLaunched, "launched all the same");
    }
    std::vector<int> tried = {calls("nvrtcCompileProgram")};
    require(tried[0] <= 1, "compiled " + std::to_string(tried[0]) + " times");
    comm.all_reduce(tried);
    require(tried[0] > 0, "never compiled");
  }));
}

// Whose code the driver cannot load, as it says once. All go through host memory.
TEST(LaunchHazards, ACompilerNewerThanTheDriverIsNotUsed) {
  auto* const set_version = fake<void(int)>("fake_cuda_set_version");
  auto* const calls = fake<int(const char*)>("fake_cuda_calls");
  if (set_version == nullptr) GTEST_SKIP() << "a real driver has its version";
  const std::string said = testing::said_by(2, "info", [&](Communicator& comm) {
    testing::test_driver();
    set_version(11080);
    const DeviceBytes buffer(kBytes);
    for (int call = 1; call < 4; ++call) {
      fill(buffer, call);
      comm.run(sum_of(buffer));
      require_filled(buffer, 2 * call, "another sum");
      require(comm.last_algorithm() != kLaunched, "launched all the same");
    }
    require(calls("nvrtcCompileProgram") == 0, "compiled for a driver that cannot load it");
  });
  const std::string words = "the NVRTC that was found is of CUDA 12, and the driver serves CUDA 11";
  EXPECT_NE(said.find(words), std::string::npos) << said;
  for (const std::string rank : {"rank 0", "rank 1"}) {  // the one that launches, which is not always the same
    const std::string line = rank + "] calls on device memory cannot be launched for all ranks: " + words;
    EXPECT_LE(testing::times_in(said, line), 1U) << said;
  }
}

// A rank whose time is over while the kernel still writes to its buffer, be it the one that launched or another: when
// it is told, the buffer is its own again. Rank 0 launches.
TEST(LaunchHazards, NobodyWritesToTheBuffersOfARankThatGaveUp) {
  if (fake<void(int)>("fake_cuda_hold_kernels") == nullptr)
    GTEST_SKIP() << "a real device does not hold kernels on demand";
  for (const bool async : {false, true}) {
    for (const int impatient : {0, 1}) {
      const MeetingPoint ended;
      testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
        give_up_beside_a_held_kernel(comm, 0, comm.rank() == 0, comm.rank() == impatient, async, ended);
      }));
    }
  }
}

}  // namespace
}  // namespace tutti
