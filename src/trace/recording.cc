#include "trace/recording.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace tutti::trace {
namespace {

// The header and the rest as bytes give them: no atomics, no alignment.
struct HeaderImage {
  std::uint64_t magic;
  std::uint32_t version, slot_bytes;
  RingShape shape;
  RingFacts facts;
  ClockPair first;
  std::uint32_t ended, communicators, members;
  std::uint64_t nameless;
  EventCounts written;
};
struct SlotImage {
  std::uint64_t stamp;
  EventWords words;
};
static_assert(sizeof(SlotImage) == sizeof(RingSlot));

// What is read from: its size, and how to copy bytes out of it, which throws where they are not there.
struct RingBytes {
  std::string name;
  std::uint64_t size = 0;
  std::function<void(std::uint64_t offset, std::span<std::byte> to)> copy;
};

HeaderImage read_header(const RingBytes& from) {
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, from.name + " is no trace that can be read: " + why);
  };
  if (from.size < sizeof(RingHeader)) fail("it has only " + std::to_string(from.size) + " bytes");
  alignas(RingHeader) std::array<std::byte, sizeof(RingHeader)> bytes;
  from.copy(0, bytes);
  HeaderImage header{};
  const auto take = [&](auto& field, std::size_t offset) { std::memcpy(&field, bytes.data() + offset, sizeof field); };
  take(header.magic, offsetof(RingHeader, magic));
  take(header.version, offsetof(RingHeader, version));
  take(header.slot_bytes, offsetof(RingHeader, slot_bytes));
  take(header.shape, offsetof(RingHeader, shape));
  take(header.facts, offsetof(RingHeader, facts));
  take(header.first, offsetof(RingHeader, first));
  take(header.ended, offsetof(RingHeader, ended));
  take(header.communicators, offsetof(RingHeader, communicators));
  take(header.members, offsetof(RingHeader, members));
  take(header.nameless, offsetof(RingHeader, nameless));
  take(header.written.own, offsetof(RingHeader, written));
  take(header.written.others, offsetof(RingHeader, written_by_others));
  if (header.magic == 0) fail("its recorder has not begun");
  if (header.magic != kRingMagic) fail("it does not begin as one");
  if (header.version != kRingVersion) {
    fail("it has version " + std::to_string(header.version) + ", and this build reads " + std::to_string(kRingVersion));
  }
  if (header.slot_bytes != sizeof(RingSlot)) fail("events of " + std::to_string(header.slot_bytes) + " bytes");
  const RingShape& shape = header.shape;
  if (!std::has_single_bit(shape.events) || shape.events > kMostEvents)
    fail("room for " + std::to_string(shape.events) + " events");
  if (!std::has_single_bit(shape.names) ||
      std::max({shape.names, shape.communicators, shape.members}) > kMostTableEntries)
    fail("tables for " + std::to_string(shape.names) + " names");
  if (from.size < RingPlaces(shape).slots) {
    fail("it was cut short: " + std::to_string(from.size) + " bytes of " + std::to_string(ring_bytes(shape)));
  }
  if (header.facts.size < 1 || header.facts.size > kMostRanks || header.facts.rank < 0 ||
      header.facts.rank >= header.facts.size)
    fail("rank " + std::to_string(header.facts.rank) + " of " + std::to_string(header.facts.size));
  if (header.facts.recorded < 0 || header.facts.recorded > header.facts.size)
    fail(std::to_string(header.facts.recorded) + " of " + std::to_string(header.facts.size) + " ranks");
  if (header.facts.hosts < 1 || header.facts.hosts > kMostRanks || header.facts.host < 0 ||
      header.facts.host >= header.facts.hosts)
    fail("host " + std::to_string(header.facts.host) + " of " + std::to_string(header.facts.hosts));
  return header;
}

