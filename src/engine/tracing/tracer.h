// What a rank's communicators that were made of one have of the trace: what is recorded to now, and by which numbers
// the job of the trace knows their ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/tracing/rank_trace.h"

namespace tutti::engine {

class Engine;

class Tracer {
 public:
  ~Tracer();
  Tracer() = default;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // nullptr: nothing is recorded. It stays where it is until another but the next one takes its place.
  trace::Recorder* recorder() const { return recorder_.load(std::memory_order_relaxed); }
  RankTrace* current() const { return recorder() == nullptr ? nullptr : traces_.back().get(); }
  // By the thread that makes the calls, while none is under way. `ranks`: those of the trace's job, by rank of the
  // group that all were made of; `id`: of that group, the same on all its ranks.
  void record_to(std::shared_ptr<RankTrace> trace, std::vector<int> ranks, std::uint64_t id);
  void stop();

  int rank_in_trace(int job_rank) const {
    return job_rank < static_cast<int>(ranks_.size()) ? ranks_[static_cast<std::size_t>(job_rank)] : job_rank;
  }
  std::uint64_t id() const { return id_; }

 private:
  std::atomic<trace::Recorder*> recorder_{nullptr};
  std::vector<std::shared_ptr<RankTrace>> traces_;  // the last two: calls that end late still have the earlier one
  std::vector<int> ranks_;
  std::uint64_t id_ = 0;
};

// What is to be recorded, and to which file.
struct TraceWish {
  std::string file;
  std::uint64_t events = 0;  // of each rank, at least; 0: as many as usual
  bool gives_way = false;    // to another file where somebody still records to this one
};

// Collective over the engine's ranks. Compares the clocks of their hosts. Throws Error(invalid_argument), and
// Error(system) where the file cannot be.
void start_trace(Engine& engine, const TraceWish& wish);
// The same for a whole process, from now until it ends: groups that meet later are recorded with it.
void start_process_trace(Engine& engine, const TraceWish& wish);
// Collective: when it returns the file is there.
void stop_trace(Engine& engine);

}  // namespace tutti::engine
