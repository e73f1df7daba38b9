// A CUDA driver without a device, for tests: the entry points that the library uses, over host memory.
//
// What makes it strict: the addresses of its device memory cannot be read or written by the processor; streams are
// queues that one thread empties in a random order, so that nothing has ended before it was waited for; what needs a
// current context, or handles of one context, is refused without; kernels touch the memory of other devices only where
// that was asked for; and any entry point fails on demand. As a real one, it lets a thread that gives memory back,
// loads a kernel, or copies to memory that is not registered, wait until the device has done its work, and whoever puts
// work into a stream meanwhile waits for that thread.
#include "device/fake_cuda.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/driver.h"
#include "device/fake_kernel.h"
#include "device/fake_world.h"

using namespace fake_cuda;  // NOLINT: this file is that

namespace {

// What a real NVRTC makes is an ELF file.
bool is_of_device(const void* code) { return std::memcmp(code, ELFMAG, SELFMAG) == 0; }

// The names of its sections, of which every kernel has one.
std::string names_in(const void* code) {
  const auto* const file = static_cast<const char*>(code);
  Elf64_Ehdr header;
  std::memcpy(&header, file, sizeof header);
  Elf64_Shdr names;
  std::memcpy(&names, file + header.e_shoff + header.e_shstrndx * sizeof names, sizeof names);
  return {file + names.sh_offset, names.sh_size};
}

bool may_copy(const World& w, Address address, std::size_t bytes) {
  return w.copies_held_from == 0 || address + bytes <= w.copies_held_from;
}

int copy_to_device(Entry& entry, Address to, const void* from, std::size_t bytes, void* stream) {
  World& w = world();
  if (alias_of(w, to, bytes) == nullptr) return kInvalidValue;
  const auto copy = [=, &w] {
    std::byte* const alias = alias_of(w, to, bytes);
    if (alias == nullptr) return kIllegalAddress;
    take_time(w, bytes);
    std::memcpy(alias, from, bytes);
    return kSuccess;
  };
  const std::shared_ptr<Stream> found = find_stream(w, stream);
  const int result = enqueue(w, found, {.ready = [=, &w] { return may_copy(w, to, bytes); }, .run = copy});
  const bool registered = registered_around(w, reinterpret_cast<std::uintptr_t>(from)) != nullptr;
  if (result != kSuccess || registered || !w.copies_wait) return result;
  entry.wait_until([&] { return found->queue.empty(); });
  return w.broken;
}

}  // namespace

