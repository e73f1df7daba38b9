#include "device/fake_world.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "kernels/kernels.h"
#include "tutti/types.h"

namespace fake_cuda {
namespace {

std::vector<std::shared_ptr<Stream>> ready_streams(World& w, bool& polls) {
  std::vector<std::shared_ptr<Stream>> found;
  const auto look = [&](const std::shared_ptr<Stream>& stream) {
    if (stream == nullptr || stream->busy || stream->queue.empty()) return;
    const Work& head = stream->queue.front();
    if (head.ready()) {
      found.push_back(stream);
    } else {
      polls = polls || head.polls;
    }
  };
  for (const auto& [handle, stream] : w.streams) look(stream);
  for (const auto& stream : w.defaults) look(stream);
  return found;
}

void play_device() {
  World& w = world();
  std::unique_lock lock(w.mutex);
  for (;;) {
    bool polls = false;
    const auto ready = w.broken != 0 ? std::vector<std::shared_ptr<Stream>>() : ready_streams(w, polls);
    if (ready.empty()) {
      if (polls) {
        w.changed.wait_for(lock, std::chrono::microseconds(50));
      } else {
        w.changed.wait(lock);
      }
      continue;
    }
    // A device takes its time: whoever does not wait for it gets ahead of it, now and then.
    if (w.random() % 4 == 0) {
      w.changed.wait_for(lock, std::chrono::microseconds(w.random() % 300));
      continue;
    }
    const std::shared_ptr<Stream> stream = ready[w.random() % ready.size()];
    const Work head = std::move(stream->queue.front());
    stream->busy = true;
    if (head.unlocked) lock.unlock();
    const int result = head.run();
    if (head.unlocked) lock.lock();
    if (result != kSuccess) w.broken = result;
    stream->busy = false;
    stream->queue.pop_front();
    ++stream->done;
    w.changed.notify_all();
  }
}

}  // namespace

World& world() {
  static World* const kWorld = new World;  // its thread is never joined
  return *kWorld;
}

thread_local std::vector<Context*> current;
thread_local int capture_mode = 0;

bool may_spoil_captures(const std::string& function) {
  static const std::set<std::string> kFunctions = {"cuMemAlloc_v2",       "cuMemFree_v2",      "cuMemHostRegister_v2",
                                                   "cuMemHostUnregister", "cuEventQuery",      "cuStreamQuery",
                                                   "cuStreamSynchronize", "cuModuleLoadData",  "cuIpcOpenMemHandle_v2",
                                                   "cuIpcCloseMemHandle", "cuIpcGetMemHandle", "cuMemcpy",
                                                   "cuMemsetD8_v2"};
  return kFunctions.contains(function);
}

const Registered* registered_around(const World& w, std::uintptr_t address) {
  const auto behind = w.registered.upper_bound(address);
  if (behind == w.registered.begin()) return nullptr;
  const auto& [begin, found] = *std::prev(behind);
  return address < begin + found.bytes ? &found : nullptr;
}

std::byte* alias_of(World& w, Address address, std::size_t bytes) {
  auto it = w.memory.upper_bound(address);
  if (it == w.memory.begin()) return nullptr;
  --it;
  if (address + bytes > it->first + it->second.bytes) return nullptr;
  return it->second.alias + (address - it->first);
}

std::byte* reached_by(World& w, int device, Address address, std::size_t bytes) {
  std::byte* const alias = alias_of(w, address, bytes);
  if (alias == nullptr) return nullptr;
  const Memory& memory = std::prev(w.memory.upper_bound(address))->second;
  const bool reached =
      memory.opened ? memory.opened_on == device : memory.device == device || w.reaches[device][memory.device];
  return reached ? alias : nullptr;
}

bool is_idle(const World& w) {
  const auto empty = [](const auto& stream) { return stream == nullptr || stream->queue.empty(); };
  for (const auto& [handle, stream] : w.streams) {
    if (!empty(stream)) return false;
  }
  return std::ranges::all_of(w.defaults, empty);
}

std::shared_ptr<Stream> find_stream(World& w, void* handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {
    auto& stream = w.defaults[current.back()->device];
    if (stream == nullptr) {
      stream = std::make_shared<Stream>();
      stream->context = current.back();
    }
    return stream;
  }
  const auto it = w.streams.find(static_cast<Stream*>(handle));
  return it == w.streams.end() ? nullptr : it->second;
}

std::shared_ptr<Event> find_event(World& w, void* handle) {
  const auto it = w.events.find(static_cast<Event*>(handle));
  return it == w.events.end() ? nullptr : it->second;
}

int map_pages(World& w, int pages, std::size_t bytes, unsigned long long number, Address* address) {
  void* const place = std::exchange(w.next_place, nullptr);
  const int fixed = place == nullptr ? 0 : MAP_FIXED_NOREPLACE;
  void* const shown = ::mmap(place, bytes, PROT_NONE, MAP_SHARED | fixed, pages, 0);
  void* const alias = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pages, 0);
  if (alias == MAP_FAILED || shown == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<Address>(shown);
  Memory made;
  made.alias = static_cast<std::byte*>(alias);
  made.bytes = bytes;
  made.device = current.back()->device;
  made.context = current.back();
  made.pages = pages;
  made.number = number;
  w.memory[*address] = made;
  return kSuccess;
}

void take_time(const World& w, std::size_t bytes) {
  if (w.us_per_mb == 0) return;
  std::this_thread::sleep_for(
      std::chrono::microseconds(static_cast<std::int64_t>(bytes) * w.us_per_mb / (std::int64_t{1} << 20)));
}

int run_kernel(World& w, const FakeKernel& kernel, const ReduceLaunch& launch) {
  const std::size_t element = kernel.own != nullptr ? kernel.own_bytes : tutti::size_of(kernel.type);
  const std::size_t bytes = launch.count * element;
  const auto known = [](const void* address) { return address != nullptr; };
  for (unsigned block = 0; block < launch.pieces; ++block) {
    std::vector<void*> sources;
    std::vector<void*> destinations;
    for (std::size_t s = 0; s < kernel.sources; ++s) {
      const auto begin = reinterpret_cast<Address>(launch.operands.sources[s]) + block * launch.step * element;
      sources.push_back(reached_by(w, launch.device, begin, bytes));
    }
    for (int d = 0; d < launch.destinations; ++d) {
      if (launch.pieces == 1 || static_cast<unsigned>(d) == block)
        destinations.push_back(
            reached_by(w, launch.device, reinterpret_cast<Address>(launch.operands.destinations[d]), bytes));
    }
    if (!std::ranges::all_of(sources, known) || !std::ranges::all_of(destinations, known)) return kIllegalAddress;
    take_time(w, bytes * (sources.size() + destinations.size()));
    if (kernel.own != nullptr) {
      kernel.own(sources.data(), destinations.data(), static_cast<int>(destinations.size()), launch.count,
                 launch.lines);
      continue;
    }
    const std::vector<const void*> read(sources.begin(), sources.end());
    tutti::kernels::find_reduce(kernel.type, kernel.op)(destinations.data(), destinations.size(), read.data(),
                                                        read.size(), launch.count, launch.divisor);
  }
  return kSuccess;
}

// In any order: a device keeps none among them.
int run_kernel(World& w, const CopyLaunch& launch) {
  std::vector<unsigned> order(launch.pieces);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::shuffle(order, w.random);
  for (const unsigned piece : order) {
    const unsigned columns = static_cast<unsigned>(launch.columns), from = piece / columns, to = piece % columns;
    const auto begin = reinterpret_cast<Address>(launch.operands.sources[from]) + to * launch.bytes;
    const std::byte* const source = reached_by(w, launch.device, begin, launch.bytes);
    if (source == nullptr) return kIllegalAddress;
    take_time(w, launch.bytes);
    for (int d = 0; d < launch.destinations; ++d) {
      if (columns > 1 && static_cast<unsigned>(d) != to) continue;
      const auto place = reinterpret_cast<Address>(launch.operands.destinations[d]) + from * launch.bytes;
      std::byte* const destination = reached_by(w, launch.device, place, launch.bytes);
      if (destination == nullptr) return kIllegalAddress;
      if (destination != source) take_time(w, launch.bytes);
      std::memmove(destination, source, launch.bytes);
    }
  }
  return kSuccess;
}

bool has_ended(const World& w, const Stream& stream) {
  const bool is_default = stream.context != nullptr && w.defaults[stream.context->device].get() == &stream;
  return stream.queue.empty() && (!is_default || std::ranges::all_of(w.streams, [&](const auto& each) {
           return !each.second->blocking || each.second->context != stream.context || each.second->queue.empty();
         }));
}

namespace {

// What is put into the default stream waits for the blocking streams of its context, and they for it.
std::vector<std::shared_ptr<Stream>> awaited_by(const World& w, const std::shared_ptr<Stream>& stream) {
  std::vector<std::shared_ptr<Stream>> found;
  const std::shared_ptr<Stream>& the_default = w.defaults[stream->context->device];
  if (stream->blocking && the_default != nullptr) found.push_back(the_default);
  for (const auto& [handle, other] : w.streams) {
    if (stream == the_default && other->blocking && other->context == stream->context) found.push_back(other);
  }
  return found;
}

}  // namespace

int enqueue(World& w, const std::shared_ptr<Stream>& stream, Work work) {
  if (stream == nullptr) return kInvalidHandle;
  if (!work.ready) work.ready = [] { return true; };
  for (const std::shared_ptr<Stream>& other : awaited_by(w, stream)) {
    work.ready = [ready = std::move(work.ready), other, number = other->put] {
      return other->done >= number && ready();
    };
  }
  ++stream->put;
  stream->queue.push_back(std::move(work));
  if (!std::exchange(w.running, true)) std::thread(play_device).detach();
  w.changed.notify_all();
  return kSuccess;
}

}  // namespace fake_cuda
