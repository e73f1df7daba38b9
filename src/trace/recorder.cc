#include "trace/recorder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <ranges>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace tutti::trace {
namespace {

std::atomic<std::uint64_t> recorders_so_far{0};

// Who reads the file of an earlier run keeps it: this one is another.
FileDescriptor make_file(const std::string& path, std::uint64_t bytes) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno("cannot replace the trace '" + path + "'");
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) throw_errno("cannot make the trace '" + path + "'");
  // Now, because a store to a page that a full disk has no room for would end the process.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    errno = error;
    throw_errno("no room for the trace '" + path + "' of " + std::to_string(bytes) + " bytes");
  }
  return file;
}

const RingShape& require_shape(const RingShape& shape) {
  if (!std::has_single_bit(shape.events) || shape.events > kMostEvents) {
    throw Error(ErrorCode::invalid_argument, "a ring of " + std::to_string(shape.events) +
                                                 " events: it takes a power of two, at most " +
                                                 std::to_string(kMostEvents));
  }
  const std::uint32_t most = std::max({shape.names, shape.communicators, shape.members});
  if (!std::has_single_bit(shape.names) || most > kMostTableEntries)
    throw Error(ErrorCode::invalid_argument, "a ring with tables of up to " + std::to_string(most) + " entries");
  return shape;
}

std::shared_ptr<std::byte> map_file(const std::string& path, std::uint64_t bytes) {
  const auto file = std::make_shared<FileDescriptor>(make_file(path, bytes));
  // So that others can tell whether it is recorded to: the lock goes with the process.
  static_cast<void>(::flock(file->get(), LOCK_EX | LOCK_NB));
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file->get(), 0);
  if (memory == MAP_FAILED) throw_errno("cannot map the trace '" + path + "'");
#ifdef MADV_POPULATE_WRITE
  // Else the first store to each page of a file takes a fault. Where the system is too old for it, that is all.
  static_cast<void>(::madvise(memory, bytes, MADV_POPULATE_WRITE));
#endif
  return {static_cast<std::byte*>(memory), [bytes, file](std::byte* mapped) { ::munmap(mapped, bytes); }};
}

}  // namespace

std::string ring_path(const std::string& folder, int rank) {
  return folder + "/rank-" + std::to_string(rank) + ".ring";
}

Recorder::Recorder(const std::string& folder, const RingFacts& facts, const RingShape& shape)
    : Recorder(map_file(ring_path(folder, facts.rank), ring_bytes(require_shape(shape))), facts, shape) {}

Recorder::Recorder(std::shared_ptr<std::byte> memory, const RingFacts& facts, const RingShape& shape)
    : memory_(std::move(memory)),
      shape_(require_shape(shape)),
      header_(reinterpret_cast<RingHeader*>(memory_.get())),
      ring_(memory_.get(), shape),
      id_(recorders_so_far.fetch_add(1, std::memory_order_relaxed) + 1) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  header_->version = kRingVersion;
  header_->slot_bytes = sizeof(RingSlot);
  header_->shape = shape;
  header_->facts = facts;
  header_->facts.system_ns =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count());
  header_->first = clock_.pair();
  pair_clocks();
  header_->magic.store(kRingMagic, std::memory_order_release);
}

std::uint64_t Recorder::at(std::chrono::steady_clock::time_point time) const {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return TicksToNs(header_->first, clock_.pair()).ticks_at(static_cast<std::uint64_t>(ns));
}

// One thread does; others meanwhile go on.
void Recorder::pair_clocks() {
  std::uint32_t stamp = header_->pair_stamp.load(std::memory_order_relaxed);
  if ((stamp & 1) != 0 || !header_->pair_stamp.compare_exchange_strong(stamp, stamp + 1, std::memory_order_acquire))
    return;
  const ClockPair pair = clock_.pair();
  std::atomic_thread_fence(std::memory_order_release);
  header_->latest_ticks.store(pair.ticks, std::memory_order_relaxed);
  header_->latest_steady_ns.store(pair.steady_ns, std::memory_order_relaxed);
  header_->pair_stamp.store(stamp + 2, std::memory_order_release);
}

std::uint16_t Recorder::name(std::string_view name) {
  name = cut_name(name);
  auto* const entries = table<NameEntry>(RingPlaces(shape_).names);
  const std::uint32_t mask = shape_.names - 1, hash = hash_of_name(name);
  for (std::uint32_t i = 0; i < shape_.names; ++i) {
    const std::uint32_t number = (hash + i) & mask;
    NameEntry& entry = entries[number];
    std::uint32_t state = entry.state.load(std::memory_order_acquire);
    if (state == NameEntry::kFree && entry.state.compare_exchange_strong(state, NameEntry::kBegun)) {
      entry.length = static_cast<std::uint8_t>(name.size());
      std::memcpy(entry.text, name.data(), name.size());
      entry.state.store(NameEntry::kWhole, std::memory_order_release);
      return static_cast<std::uint16_t>(number);
    }
    while ((state = entry.state.load(std::memory_order_acquire)) == NameEntry::kBegun) continue;
    if (entry.name() == name) return static_cast<std::uint16_t>(number);
  }
  header_->nameless.fetch_add(1, std::memory_order_relaxed);
  return TraceEvent::kNone;
}

std::uint16_t Recorder::add_communicator(std::uint64_t id, std::span<const int> members) {
  const std::lock_guard lock(adding_);
  const RingPlaces places(shape_);
  const std::uint32_t number = header_->communicators.load(std::memory_order_relaxed);
  const std::uint32_t first = header_->members.load(std::memory_order_relaxed);
  const auto job = std::views::iota(0, header_->facts.size);
  const bool all = std::ranges::equal(members, job);
  const auto room = static_cast<std::uint32_t>(all ? 0 : members.size());
  if (number >= shape_.communicators || number == TraceEvent::kNone || room > shape_.members - first)
    return TraceEvent::kNone;
  std::copy_n(members.begin(), room, table<std::int32_t>(places.members) + first);
  table<CommunicatorEntry>(places.communicators)[number] = {
      id, static_cast<std::int32_t>(members.size()),
      all ? CommunicatorEntry::kAllRanks : static_cast<std::int32_t>(first)};
  header_->members.store(first + room, std::memory_order_relaxed);
  header_->communicators.store(number + 1, std::memory_order_release);
  return static_cast<std::uint16_t>(number);
}

std::uint8_t Recorder::other_thread() {
  struct Known {
    std::uint64_t recorder = 0;
    std::uint8_t number = 0;
  };
  static thread_local Known known;
  if (known.recorder == id_) [[likely]]
    return known.number;
  const std::uint32_t number = threads_.fetch_add(1, std::memory_order_relaxed);
  known = {id_, static_cast<std::uint8_t>(std::min<std::uint32_t>(number, kMostThreads - 1))};
  return known.number;
}

void Recorder::end() {
  pair_clocks();
  write_back();
  header_->ended.store(1, std::memory_order_release);
  write_back();
}

// Another host that merges the rings reads what this one has written to a file system of both, and no more. Of memory
// that is no file's the system says so, and nothing is lost.
void Recorder::write_back() const {
  if (header_->facts.hosts > 1) static_cast<void>(::msync(memory_.get(), ring_bytes(shape_), MS_SYNC));
}

}  // namespace tutti::trace
