// Records events into a ring that outlives the process: a file, mapped, whose pages the system keeps when the process
// is killed. recording.h reads it, then or meanwhile.
//
// To record allocates nothing and makes no system call: the pages are there from the start, and the clock is read
// without the system's help. Any thread may record; to the one that made the recorder it costs least. In a folder of
// memory (/dev/shm) nothing is ever written to a disk.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "trace/ring.h"

namespace tutti::trace {

// The ring of a rank in a folder of traces.
std::string ring_path(const std::string& folder, int rank);

class Recorder {
 public:
  // Makes the rank's ring anew, in the place of one that an earlier run left. Throws Error(invalid_argument) where
  // the shape is none, and Error(system).
  Recorder(const std::string& folder, const RingFacts& facts, const RingShape& shape = {});
  // The same in zeroed memory of the caller's, ring_bytes(shape) of it.
  Recorder(std::shared_ptr<std::byte> memory, const RingFacts& facts, const RingShape& shape);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  std::uint64_t now() const { return clock_.now(); }
  std::uint64_t at(std::chrono::steady_clock::time_point time) const;
  void record(const TraceEvent& event) { record(words_of(event)); }
  void record(const EventWords& words) { record(words, owned_here()); }
  // As one of the calling thread, whose number it gets.
  void record_of_thread(const TraceEvent& event) { record_of_thread(words_of(event)); }
  void record_of_thread(EventWords words) {
    const bool own = owned_here();
    if (!own) [[unlikely]]
      words.front() |= std::uint64_t{other_thread()} << kThreadBit;
    record(words, own);
  }
  // The number of the name, from now on; TraceEvent::kNone where there is no room for more.
  std::uint16_t name(std::string_view name);
  // `members`: by rank, ranks of the job.
  std::uint16_t add_communicator(std::uint64_t id, std::span<const int> members);
  // Of the calling thread: 0 is the owner, others count in the order in which they record; kMostThreads - 1 is all
  // that come later.
  std::uint8_t thread() { return owned_here() ? 0 : other_thread(); }
  // Nothing is recorded any more, which readers may want to know.
  void end();

  const RingFacts& facts() const { return header_->facts; }
  // No other recorder of this process ever had it.
  std::uint64_t id() const { return id_; }

 private:
  static constexpr std::uint64_t kPairEvery = 1 << 12;
  static constexpr std::uint8_t kMostThreads = 255;

  // A place that no other thread has at the time; what pthread_self() tells, without the call.
  static const void* this_thread() {
#if __has_builtin(__builtin_thread_pointer)
    return __builtin_thread_pointer();
#else
    static thread_local const char kHere = 0;
    return &kHere;
#endif
  }
  bool owned_here() const { return owner_ == this_thread(); }
  void record(const EventWords& words, bool own) {
    const std::uint64_t number = own ? ring_.record_own(words) : ring_.record_shared(words);
    // Often at first, so that what is killed soon has its clock told as well.
    if ((number & (number + 1)) == 0 || (number & (kPairEvery - 1)) == 0) [[unlikely]]
      pair_clocks();
  }
  std::uint8_t other_thread();
  void pair_clocks();
  template <class Entry>
  Entry* table(std::uint64_t place) const {
    return reinterpret_cast<Entry*>(memory_.get() + place);
  }

  void write_back() const;

  std::shared_ptr<std::byte> memory_;
  Clock clock_;
  RingShape shape_;
  RingHeader* header_;
  Ring ring_;
  const void* owner_ = this_thread();  // where another thread is known by it, the owner has ended
  std::uint64_t id_;
  std::atomic<std::uint32_t> threads_{1};
  std::mutex adding_;  // communicators
};

// A rank's recorder as one of its communicators uses it.
struct GroupRecorder {
  Recorder* recorder = nullptr;
  std::uint16_t communicator = TraceEvent::kNone;
  bool steps = false;  // those of calls as well
};

}  // namespace tutti::trace
