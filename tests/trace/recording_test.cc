// Files that are no rings, or not quite: each is an error with words, or a recording that says what it lacks.
#include "trace/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "trace/folder.h"

namespace tutti::trace {
namespace {

using testing::event_of;
using testing::Folder;
using ::testing::HasSubstr;

constexpr std::uint64_t kCapacity = 8;
constexpr RingShape kShape{.events = kCapacity, .names = 4, .communicators = 3, .members = 5};
constexpr std::uint64_t kSlots = RingPlaces(kShape).slots;

// A ring in memory, with so many events recorded; alignment is the ring's, as of mapped memory.
struct Image {
  explicit Image(std::uint64_t events)
      : memory(static_cast<std::byte*>(std::aligned_alloc(alignof(RingHeader), ring_bytes(kShape))), std::free) {
    std::memset(memory.get(), 0, ring_bytes(kShape));
    Recorder recorder(memory, {.rank = 1, .size = 3}, kShape);
    for (std::uint64_t n = 0; n < events; ++n) recorder.record(event_of(5, n));
  }

  std::span<std::byte> bytes() const { return {memory.get(), ring_bytes(kShape)}; }
  template <class Value>
  void set(std::size_t offset, Value value) {
    std::memcpy(memory.get() + offset, &value, sizeof value);
  }
  void set_stamp(std::uint64_t slot, std::uint64_t stamp) { set(kSlots + slot * sizeof(RingSlot), stamp); }

