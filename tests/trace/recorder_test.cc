// What is recorded is there for others to read: after the end of the process that recorded it, killed or not, and
// while it records, from one thread or from two.
#include "trace/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <functional>
#include <map>
#include <thread>

#include "base/file_descriptor.h"
#include "effort.h"
#include "trace/folder.h"
#include "trace/recording.h"

namespace tutti::trace {
namespace {

using testing::event_of;
using testing::Folder;

// A process that records until it is killed; it says how far it is by a byte at a time.
class Child {
 public:
  using Say = std::function<void()>;

  explicit Child(const std::function<void(const Say&)>& body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
    heard_ = FileDescriptor(ends[0]);
    FileDescriptor said(ends[1]);
    pid_ = ::fork();
    if (pid_ < 0) throw_errno("fork");
    if (pid_ > 0) return;
    body([&] {
      const char word = 0;
      if (::write(said.get(), &word, 1) != 1) ::_exit(1);
    });
    for (;;) ::pause();
  }
  ~Child() { kill(); }

  void hear() {
    char word = 0;
    if (::read(heard_.get(), &word, 1) != 1) throw Error(ErrorCode::system, "the child has ended");
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  FileDescriptor heard_;
  pid_t pid_ = -1;
};

// Events of one writer, with none between the first and the last missing; how many there are.
void expect_unbroken(const Recording& recording, std::uint64_t who, std::uint64_t first) {
  for (std::size_t i = 0; i < recording.events.size(); ++i) {
    ASSERT_EQ(recording.events[i], event_of(who, first + i)) << "event " << i;
  }
}

TEST(Recorder, OutlivesAKilledProcess) {
  const Folder folder;
  constexpr std::uint64_t kRecorded = 1000;
  Child child([&](const Child::Say& say) {
    Recorder recorder(folder.path(), {.rank = 2, .size = 4}, {.events = 1024});
    for (std::uint64_t n = 0; n < kRecorded; ++n) recorder.record(event_of(7, n));
    say();
    for (;;) ::pause();  // the recorder never goes
  });
  child.hear();
  child.kill();
  const Recording recording = read_recording(ring_path(folder.path(), 2));
  EXPECT_EQ(recording.facts.rank, 2);
  EXPECT_EQ(recording.facts.size, 4);
  EXPECT_EQ(recording.written, (EventCounts{kRecorded, 0}));
  EXPECT_EQ(recording.lost(), 0u);
  ASSERT_EQ(recording.events.size(), kRecorded);
  expect_unbroken(recording, 7, 0);
}

TEST(Recorder, KilledInTheMiddleLosesTheEventAtHandAtMost) {
  for (std::uint64_t turn = 0; turn < testing::tries(40); ++turn) {
    const Folder folder;
    constexpr std::uint64_t kCapacity = 256;
    Child child([&](const Child::Say& say) {
      Recorder recorder(folder.path(), {.rank = 0, .size = 1}, {.events = kCapacity});
      for (std::uint64_t n = 0;; ++n) {
        if (n == 100 * turn) say();
        recorder.record(event_of(turn, n));
      }
    });
    child.hear();
    child.kill();
    const Recording recording = read_recording(ring_path(folder.path(), 0));
    const std::uint64_t written = recording.written.own;
    EXPECT_GE(written, 100 * turn);
    EXPECT_LE(recording.torn, 1u);
    EXPECT_EQ(recording.overwritten.own, written - std::min(written, kCapacity));
    EXPECT_EQ(recording.events.size() + recording.lost(), written);
    expect_unbroken(recording, turn, recording.overwritten.own);
  }
}

TEST(Recorder, IsReadWhileItRecords) {
  const Folder folder;
  Child child([&](const Child::Say& say) {
    Recorder recorder(folder.path(), {.rank = 0, .size = 1}, {.events = 64});
    for (std::uint64_t n = 0;; ++n) {
      recorder.record(event_of(3, n));
      if (n == 0) say();
    }
  });
  child.hear();
  std::uint64_t written = 0, turns = testing::tries(20'000);
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    const Recording recording = read_recording(ring_path(folder.path(), 0));
    EXPECT_GE(recording.written.own, written);
    written = recording.written.own;
    std::uint64_t last = 0;
    for (const TraceEvent& event : recording.events) {
      ASSERT_EQ(event, event_of(3, event.sequence)) << "a torn event was taken for whole";
      ASSERT_TRUE(event.sequence == 0 || event.sequence > last);
      last = event.sequence;
    }
  }
}

TEST(Recorder, KeepsTheLastEventsAndSaysHowManyWereLost) {
  const Folder folder;
  Recorder recorder(folder.path(), {.rank = 0, .size = 1}, {.events = 64});
  for (std::uint64_t n = 0; n < 200; ++n) {
    recorder.record(event_of(1, n));
    const Recording recording = read_recording(ring_path(folder.path(), 0));
    const std::uint64_t lost = n < 64 ? 0 : n + 1 - 64;
    ASSERT_EQ(recording.written.own, n + 1);
    ASSERT_EQ(recording.overwritten.own, lost);
    ASSERT_EQ(recording.torn, 0u);
    ASSERT_EQ(recording.events.size(), n + 1 - lost);
    expect_unbroken(recording, 1, lost);
  }
}

// The owner beside two others.
TEST(Recorder, TakesThreeThreads) {
  const Folder folder;
  constexpr std::uint64_t kEach = 30'000;
  Recorder recorder(folder.path(), {.rank = 0, .size = 1}, {.events = 1 << 16});
  const auto record = [&](std::uint64_t who) {
    for (std::uint64_t n = 0; n < kEach; ++n) recorder.record(event_of(who, n));
  };
  std::thread other([&] { record(2); }), third([&] { record(3); });
  record(1);
  other.join();
  third.join();
  const Recording recording = read_recording(ring_path(folder.path(), 0));
  EXPECT_EQ(recording.written, (EventCounts{kEach, 2 * kEach}));
  EXPECT_EQ(recording.lost(), 0u);
  std::map<std::uint64_t, std::uint64_t> next;
  for (const TraceEvent& event : recording.events)
    ASSERT_EQ(event, event_of(event.communicator, next[event.communicator]++));
  EXPECT_EQ(next[1], kEach);
  EXPECT_EQ(next[2], kEach);
  EXPECT_EQ(next[3], kEach);
}

// So small a ring that threads meet in a slot: what cannot be written is lost, and nothing is mixed.
TEST(Recorder, ThreadsThatLapEachOtherMixNothing) {
  const Folder folder;
  Recorder recorder(folder.path(), {.rank = 0, .size = 1}, {.events = 2});
  constexpr std::uint64_t kEach = 20'000;
  std::vector<std::thread> threads;
  for (std::uint64_t who = 0; who < 3; ++who) {
    threads.emplace_back([&, who] {
      for (std::uint64_t n = 0; n < kEach; ++n) recorder.record(event_of(who, n));
    });
  }
  for (std::uint64_t turn = 0; turn < testing::tries(5000); ++turn) {
    for (const TraceEvent& event : read_recording(ring_path(folder.path(), 0)).events)
      ASSERT_EQ(event, event_of(event.communicator, event.sequence));
  }
  for (std::thread& thread : threads) thread.join();
  const Recording recording = read_recording(ring_path(folder.path(), 0));
  EXPECT_EQ(recording.written.others, 3 * kEach);
  EXPECT_EQ(recording.overwritten.others, 3 * kEach - 2);
}

TEST(Recorder, StartsAnewInAFolderThatWasUsed) {
  const Folder folder;
  Recorder first(folder.path(), {}, {.events = 64});
  first.record(event_of(1, 0));
  Recorder second(folder.path(), {}, {.events = 64});
  EXPECT_EQ(read_recording(ring_path(folder.path(), 0)).written.sum(), 0u);
  first.record(event_of(1, 1));
  EXPECT_EQ(read_recording(ring_path(folder.path(), 0)).written.sum(), 0u);
}

TEST(Recorder, RefusesWhatIsNoRing) {
  const Folder folder;
  EXPECT_THROW(Recorder(folder.path(), {}, {.events = 0}), Error);
  EXPECT_THROW(Recorder(folder.path(), {}, {.events = 100}), Error);
  EXPECT_THROW(Recorder(folder.path(), {}, {.events = 2 * kMostEvents}), Error);
  EXPECT_THROW(Recorder(folder.path() + "/missing", {}), Error);
}

}  // namespace
}  // namespace tutti::trace
