// Sums of ints on a device, in place, that a rank gives up while a kernel of the fake driver's does not end.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "check.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"

namespace tutti::testing {

inline constexpr std::size_t kCount = 1000, kBytes = kCount * sizeof(int);

inline void fill(const DeviceBytes& buffer, int value) {
  const std::vector<int> values(kCount, value);
  buffer.write(values.data(), kBytes);
}
inline Request sum_of(const DeviceBytes& buffer) {
  return all_reduce_of(buffer.data(), buffer.data(), kCount, DType::int32);
}

// Where processes that one forks wait for each other, whatever has become of their communicator.
class MeetingPoint {
 public:
  MeetingPoint()
      : memory_(::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~MeetingPoint() { ::munmap(memory_, sizeof(std::atomic<int>)); }
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;
  void meet(int ranks) const {
    auto& arrived = *static_cast<std::atomic<int>*>(memory_);
    for (++arrived; arrived < ranks;) std::this_thread::yield();
  }

 private:
  void* memory_;
};

// Kernels of this process do not end for half a second where it is `slow`; where it is `impatient` its time is over
// before. Once a rank is told, its buffer, on that device, is its own again: nobody writes to it any more.
inline void give_up_beside_a_held_kernel(Communicator& comm, int device, bool slow, bool impatient, bool async,
                                         const MeetingPoint& ended) {
  auto* const hold = fake<void(int)>("fake_cuda_hold_kernels");
  const DeviceBytes buffer(kBytes, device);
  fill(buffer, 1);
  comm.run(sum_of(buffer));  // loads the kernel
  std::thread releasing;
  if (slow) {
    hold(1);
    releasing = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      hold(0);
    });
  }
  if (impatient) comm.set_timeout(std::chrono::milliseconds(150));
  try {
    if (async) {
      comm.submit(sum_of(buffer)).wait();
    } else {
      comm.run(sum_of(buffer));
    }
  } catch (const Error&) {
    fill(buffer, 7);  // it is the caller's again
  }
  std::vector<int> before(kCount), after(kCount);
  buffer.read(before.data(), kBytes);
  if (releasing.joinable()) releasing.join();
  ended.meet(comm.size());
  const TestStream behind(device);
  buffer.read(after.data(), kBytes);
  require(before == after, "written to after the call was given up");
}

}  // namespace tutti::testing