extern "C" {

void fake_cuda_fail(const char* function, int result, int times) {
  const std::lock_guard lock(world().mutex);
  world().faults[function] = {result, times};
}
void fake_cuda_delay(const char* function, int us) {
  const std::lock_guard lock(world().mutex);
  world().delays[function] = std::chrono::microseconds(us);
}
void fake_cuda_pace(int us_per_mb) {
  const std::lock_guard lock(world().mutex);
  world().us_per_mb = us_per_mb;
}
void fake_cuda_break(int result) {
  const std::lock_guard lock(world().mutex);
  world().broken = result;
  world().changed.notify_all();
}
void fake_cuda_kill_at(const char* function) {
  const std::lock_guard lock(world().mutex);
  world().deadly = function;
}
void fake_cuda_before(const char* function, void (*call)(void* argument), void* argument) {
  const std::lock_guard lock(world().mutex);
  world().before[function] = [=] { call(argument); };
}
void fake_cuda_seed(unsigned seed) {
  const std::lock_guard lock(world().mutex);
  world().random.seed(seed);
}
void fake_cuda_capture(void* stream, int captures) {
  const std::lock_guard lock(world().mutex);
  world().streams.at(static_cast<Stream*>(stream))->captures = captures != 0;
}
void fake_cuda_capture_elsewhere(int captures) {
  const std::lock_guard lock(world().mutex);
  world().captured_elsewhere = captures != 0;
}
void fake_cuda_set_version(int version) {
  const std::lock_guard lock(world().mutex);
  world().driver_version = version;
}
void fake_cuda_place_next(void* address) {
  const std::lock_guard lock(world().mutex);
  world().next_place = address;
}
void fake_cuda_part(int device, int peer) {
  const std::lock_guard lock(world().mutex);
  world().apart[device][peer] = true;
}
void fake_cuda_hold_kernels(int held) {
  const std::lock_guard lock(world().mutex);
  world().kernels_held = held != 0;
  world().changed.notify_all();
}
void fake_cuda_let_copies_wait(int wait) {
  const std::lock_guard lock(world().mutex);
  world().copies_wait = wait != 0;
}
void* fake_cuda_other_context(int device) { return &world().others[device]; }
void fake_cuda_hold_copies(unsigned long long from) {
  const std::lock_guard lock(world().mutex);
  world().copies_held_from = from;
  world().changed.notify_all();
}
int fake_cuda_enter(const char* function) { return Entry(function, false).result(); }
int fake_cuda_calls(const char* function) {
  const std::lock_guard lock(world().mutex);
  return world().calls[function];
}
int fake_cuda_is_inside() { return Inside::depth > 0 ? 1 : 0; }
int fake_cuda_is_idle() {
  const std::lock_guard lock(world().mutex);
  return is_idle(world()) ? 1 : 0;
}
int fake_cuda_live() {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  return static_cast<int>(w.memory.size() + w.streams.size() + w.events.size() + w.registered.size());
}

int cuInit(unsigned) {
  const std::lock_guard lock(world().mutex);
  world().initialized = true;
  return kSuccess;
}
int cuGetErrorName(int result, const char** name) {
  switch (result) {
    case kInvalidValue: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case kOutOfMemory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case kInvalidContext: *name = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case kCaptureUnsupported: *name = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; break;
    case kIllegalAddress: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    default: *name = "CUDA_ERROR_UNKNOWN";
  }
  return kSuccess;
}
int cuGetErrorString(int, const char** words) {
  *words = "as the fake driver was told";
  return kSuccess;
}
int cuDriverGetVersion(int* version) {
  const Entry entry(__func__, false);
  *version = world().driver_version;
  return entry.result();
}
int cuDeviceGetCount(int* count) {
  const Entry entry(__func__, false);
  *count = kDevices;
  return entry.result();
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  const Entry entry(__func__, false);
  if (entry.refuses()) return entry.result();
  if (device < 0 || device >= kDevices) return kInvalidDevice;
  ++world().retained[device];
  *context = &world().contexts[device];
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  const Entry entry(__func__, false);
  if (--world().retained[device] == 0) {
    std::erase_if(world().registered, [device](const auto& each) { return each.second.device == device; });
    std::erase_if(world().device_of_kernel, [device](const auto& each) { return each.second == device; });
    std::erase_if(world().memory,
                  [device](const auto& each) { return each.second.opened && each.second.opened_on == device; });
    for (int other = 0; other < kDevices; ++other)
      world().reaches[device][other] = world().reaches[other][device] = false;
  }
  return entry.result();
}
int cuCtxPushCurrent_v2(void* context) {
  const Entry entry(__func__, false);
  auto* const pushed = static_cast<Context*>(context);
  if (pushed == nullptr || world().retained[pushed->device] <= 0) return kInvalidContext;
  current.push_back(pushed);
  return kSuccess;
}
int cuCtxPopCurrent_v2(void** context) {
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}
int cuCtxGetDevice(int* device) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  *device = current.back()->device;
  return kSuccess;
}
int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  const Entry entry(__func__);
  *least = 0;
  *greatest = -5;
  return entry.result();
}

