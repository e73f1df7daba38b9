// A wait of the program for a peer, recorded where it outlasts the first spin: from the first few looks that found
// nothing to do to the one that did; where whom it waits for changes meanwhile, it is several. The clock is read while
// there is nothing else to do.
#pragma once

#include "engine/execute/operation.h"
#include "trace/recorder.h"

namespace tutti::engine {

// What nobody records.
struct Unwatched {
  void stuck() {}
  void spun() {}
  void still() {}
  void over() {}
  void looked() {}  // at messages, some of which may have ended
};

// What is waited for at the moment.
struct AwaitedNow {
  Blocked blocked;
  std::uint64_t sequence = 0;  // of the call
};

// `until`: 0: now.
inline void record_wait(const trace::GroupRecorder& group, trace::WaitedOn on, int peer, std::uint64_t sequence,
                        std::uint64_t since, std::uint64_t until = 0) {
  trace::TraceEvent event;
  event.kind = trace::EventKind::wait;
  event.what = static_cast<std::uint8_t>(on);
  event.communicator = group.communicator;
  event.sequence = sequence;
  event.begin = since;
  event.end = until != 0 ? until : group.recorder->now();
  event.other = static_cast<std::uint32_t>(peer);
  group.recorder->record_of_thread(event);
}

// The program is held up by an async call while this lives. `group`: nullptr where nothing is recorded.
class RecordedWork {
 public:
  RecordedWork(const trace::GroupRecorder* group, std::uint64_t sequence) : group_(group), sequence_(sequence) {
    if (group_ != nullptr) [[unlikely]]
      since_ = group_->recorder->now();
  }
  ~RecordedWork() {
    if (group_ != nullptr) [[unlikely]]
      record_wait(*group_, trace::WaitedOn::work, -1, sequence_, since_);
  }
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;

 private:
  const trace::GroupRecorder* group_;
  std::uint64_t sequence_, since_ = 0;
};

// `Ask` returns AwaitedNow.
template <class Ask>
class WaitRecord {
 public:
  WaitRecord(const trace::GroupRecorder& group, Ask ask) : group_(&group), ask_(std::move(ask)) {}

  void stuck() { since_ = group_->recorder->now(); }
  void spun() { awaited_ = ask_(); }
  // Ranks that come one after the other let nothing move before the last of them is there.
  void still() {
    const AwaitedNow now = ask_();
    const Blocked &of = awaited_.blocked, &is = now.blocked;
    if (of.on == is.on && of.peer == is.peer && awaited_.sequence == now.sequence) [[likely]]
      return;
    over();
    since_ = group_->recorder->now();
    awaited_ = now;
  }
  void looked() {}
  // `until`: 0: now.
  void over(std::uint64_t until = 0) {
    if (awaited_.blocked.on != Blocked::On::nothing) [[unlikely]]
      end(until);
  }

 private:
  static_assert(static_cast<int>(Blocked::On::entry) == static_cast<int>(trace::WaitedOn::entry) &&
                static_cast<int>(Blocked::On::device) == static_cast<int>(trace::WaitedOn::device));

  void end(std::uint64_t until) {
    record_wait(*group_, static_cast<trace::WaitedOn>(awaited_.blocked.on), awaited_.blocked.peer, awaited_.sequence,
                since_, until);
    awaited_ = {};
  }

  const trace::GroupRecorder* group_;
  Ask ask_;
  std::uint64_t since_ = 0;
  AwaitedNow awaited_;
};

}  // namespace tutti::engine
