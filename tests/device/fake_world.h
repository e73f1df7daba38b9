// What the driver without a device (fake_cuda.cc) consists of: contexts, memory, streams and the thread that plays the
// device. world().mutex guards all of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device/fake_kernel.h"

namespace fake_cuda {

inline constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kInvalidDevice = 101,
                     kInvalidContext = 201, kAlreadyMapped = 208, kPeersUnsupported = 217, kInvalidHandle = 400,
                     kNotReady = 600, kIllegalAddress = 700, kPeersEnabled = 704, kAlreadyRegistered = 712,
                     kNotRegistered = 713, kCaptureUnsupported = 900;
inline constexpr int kDevices = 4;
inline constexpr std::size_t kMostBytes = std::size_t{1} << 34;

using Address = unsigned long long;

struct Handle {
  unsigned char bytes[64];
};

struct Context {
  int device = 0;
};

struct Memory {
  std::byte* alias = nullptr;  // the same pages, for the thread that plays the device
  std::size_t bytes = 0;
  int device = 0;
  const Context* context = nullptr;
  int pages = -1;                 // the file behind them, which other processes open by its number
  unsigned long long number = 0;  // never given twice
  bool opened = false;            // it is another process's, where it lies at `origin`
  int opened_on = 0;              // for which device
  int process = 0;
  Address origin = 0;
};

// What a handle for other processes holds.
struct Exported {
  int process, pages, device;
  std::size_t bytes;
  unsigned long long number;
  Address address;
};

// As device/kernel_compiler.h has it.
struct KernelOperands {
  const void* sources[64];
  void* destinations[64];
};

struct Event {
  const Context* context = nullptr;
  std::uint64_t recorded = 0, reached = 0;
};

// At the head of its stream it is ready or not; done under the lock, but for host functions.
struct Work {
  std::function<bool()> ready;
  std::function<int()> run;
  bool unlocked = false;
  bool polls = false;  // what it waits for tells nobody
};

struct Stream {
  const Context* context = nullptr;
  std::deque<Work> queue;
  bool blocking = false;            // it and the default stream come after each other
  std::uint64_t put = 0, done = 0;  // pieces of work
  bool busy = false;
  bool captures = false;
};

struct Fault {
  int result = 0, times = 0;
};

struct Registered {
  std::size_t bytes;
  bool shown;  // to devices
  int device;  // whose context was current: it goes with that
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  bool initialized = false;
  int broken = 0;
  bool captured_elsewhere = false;  // another thread captures a stream, in the mode that is for all threads
  int driver_version = 12040;
  bool kernels_held = false;
  bool copies_wait = false;      // those to a device, from memory that is not registered, for their stream
  Address copies_held_from = 0;  // 0: none
  void* next_place = nullptr;    // of the allocation that comes next
  Context contexts[kDevices] = {{0}, {1}, {2}, {3}};  // the primary ones
  Context others[kDevices] = {{0}, {1}, {2}, {3}};
  bool apart[kDevices][kDevices] = {};    // the first has no peer access to the second
  bool reaches[kDevices][kDevices] = {};  // the first's context was let touch the second's memory
  int retained[kDevices] = {};
  std::map<Address, Memory> memory;
  std::map<std::uintptr_t, Registered> registered;
  std::map<Stream*, std::shared_ptr<Stream>> streams;
  std::shared_ptr<Stream> defaults[kDevices];
  std::map<Event*, std::shared_ptr<Event>> events;
  std::map<std::string, Fault> faults;
  std::map<std::string, std::chrono::microseconds> delays;
  int us_per_mb = 0;
  std::map<std::string, int> calls;
  std::mt19937 random{1};
  bool running = false;
  unsigned long long allocations = 0;
  std::map<std::string, std::function<void()>> before;  // what comes before the next call of a function
  std::string deadly;                                   // the function that kills the process
  std::vector<std::unique_ptr<FakeKernel>> kernels;
  std::map<const void*, int> device_of_kernel;     // those whose context is there
  std::map<const void*, std::string> device_code;  // of kernels that only a real device runs: what they are called
  int waiting = 0;  // threads inside calls that wait for the device, and let nobody else put work into streams
};

World& world();

extern thread_local std::vector<Context*> current;
// What captures by other threads are to this one: 0 lets them forbid what might spoil them, 2 does not.
extern thread_local int capture_mode;
// Whether the function is of those.
bool may_spoil_captures(const std::string& function);

const Registered* registered_around(const World& w, std::uintptr_t address);
// Where a piece of device memory really is; nullptr where it is none.
std::byte* alias_of(World& w, Address address, std::size_t bytes);
// The same for a kernel of this device; nullptr where the device may not touch it, too.
std::byte* reached_by(World& w, int device, Address address, std::size_t bytes);
// What so many bytes of device memory take, where the pace is set.
void take_time(const World& w, std::size_t bytes);
bool is_idle(const World& w);
// Whether all that comes before what is put into this stream now has ended.
bool has_ended(const World& w, const Stream& stream);
std::shared_ptr<Stream> find_stream(World& w, void* handle);
std::shared_ptr<Event> find_event(World& w, void* handle);
// The pages once more: at an address that the processor cannot touch, and for the thread that plays the device.
int map_pages(World& w, int pages, std::size_t bytes, unsigned long long number, Address* address);
// Launches of reduce.cu and copy.cu, `pieces` of each, by the processor's own means.
struct KernelLaunch {
  int device;
  KernelOperands operands;
  int destinations;
  unsigned pieces;
};
struct ReduceLaunch : KernelLaunch {
  unsigned long long count, lines, step;
  unsigned divisor;
};
struct CopyLaunch : KernelLaunch {
  int columns;
  unsigned long long bytes;
};
int run_kernel(World& w, const FakeKernel& kernel, const ReduceLaunch& launch);
int run_kernel(World& w, const CopyLaunch& launch);
int enqueue(World& w, const std::shared_ptr<Stream>& stream, Work work);

// What a thread does while it is in the driver.
struct Inside {
  Inside() { ++depth; }
  ~Inside() { --depth; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static inline thread_local int depth = 0;
};

// An entry point: the lock, what was asked to fail, and what an earlier error makes of all calls.
class Entry {
 public:
  explicit Entry(const char* function, bool needs_context = true, bool adds_work = false) : lock_(world().mutex) {
    World& w = world();
    if (const auto found = w.before.find(function); found != w.before.end()) {
      const std::function<void()> call = std::move(found->second);
      w.before.erase(found);
      lock_.unlock();
      call();
      lock_.lock();
    }
    if (const auto found = w.delays.find(function); found != w.delays.end()) {
      const std::chrono::microseconds delay = found->second;
      lock_.unlock();
      std::this_thread::sleep_for(delay);
      lock_.lock();
    }
    if (adds_work) w.changed.wait(lock_, [&] { return w.waiting == 0 || w.broken != 0; });
    ++w.calls[function];
    if (w.deadly == function) ::raise(SIGKILL);
    Fault& fault = w.faults[function];
    if (fault.times > 0) {
      --fault.times;
      result_ = fault.result;
    } else if (!w.initialized) {
      result_ = kNotInitialized;
    } else if (needs_context && current.empty()) {
      result_ = kInvalidContext;
    } else if (w.captured_elsewhere && capture_mode != 2 && may_spoil_captures(function)) {
      result_ = kCaptureUnsupported;
    } else {
      result_ = w.broken;
    }
  }
  bool refuses() const { return result_ != kSuccess; }
  int result() const { return result_; }
  // Waits until the device has come to this, and keeps others from giving it more.
  template <class Condition>
  void wait_until(Condition&& condition) {
    World& w = world();
    ++w.waiting;
    w.changed.wait(lock_, [&] { return w.broken != 0 || condition(); });
    --w.waiting;
    w.changed.notify_all();
  }
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  Inside inside_;
  std::unique_lock<std::mutex> lock_;
  int result_ = kSuccess;
};

}  // namespace fake_cuda