int cuMemAlloc_v2(Address* address, std::size_t bytes) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  if (bytes == 0) return kInvalidValue;
  if (bytes > kMostBytes) return kOutOfMemory;
  const int pages = ::memfd_create("fake_cuda", MFD_CLOEXEC);
  if (pages < 0 || ::ftruncate(pages, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  return map_pages(world(), pages, bytes, ++world().allocations, address);
}
int cuMemsetD8_v2(Address to, unsigned char value, std::size_t bytes) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  std::byte* const target = alias_of(world(), to, bytes);
  if (target == nullptr) return kInvalidValue;
  std::memset(target, value, bytes);
  return kSuccess;
}
int cuMemFree_v2(Address address) {
  Entry entry(__func__);
  World& w = world();
  entry.wait_until([&] { return is_idle(w); });
  const auto it = w.memory.find(address);
  if (it == w.memory.end()) return kInvalidValue;
  ::munmap(reinterpret_cast<void*>(address), it->second.bytes);
  ::munmap(it->second.alias, it->second.bytes);
  ::close(it->second.pages);
  w.memory.erase(it);
  return kSuccess;
}
int cuIpcGetMemHandle(Handle* handle, Address address) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  const auto it = world().memory.find(address);
  if (it == world().memory.end() || it->second.opened) return kInvalidValue;
  const Memory& memory = it->second;
  const Exported shown{::getpid(), memory.pages, memory.device, memory.bytes, memory.number, address};
  std::memcpy(handle->bytes, &shown, sizeof shown);
  return kSuccess;
}
int cuIpcOpenMemHandle_v2(Address* address, Handle handle, unsigned flags) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  Exported shown{};
  std::memcpy(&shown, handle.bytes, sizeof shown);
  if (shown.process == ::getpid()) return kInvalidContext;  // as the real one: not by who made it
  const int device = current.back()->device;
  constexpr unsigned kLazyPeers = 1;
  if (shown.device != device && (world().apart[device][shown.device] || flags != kLazyPeers)) return kPeersUnsupported;
  for (const auto& [begin, each] : world().memory) {
    const bool overlaps = each.origin < shown.address + shown.bytes && shown.address < each.origin + each.bytes;
    if (each.opened && each.process == shown.process && each.opened_on == device && each.number != shown.number &&
        overlaps)
      return kAlreadyMapped;
  }
  const std::string file = "/proc/" + std::to_string(shown.process) + "/fd/" + std::to_string(shown.pages);
  const int pages = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (pages < 0) return kInvalidValue;
  const int result = map_pages(world(), pages, shown.bytes, shown.number, address);
  if (result != kSuccess) return result;
  Memory& made = world().memory[*address];
  made.opened = true;
  made.opened_on = device;
  made.device = shown.device;
  made.process = shown.process;
  made.origin = shown.address;
  return kSuccess;
}
int cuIpcCloseMemHandle(Address address) { return cuMemFree_v2(address); }
int cuPointerGetAttributes(unsigned count, int* attributes, void** values, Address address) {
  const Entry entry(__func__, false);
  if (entry.refuses()) return entry.result();
  World& w = world();
  const bool known = alias_of(w, address, 1) != nullptr;
  const bool registered = registered_around(w, address) != nullptr;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case 1:
        *static_cast<const Context**>(values[i]) =
            known ? std::prev(w.memory.upper_bound(address))->second.context : nullptr;
        break;
      case 2: *static_cast<unsigned*>(values[i]) = known ? 2 : registered ? 1 : 0; break;
      case 7:
        *static_cast<unsigned long long*>(values[i]) =
            known ? std::prev(w.memory.upper_bound(address))->second.number : 0;
        break;
      case 8: *static_cast<unsigned*>(values[i]) = 0; break;
      case 9:
        *static_cast<int*>(values[i]) = known ? std::prev(w.memory.upper_bound(address))->second.device : -2;
        break;
      case 11: *static_cast<Address*>(values[i]) = known ? std::prev(w.memory.upper_bound(address))->first : 0; break;
      case 12:
        *static_cast<std::size_t*>(values[i]) = known ? std::prev(w.memory.upper_bound(address))->second.bytes : 0;
        break;
      default: return kInvalidValue;
    }
  }
  return kSuccess;
}

int cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned flags) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  constexpr unsigned kDeviceMap = 2;
  const Registered made{bytes, (flags & kDeviceMap) != 0, current.back()->device};
  const bool fresh = world().registered.try_emplace(reinterpret_cast<std::uintptr_t>(address), made).second;
  return fresh ? kSuccess : kAlreadyRegistered;
}
int cuMemHostUnregister(void* address) {
  Entry entry(__func__, false);
  entry.wait_until([] { return is_idle(world()); });
  return world().registered.erase(reinterpret_cast<std::uintptr_t>(address)) == 1 ? kSuccess : kNotRegistered;
}
int cuMemHostGetDevicePointer_v2(Address* found, void* host, unsigned) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  const Registered* const around = registered_around(world(), reinterpret_cast<std::uintptr_t>(host));
  if (around == nullptr || !around->shown) return kInvalidValue;
  *found = reinterpret_cast<Address>(host);
  return kSuccess;
}

int cuMemcpy(Address to, Address from, std::size_t bytes) {
  Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  World& w = world();
  const bool on_host = alias_of(w, to, bytes) == nullptr;
  if (on_host && registered_around(w, to) == nullptr) entry.wait_until([&] { return is_idle(w); });
  if (w.broken != kSuccess) return w.broken;
  std::byte* const target = alias_of(w, to, bytes);
  const std::byte* const source = alias_of(w, from, bytes);
  take_time(w, (target != nullptr ? bytes : 0) + (source != nullptr ? bytes : 0));
  std::memcpy(target != nullptr ? target : reinterpret_cast<std::byte*>(to),
              source != nullptr ? source : reinterpret_cast<const std::byte*>(from), bytes);
  return kSuccess;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void* stream) {
  Entry entry(__func__, true, true);
  if (entry.refuses()) return entry.result();
  World& w = world();
  if (alias_of(w, from, bytes) == nullptr) return kInvalidValue;
  const auto copy = [=, &w] {
    const std::byte* const alias = alias_of(w, from, bytes);
    if (alias == nullptr) return kIllegalAddress;  // freed meanwhile
    take_time(w, bytes);
    std::memcpy(to, alias, bytes);
    return kSuccess;
  };
  const std::shared_ptr<Stream> found = find_stream(w, stream);
  const auto ready = [=, &w] { return may_copy(w, from, bytes); };
  const int result = enqueue(w, found, {.ready = ready, .run = copy});
  if (result != kSuccess || registered_around(w, reinterpret_cast<std::uintptr_t>(to)) != nullptr) return result;
  // A real one waits for all streams, and not for the default one alone, where that is what it copies in.
  const bool in_default = reinterpret_cast<std::uintptr_t>(stream) <= 2;
  entry.wait_until([&] { return in_default ? is_idle(w) : found->queue.empty(); });
  return w.broken;
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* stream) {
  Entry entry(__func__, true, true);
  return entry.refuses() ? entry.result() : copy_to_device(entry, to, from, bytes, stream);
}
// Of rows that follow each other, from host memory to a device: all that is asked of it.
int cuMemcpy2DAsync_v2(const tutti::device::CuCopyOfRows* copy, void* stream) {
  Entry entry(__func__, true, true);
  if (entry.refuses()) return entry.result();
  const bool in_a_row = copy->from.pitch == copy->row_bytes && copy->to.pitch == copy->row_bytes;
  if (!in_a_row || copy->from.host == nullptr || copy->to.device == 0) return kInvalidValue;
  return copy_to_device(entry, copy->to.device, copy->from.host, copy->row_bytes * copy->rows, stream);
}