// The pair of clocks that was told last. It is written over and over: believed where its stamp was even, and the same
// before and after; that of a rank that was killed on the way stays odd, and the first pair has to do.
ClockPair read_latest_pair(const RingBytes& from, const ClockPair& first) {
  constexpr int kTries = 100;
  const auto read = [&](std::size_t offset, auto value) {
    from.copy(offset, std::as_writable_bytes(std::span(&value, 1)));
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return value;
  };
  for (int i = 0; i < kTries; ++i) {
    const auto before = read(offsetof(RingHeader, pair_stamp), std::uint32_t{0});
    const ClockPair pair = {read(offsetof(RingHeader, latest_ticks), std::uint64_t{0}),
                            read(offsetof(RingHeader, latest_steady_ns), std::uint64_t{0})};
    if (before % 2 == 0 && read(offsetof(RingHeader, pair_stamp), std::uint32_t{0}) == before) return pair;
  }
  return first;
}

// Slots next to each other, read three times: an event is one where its stamp was so before and after.
class SlotReader {
 public:
  static constexpr std::size_t kAtOnce = 1024;

  // `slots`: where they begin.
  SlotReader(const RingBytes& from, std::uint64_t slots) : from_(from), begin_(slots) {}

  void read(std::uint64_t first_slot, std::size_t count) {
    for (auto* slots : {&before_, &between_, &after_}) {
      slots->assign(count, SlotImage{});
      const std::uint64_t begin = begin_ + first_slot * sizeof(RingSlot);
      const std::uint64_t whole = from_.size <= begin ? 0 : (from_.size - begin) / sizeof(RingSlot);
      from_.copy(begin, std::as_writable_bytes(std::span(*slots).first(std::min<std::uint64_t>(count, whole))));
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  // Whether slot i of those holds this event.
  bool holds(std::size_t i, std::uint64_t event) const {
    const std::uint64_t whole = RingSlot::whole(event);
    if (whole == 0) return false;  // a count that no ring gets to; 0 is the stamp of a slot that was never used
    return before_[i].stamp == whole && between_[i].stamp == whole && after_[i].stamp == whole;
  }
  TraceEvent event(std::size_t i) const { return std::bit_cast<TraceEvent>(between_[i].words); }

 private:
  const RingBytes& from_;
  std::uint64_t begin_;
  std::vector<SlotImage> before_, between_, after_;
};

std::vector<std::string> read_names(const RingBytes& from, const RingShape& shape) {
  std::vector<std::byte> bytes(std::size_t{shape.names} * sizeof(NameEntry));
  from.copy(RingPlaces(shape).names, bytes);
  std::vector<std::string> names(shape.names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::byte* const entry = &bytes[i * sizeof(NameEntry)];
    std::uint32_t state = 0;
    std::memcpy(&state, entry + offsetof(NameEntry, state), sizeof state);
    if (state != NameEntry::kWhole) continue;
    const auto length =
        std::min<std::size_t>(std::to_integer<std::size_t>(entry[offsetof(NameEntry, length)]), NameEntry::kMostBytes);
    names[i].assign(reinterpret_cast<const char*>(entry + offsetof(NameEntry, text)), length);
  }
  return names;
}

// What names ranks that no job has is left without any; -1 stands for a rank of another job.
std::vector<Recording::Communicator> read_communicators(const RingBytes& from, const HeaderImage& header) {
  const RingPlaces places(header.shape);
  std::vector<CommunicatorEntry> entries(std::min(header.communicators, header.shape.communicators));
  std::vector<std::int32_t> members(std::min(header.members, header.shape.members));
  from.copy(places.communicators, std::as_writable_bytes(std::span(entries)));
  from.copy(places.members, std::as_writable_bytes(std::span(members)));
  std::vector<Recording::Communicator> communicators;
  for (const CommunicatorEntry& entry : entries) {
    Recording::Communicator& made = communicators.emplace_back();
    made.id = entry.id;
    if (entry.first_member == CommunicatorEntry::kAllRanks && entry.size == header.facts.size) made.size = entry.size;
    if (entry.first_member < 0 || entry.size < 0) continue;
    const std::size_t first = static_cast<std::size_t>(entry.first_member), size = static_cast<std::size_t>(entry.size);
    if (first > members.size() || size > members.size() - first) continue;
    const auto listed = std::span(members).subspan(first, size);
    if (!std::ranges::all_of(listed, [&](int rank) { return rank >= -1 && rank < header.facts.size; })) continue;
    made.size = entry.size;
    made.members.assign(listed.begin(), listed.end());
  }
  return communicators;
}

// The slots of one kind of writers, into a recording. Returns how many events were overwritten.
std::uint64_t read_slots(SlotReader slots, std::uint64_t capacity, std::uint64_t written, std::uint64_t first,
                         Recording& to) {
  first = std::min(first, written);
  const std::uint64_t kept = std::min(capacity, written - first), before = to.events.size();
  for (std::uint64_t next = written - kept; next != written;) {
    const std::uint64_t slot = next % capacity;
    const std::uint64_t count = std::min<std::uint64_t>({SlotReader::kAtOnce, capacity - slot, written - next});
    slots.read(slot, count);
    for (std::size_t i = 0; i < count; ++i, ++next) {
      if (slots.holds(i, next)) to.events.push_back(slots.event(i));
    }
  }
  to.torn += kept - (to.events.size() - before);
  return written - kept - first;
}

Recording read_ring(const RingBytes& from, const EventCounts& first) {
  const HeaderImage header = read_header(from);
  Recording recording;
  recording.facts = header.facts;
  recording.ended = header.ended != 0;
  recording.first = header.first;
  recording.latest = read_latest_pair(from, header.first);
  recording.written = header.written;
  recording.nameless = header.nameless;
  recording.names = read_names(from, header.shape);
  recording.communicators = read_communicators(from, header);
  const RingPlaces places(header.shape);
  const std::uint64_t capacity = header.shape.events;
  recording.overwritten.own = read_slots({from, places.slots}, capacity, header.written.own, first.own, recording);
  recording.overwritten.others =
      read_slots({from, places.others}, capacity, header.written.others, first.others, recording);
  return recording;
}

template <class Read>
auto with_file(const std::string& path, Read&& read) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) throw_errno("cannot open the trace '" + path + "'");
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) throw_errno("cannot look at the trace '" + path + "'");
  const auto copy = [&](std::uint64_t offset, std::span<std::byte> to) {
    while (!to.empty()) {
      const ssize_t got = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_errno("cannot read the trace '" + path + "'");
      if (got == 0)
        throw Error(ErrorCode::invalid_argument, "the trace '" + path + "' was cut short while it was read");
      offset += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
  };
  return read(RingBytes{"'" + path + "'", static_cast<std::uint64_t>(facts.st_size), copy});
}

}  // namespace

Recording read_recording(const std::string& path, const EventCounts& first) {
  return with_file(path, [&](const RingBytes& bytes) { return read_ring(bytes, first); });
}

bool is_recorded(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  // A file system without locks says nothing.
  const bool locked = file.valid() && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!locked) return false;
  try {
    return with_file(path, read_header).ended == 0;
  } catch (const Error&) {
    return true;  // about to begin
  }
}

bool has_ended(const std::string& path, std::uint64_t job) {
  try {
    const HeaderImage header = with_file(path, read_header);
    return header.facts.job == job && header.ended != 0;
  } catch (const Error&) {
    return false;
  }
}

Recording read_recording(std::span<const std::byte> image, const EventCounts& first) {
  const auto copy = [&](std::uint64_t offset, std::span<std::byte> to) {
    std::ranges::copy(image.subspan(offset, to.size()), to.begin());
  };
  return read_ring({"this memory", image.size(), copy}, first);
}

}  // namespace tutti::trace
