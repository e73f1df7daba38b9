#include "trace/recording.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace tutti::trace {
namespace {

// The header and a slot as bytes give them: no atomics, no alignment.
struct HeaderImage {
  std::uint64_t magic;
  std::uint32_t version, slot_bytes;
  std::uint64_t capacity;
  RingFacts facts;
  std::uint64_t written;
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
  take(header.capacity, offsetof(RingHeader, capacity));
  take(header.facts, offsetof(RingHeader, facts));
  take(header.written, offsetof(RingHeader, written));
  if (header.magic == 0) fail("its recorder has not begun");
  if (header.magic != kRingMagic) fail("it does not begin as one");
  if (header.version != kRingVersion) {
    fail("it has version " + std::to_string(header.version) + ", and this build reads " + std::to_string(kRingVersion));
  }
  if (header.slot_bytes != sizeof(RingSlot)) fail("events of " + std::to_string(header.slot_bytes) + " bytes");
  if (!std::has_single_bit(header.capacity) || header.capacity > kMostEvents)
    fail("room for " + std::to_string(header.capacity) + " events");
  if (from.size < ring_bytes(header.capacity)) {
    fail("it was cut short: " + std::to_string(from.size) + " bytes of " + std::to_string(ring_bytes(header.capacity)));
  }
  if (header.facts.size < 1 || header.facts.rank < 0 || header.facts.rank >= header.facts.size)
    fail("rank " + std::to_string(header.facts.rank) + " of " + std::to_string(header.facts.size));
  return header;
}

// Slots next to each other, read three times: an event is one where its stamp was so before and after.
class SlotReader {
 public:
  static constexpr std::size_t kAtOnce = 1024;

  explicit SlotReader(const RingBytes& from) : from_(from) {}

  void read(std::uint64_t first_slot, std::size_t count) {
    for (auto* slots : {&before_, &between_, &after_}) {
      slots->resize(count);
      from_.copy(ring_bytes(first_slot), std::as_writable_bytes(std::span(*slots)));
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
  std::vector<SlotImage> before_, between_, after_;
};

Recording read_ring(const RingBytes& from, std::uint64_t first) {
  const HeaderImage header = read_header(from);
  Recording recording{header.facts, header.written, 0, 0, {}};
  first = std::min(first, header.written);
  const std::uint64_t kept = std::min(header.capacity, header.written - first);
  recording.overwritten = header.written - kept - first;
  SlotReader slots(from);
  for (std::uint64_t next = header.written - kept; next != header.written;) {
    const std::uint64_t slot = next % header.capacity;
    const std::uint64_t count =
        std::min<std::uint64_t>({SlotReader::kAtOnce, header.capacity - slot, header.written - next});
    slots.read(slot, count);
    for (std::size_t i = 0; i < count; ++i, ++next) {
      if (slots.holds(i, next)) recording.events.push_back(slots.event(i));
    }
  }
  recording.torn = kept - recording.events.size();
  return recording;
}

}  // namespace

Recording read_recording(const std::string& path, std::uint64_t first) {
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
  return read_ring({"'" + path + "'", static_cast<std::uint64_t>(facts.st_size), copy}, first);
}

Recording read_recording(std::span<const std::byte> image, std::uint64_t first) {
  const auto copy = [&](std::uint64_t offset, std::span<std::byte> to) {
    std::memcpy(to.data(), image.data() + offset, to.size());
  };
  return read_ring({"this memory", image.size(), copy}, first);
}

}  // namespace tutti::trace