int cuStreamCreateWithPriority(void** stream, unsigned flags, int) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  auto made = std::make_shared<Stream>();
  made->context = current.back();
  made->blocking = (flags & 1) == 0;
  *stream = made.get();
  world().streams[made.get()] = std::move(made);
  return kSuccess;
}
int cuStreamDestroy_v2(void* stream) {
  const Entry entry(__func__);
  return world().streams.erase(static_cast<Stream*>(stream)) == 1 ? kSuccess : kInvalidHandle;
}
int cuStreamSynchronize(void* handle) {
  Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  World& w = world();
  const std::shared_ptr<Stream> stream = find_stream(w, handle);
  if (stream == nullptr) return kInvalidHandle;
  w.changed.wait(entry.lock(), [&] { return w.broken != 0 || stream->queue.empty(); });
  return w.broken;
}
int cuStreamQuery(void* handle) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  const std::shared_ptr<Stream> stream = find_stream(world(), handle);
  if (stream == nullptr) return kInvalidHandle;
  return has_ended(world(), *stream) ? kSuccess : kNotReady;
}
int cuStreamWaitEvent(void* stream, void* handle, unsigned) {
  const Entry entry(__func__, true, true);
  if (entry.refuses()) return entry.result();
  World& w = world();
  const std::shared_ptr<Event> event = find_event(w, handle);
  if (event == nullptr) return kInvalidHandle;
  const auto ready = [event, number = event->recorded] { return event->reached >= number; };
  return enqueue(w, find_stream(w, stream), {.ready = ready, .run = [] { return kSuccess; }});
}
int cuStreamGetCtx(void* stream, void** context) {
  const Entry entry(__func__, false);
  if (entry.refuses()) return entry.result();
  const std::shared_ptr<Stream> found = find_stream(world(), stream);
  if (found == nullptr) return kInvalidHandle;
  *context = const_cast<Context*>(found->context);
  return kSuccess;
}
int cuStreamGetFlags(void* stream, unsigned* flags) {
  const Entry entry(__func__, false);
  if (entry.refuses()) return entry.result();
  const std::shared_ptr<Stream> found = find_stream(world(), stream);
  if (found == nullptr) return kInvalidHandle;
  const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= 2;
  *flags = found->blocking || is_default ? 0 : 1;
  return kSuccess;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  const Entry entry(__func__, false);
  std::swap(*mode, capture_mode);
  return entry.result();
}
int cuStreamIsCapturing(void* stream, int* status) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  const std::shared_ptr<Stream> found = find_stream(world(), stream);
  if (found == nullptr) return kInvalidHandle;
  *status = found->captures ? 1 : 0;
  return kSuccess;
}
int cuStreamWaitValue32_v2(void* stream, Address word, std::uint32_t value, unsigned) {
  const Entry entry(__func__, true, true);
  if (entry.refuses()) return entry.result();
  World& w = world();
  const auto ready = [word, value] {
    auto& shared = *reinterpret_cast<std::uint32_t*>(word);
    return static_cast<std::int32_t>(std::atomic_ref(shared).load(std::memory_order_acquire) - value) >= 0;
  };
  return enqueue(w, find_stream(w, stream), {.ready = ready, .run = [] { return kSuccess; }, .polls = true});
}
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  const Entry entry(__func__, true, true);
  if (entry.refuses()) return entry.result();
  World& w = world();
  const auto run = [=] {
    function(argument);
    return kSuccess;
  };
  return enqueue(w, find_stream(w, stream), {.ready = {}, .run = run, .unlocked = true});
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  const Entry entry(__func__, false);
  *value = attribute == 16 ? 4 : attribute == 76 ? 0 : 9;
  return entry.result();
}
int cuDeviceGetUuid_v2(unsigned char* name, int device) {
  const Entry entry(__func__, false);
  std::fill_n(name, 16, static_cast<unsigned char>(device + 1));
  return entry.result();
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  const Entry entry(__func__, false);
  if (entry.refuses()) return entry.result();
  *can = device != peer && !world().apart[device][peer] ? 1 : 0;
  return kSuccess;
}
int cuCtxEnablePeerAccess(void* context, unsigned) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  const int device = current.back()->device, peer = static_cast<Context*>(context)->device;
  if (device == peer || world().apart[device][peer]) return kPeersUnsupported;
  return std::exchange(world().reaches[device][peer], true) ? kPeersEnabled : kSuccess;
}
int cuCtxGetCurrent(void** context) {
  const Entry entry(__func__, false);
  *context = current.empty() ? nullptr : current.back();
  return kSuccess;
}
int cuModuleLoadData(void** module, const void* code) {
  Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  entry.wait_until([] { return is_idle(world()); });
  auto made = std::make_unique<FakeKernel>();
  if (is_of_device(code)) {
    world().device_code[made.get()] = names_in(code);
  } else {
    std::memcpy(made.get(), code, sizeof(FakeKernel));
  }
  *module = made.get();
  world().device_of_kernel[made.get()] = current.back()->device;
  world().kernels.push_back(std::move(made));
  return kSuccess;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  const Entry entry(__func__);
  *function = module;
  if (const auto found = world().device_code.find(module); found != world().device_code.end())
    return found->second.find(std::string(".text.") + name + '\0') != std::string::npos ? kSuccess : kInvalidValue;
  const char* const made = static_cast<const FakeKernel*>(module)->copies ? "tutti_copy" : "tutti_reduce";
  return std::string_view(name) == made ? entry.result() : kInvalidValue;
}
int cuLaunchKernel(void* function, unsigned, unsigned pieces, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void* stream, void** arguments, void**) {
  const Entry entry(__func__, true, true);
  if (entry.refuses()) return entry.result();
  World& w = world();
  if (!w.device_of_kernel.contains(function)) return kInvalidHandle;  // it went with its context
  if (w.device_code.contains(function)) return kInvalidHandle;        // of a real device, which there is none of
  const auto* const kernel = static_cast<const FakeKernel*>(function);
  const auto number = [&](int argument) { return *static_cast<const unsigned long long*>(arguments[argument]); };
  const auto small = [&](int argument) { return *static_cast<const int*>(arguments[argument]); };
  const int device = current.back()->device;
  if (w.device_of_kernel.at(function) != device) return kInvalidHandle;  // it was loaded for another
  const KernelLaunch launch{device, *static_cast<const KernelOperands*>(arguments[0]), small(1), pieces};
  const auto ready = [&w] { return !w.kernels_held; };
  if (kernel->copies) {
    const CopyLaunch copy{launch, small(2), number(3)};
    return enqueue(w, find_stream(w, stream), {.ready = ready, .run = [&w, copy] { return run_kernel(w, copy); }});
  }
  const ReduceLaunch reduce{launch, number(2), number(3), number(5), static_cast<unsigned>(small(4))};
  return enqueue(w, find_stream(w, stream),
                 {.ready = ready, .run = [&w, kernel, reduce] { return run_kernel(w, *kernel, reduce); }});
}

