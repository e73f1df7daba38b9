#include "device/stream_gates.h"

#include <sys/mman.h>

#include <atomic>

#include "base/system_error.h"

namespace tutti::device {
namespace {

constexpr std::size_t kWordBytes = 64;  // a line for each
constexpr std::size_t kPageBytes = 64 << 10;

}  // namespace

void StreamGate::open() { std::atomic_ref(*word).store(++value, std::memory_order_release); }

CuAddress StreamGate::shown(const Driver& driver) const {
  CuAddress address = 0;
  if (word == nullptr || driver.cuMemHostGetDevicePointer_v2(&address, word, 0) != kCuSuccess) return 0;
  return address;
}

StreamGates& StreamGates::of_process() {
  static StreamGates* const kGates = new StreamGates;  // streams may look at its words until the process ends
  return *kGates;
}

StreamGate StreamGates::take(const Driver& driver) {
  const std::lock_guard lock(mutex_);
  while (!free_.empty() && free_.back().shown(driver) == 0) free_.pop_back();
  if (free_.empty()) {
    void* const page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw_errno("no memory for words that streams wait for");
    const CuResult result = driver.cuMemHostRegister_v2(page, kPageBytes, kCuPortable | kCuDeviceMap);
    if (result != kCuSuccess) {
      ::munmap(page, kPageBytes);
      driver.check(result, "registering memory for words that streams wait for");
    }
    for (std::size_t at = 0; at < kPageBytes; at += kWordBytes)
      free_.push_back({reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(page) + at), 0});
  }
  const StreamGate gate = free_.back();
  free_.pop_back();
  return gate;
}

void StreamGates::give_back(const StreamGate& gate) {
  if (gate.word == nullptr) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(gate);
}

}  // namespace tutti::device