  std::shared_ptr<std::byte> memory;
};

std::string refusal_of(std::span<const std::byte> bytes) {
  try {
    read_recording(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Recording, OfARingInMemory) {
  const Image image(3);
  const Recording recording = read_recording(image.bytes());
  EXPECT_EQ(recording.facts.rank, 1);
  EXPECT_EQ(recording.facts.size, 3);
  ASSERT_EQ(recording.events.size(), 3u);
  for (std::uint64_t n = 0; n < 3; ++n) EXPECT_EQ(recording.events[n], event_of(5, n));
}

TEST(Recording, GoesOnWhereAReaderWas) {
  const Image image(11);
  EXPECT_EQ(read_recording(image.bytes(), {9, 0}).events, (std::vector{event_of(5, 9), event_of(5, 10)}));
  EXPECT_EQ(read_recording(image.bytes(), {9, 0}).lost(), 0u);
  EXPECT_EQ(read_recording(image.bytes(), {1, 0}).overwritten.own, 2u);
  EXPECT_EQ(read_recording(image.bytes(), {1, 0}).events.size(), kCapacity);
  EXPECT_TRUE(read_recording(image.bytes(), {11, 0}).events.empty());
  EXPECT_TRUE(read_recording(image.bytes(), {~std::uint64_t{0}, 0}).events.empty());
}

// They have as much room as the owner, and lose nothing to it.
TEST(Recording, HasWhatOtherThreadsRecorded) {
  const Image image(0);
  Recorder recorder(image.memory, {.rank = 1, .size = 3}, kShape);
  for (std::uint64_t n = 0; n < kCapacity + 1; ++n) recorder.record(event_of(5, n));
  std::thread([&] {
    EXPECT_EQ(recorder.thread(), 1);
    for (std::uint64_t n = 0; n < kCapacity + 2; ++n) recorder.record(event_of(6, n));
  }).join();
  EXPECT_EQ(recorder.thread(), 0);
  const Recording recording = read_recording(image.bytes());
  EXPECT_EQ(recording.written, (EventCounts{kCapacity + 1, kCapacity + 2}));
  EXPECT_EQ(recording.overwritten, (EventCounts{1, 2}));
  EXPECT_EQ(recording.torn, 0u);
  std::vector<TraceEvent> all;
  for (std::uint64_t n = 1; n < kCapacity + 1; ++n) all.push_back(event_of(5, n));
  for (std::uint64_t n = 2; n < kCapacity + 2; ++n) all.push_back(event_of(6, n));
  EXPECT_EQ(recording.events, all);
  EXPECT_EQ(read_recording(image.bytes(), {kCapacity + 1, kCapacity + 1}).events,
            (std::vector{event_of(6, kCapacity + 1)}));
}

TEST(Recording, LeavesTornEventsOut) {
  Image image(kCapacity + 2);
  image.set_stamp(4, RingSlot::begun(4));              // its writer was killed
  image.set_stamp(5, RingSlot::whole(5 - kCapacity));  // that of another turn
  image.set_stamp(6, 0);                               // never written
  const Recording recording = read_recording(image.bytes());
  EXPECT_EQ(recording.written, (EventCounts{kCapacity + 2, 0}));
  EXPECT_EQ(recording.overwritten, (EventCounts{2, 0}));
  EXPECT_EQ(recording.torn, 3u);
  std::vector<TraceEvent> left;
  for (const std::uint64_t n : {2, 3, 7, 8, 9}) left.push_back(event_of(5, n));
  EXPECT_EQ(recording.events, left);
}

TEST(Recording, OfFilesCutShort) {
  const Image image(kCapacity);
  for (std::size_t bytes = 0; bytes < kSlots; ++bytes) {
    const std::string words = refusal_of(image.bytes().first(bytes));
    EXPECT_THAT(words, HasSubstr(bytes < sizeof(RingHeader) ? "has only" : "cut short")) << bytes;
  }
  for (std::size_t bytes = kSlots; bytes < image.bytes().size(); ++bytes) {
    const Recording recording = read_recording(image.bytes().first(bytes));
    const std::size_t whole = std::min<std::size_t>((bytes - kSlots) / sizeof(RingSlot), kCapacity);
    EXPECT_EQ(recording.torn, kCapacity - whole);
    ASSERT_EQ(recording.events.size(), whole);
    for (std::uint64_t n = 0; n < whole; ++n) EXPECT_EQ(recording.events[n], event_of(5, n));
  }
}

TEST(Recording, OfNamesAndCommunicators) {
  const Image image(0);
  const std::string long_name = std::string(57, 'x') + "\u00e4";  // whose last character would be cut in two
  {
    Recorder recorder(image.memory, {.rank = 1, .size = 3}, kShape);
    const std::uint16_t ring = recorder.name("ring");
    EXPECT_EQ(recorder.name("ring"), ring);
    EXPECT_NE(recorder.name("tree"), ring);
    const std::uint16_t cut = recorder.name(long_name);
    EXPECT_EQ(recorder.name(std::string(57, 'x')), cut);
    recorder.name("fourth");
    EXPECT_EQ(recorder.name("no room"), TraceEvent::kNone);
    EXPECT_EQ(read_recording(image.bytes()).names[ring], "ring");
    EXPECT_EQ(read_recording(image.bytes()).names[cut], std::string(57, 'x'));
    EXPECT_EQ(recorder.add_communicator(7, std::vector{0, 1, 2}), 0);
    EXPECT_EQ(recorder.add_communicator(8, std::vector{2, 1}), 1);
    EXPECT_EQ(recorder.add_communicator(9, std::vector{2, 1, 0, 1}), TraceEvent::kNone) << "five members are the most";
    EXPECT_EQ(recorder.add_communicator(9, std::vector{-1, 1, 0}), 2) << "with a rank of another job";
    EXPECT_FALSE(read_recording(image.bytes()).ended);
    recorder.end();
  }
  const Recording recording = read_recording(image.bytes());
  EXPECT_TRUE(recording.ended);
  EXPECT_EQ(recording.nameless, 1u);
  ASSERT_EQ(recording.communicators.size(), 3u);
  EXPECT_EQ(recording.communicators[0].id, 7u);
  EXPECT_EQ(recording.communicators[0].job_rank(2), 2);
  EXPECT_EQ(recording.communicators[0].job_rank(3), -1);
  EXPECT_EQ(recording.communicators[1].job_rank(0), 2);
  EXPECT_EQ(recording.communicators[2].size, 3);
  EXPECT_EQ(recording.communicators[2].job_rank(0), -1);
}

TEST(Recording, OfHeadersThatLie) {
  const auto refused = [](std::size_t offset, auto value, const char* words) {
    Image image(3);
    image.set(offset, value);
    EXPECT_THAT(refusal_of(image.bytes()), HasSubstr(words));
  };
  refused(offsetof(RingHeader, magic), std::uint64_t{0}, "has not begun");
  refused(offsetof(RingHeader, magic), std::uint64_t{1}, "does not begin");
  refused(offsetof(RingHeader, version), std::uint32_t{9}, "version 9");
  refused(offsetof(RingHeader, slot_bytes), std::uint32_t{0}, "events of 0 bytes");
  for (const std::uint64_t capacity : {std::uint64_t{0}, std::uint64_t{3}, 2 * kMostEvents, ~std::uint64_t{0}})
    refused(offsetof(RingHeader, shape), capacity, "room for");
  refused(offsetof(RingHeader, shape) + offsetof(RingShape, members), std::uint32_t{5000}, "cut short");
  refused(offsetof(RingHeader, shape) + offsetof(RingShape, names), std::uint32_t{3}, "tables for 3");
  refused(offsetof(RingHeader, facts) + offsetof(RingFacts, rank), std::int32_t{3}, "rank 3 of 3");
  refused(offsetof(RingHeader, facts) + offsetof(RingFacts, size), std::int32_t{0}, "rank 1 of 0");
  refused(offsetof(RingHeader, facts) + offsetof(RingFacts, host), std::int32_t{1}, "host 1 of 1");
  refused(offsetof(RingHeader, facts) + offsetof(RingFacts, recorded), std::int32_t{4}, "4 of 3 ranks");
  refused(offsetof(RingHeader, facts) + offsetof(RingFacts, size), std::int32_t{2'000'000'000}, "of 2000000000");
  refused(offsetof(RingHeader, facts) + offsetof(RingFacts, hosts), std::int32_t{2'000'000'000}, "of 2000000000");
}

// A rank that was killed while it told its clocks again has told half of them.
TEST(Recording, OfClocksThatWereBeingWrittenHasTheFirst) {
  Image image(3);
  const ClockPair before = read_recording(image.bytes()).latest;
  image.set(offsetof(RingHeader, latest_ticks), std::uint64_t{7});
  image.set(offsetof(RingHeader, pair_stamp), std::uint32_t{5});
  const Recording recording = read_recording(image.bytes());
  EXPECT_EQ(recording.latest, recording.first);
  image.set(offsetof(RingHeader, pair_stamp), std::uint32_t{6});
  EXPECT_EQ(read_recording(image.bytes()).latest, (ClockPair{7, before.steady_ns}));
}

TEST(Recording, OfCountsThatLie) {
  for (const std::uint64_t written : {std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{12}}) {
    for (const std::size_t counter : {offsetof(RingHeader, written), offsetof(RingHeader, written_by_others)}) {
      Image image(3);
      image.set(offsetof(RingHeader, written), std::uint64_t{0});
      image.set(counter, written);
      const Recording recording = read_recording(image.bytes());
      EXPECT_TRUE(recording.events.empty());
      EXPECT_EQ(recording.lost(), written);
    }
  }
}

TEST(Recording, OfNoFileAtAll) {
  const Folder folder;
  EXPECT_THROW(read_recording(folder.path() + "/missing"), Error);
  EXPECT_THROW(read_recording(folder.path()), Error);
  EXPECT_THROW(read_recording("/dev/null"), Error);
  std::ofstream(folder.path() + "/text") << std::string(500, 'x');
  EXPECT_THROW(read_recording(folder.path() + "/text"), Error);
}

}  // namespace
}  // namespace tutti::trace
