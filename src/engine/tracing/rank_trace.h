// What one rank records: its ring beside the file that the rings of all ranks become, and which of them spans of a
// thread go to.
//
// The last rank that ends makes the file. Where one was killed nobody is the last: then `tutti run`, or `tutti trace
// --merge`, makes it of what is left.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/home_process.h"
#include "trace/recorder.h"

namespace tutti::engine {

class RankTrace {
 public:
  // `file` is what the rings become. Throws Error.
  RankTrace(std::string file, const trace::RingFacts& facts, const trace::RingShape& shape);
  ~RankTrace();
  RankTrace(const RankTrace&) = delete;
  RankTrace& operator=(const RankTrace&) = delete;

  trace::Recorder& recorder() { return recorder_; }
  const std::string& file() const { return file_; }
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // A child that was forked has the ring, too, and must not write to it.
  bool is_here() const { return home_.is_here(); }
  // Nothing is recorded any more; merges where all others have ended as well. Never throws: what is left is there.
  void end();
  // Who records there: each is told by nullptr when it ends, for whomever it was ended.
  void attach(std::atomic<trace::Recorder*>& of);
  void detach(std::atomic<trace::Recorder*>& of);

 private:
  std::string file_;
  trace::Recorder recorder_;
  HomeProcess home_;
  std::atomic<bool> ended_{false};
  std::mutex attached_mutex_;
  std::vector<std::atomic<trace::Recorder*>*> attached_;
};

// The traces of this process that have not ended.
class LiveTraces {
 public:
  static LiveTraces& of_process();

  // From now on the calling thread's spans go there, and those of threads that have none of their own as long as there
  // is no other.
  void add(const std::shared_ptr<RankTrace>& trace);
  void note_end() { changes_.fetch_add(1, std::memory_order_release); }
  // That of the calling thread, or nullptr. It lives at least until the thread asks again.
  RankTrace* current() {
    if (count_.load(std::memory_order_relaxed) == 0) [[likely]]
      return nullptr;
    RankTrace* const found = find();
    return found != nullptr && found->is_here() ? found : nullptr;
  }
  // By its recorder's id; nullptr: it has ended.
  std::shared_ptr<RankTrace> find(std::uint64_t recorder);

 private:
  RankTrace* find();

  std::atomic<std::uint32_t> count_{0};    // that were ever added
  std::atomic<std::uint64_t> changes_{1};  // what threads have found holds until the next one
  std::mutex mutex_;
  std::vector<std::weak_ptr<RankTrace>> all_;
};

}  // namespace tutti::engine