int cuEventCreate(void** event, unsigned) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  auto made = std::make_shared<Event>();
  made->context = current.back();
  *event = made.get();
  world().events[made.get()] = std::move(made);
  return kSuccess;
}
int cuEventDestroy_v2(void* event) {
  const Entry entry(__func__, false);
  return world().events.erase(static_cast<Event*>(event)) == 1 ? kSuccess : kInvalidHandle;
}
int cuEventRecord(void* handle, void* stream) {
  const Entry entry(__func__, true, true);
  if (entry.refuses()) return entry.result();
  World& w = world();
  const std::shared_ptr<Event> event = find_event(w, handle);
  const std::shared_ptr<Stream> found = find_stream(w, stream);
  if (event == nullptr || found == nullptr || event->context != found->context) return kInvalidHandle;
  const auto reach = [event, number = ++event->recorded] {
    event->reached = number;
    return kSuccess;
  };
  return enqueue(w, found, {.ready = {}, .run = reach});
}
int cuEventQuery(void* handle) {
  const Entry entry(__func__);
  if (entry.refuses()) return entry.result();
  const std::shared_ptr<Event> event = find_event(world(), handle);
  if (event == nullptr) return kInvalidHandle;
  return event->reached >= event->recorded ? kSuccess : kNotReady;
}

}  // extern "C"
