// A job's trace as a value: what each rank did when, whoever recorded it. All that is told of a trace is computed from
// this. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/trace/intervals.h"

namespace tutti::analysis {

inline constexpr int kNobody = -1;

// One rank's part in a call.
struct CallPart {
  int rank = 0;
  double entered_us = 0;  // when the program called
  double ready_us = 0;    // from here on only data was on its way: all ranks had entered, the message had been sent
  double ended_us = 0;
  double late_us = 0;  // how much later it was called than on the first of the ranks

  double took_us() const { return ended_us - ready_us; }
};

// A collective of all its ranks, or a message as the receiver had it.
struct TracedCall {
  std::string verb, algorithm, communicator;
  std::int64_t sequence = 0;
  bool message = false;
  int ranks = 1;     // of the communicator
  double bytes = 0;  // as `tutti bench` has it: of the vector, or of all chunks together
  std::optional<double> predicted_us;
  std::vector<CallPart> parts;  // those that are in the trace

  bool is_complete() const { return static_cast<int>(parts.size()) == ranks; }
  // From when all ranks had come: what the call's time is.
  const CallPart& longest_part() const;
  double took_us() const;
  // Whom all others waited for.
  const CallPart& last_to_enter() const;
  // GB/s, of 1e9 bytes, as `tutti bench` has it; 0 where nothing is known.
  double busbw() const;
};

// A step of a schedule.
struct ScheduleStep {
  std::size_t call = 0;  // of TracedJob::calls
  int rank = 0;
  std::int64_t lane = 0, number = 0, segment = 0;
  std::string operation;
  int from = kNobody, to = kNobody;
  Interval time;
  std::optional<std::size_t> sender;  // the step of TracedJob::steps whose message it took
};

struct PeerWait {
  int peer = 0;
  Interval time;
};

struct RankTimeline {
  int rank = 0;
  bool found = true;                       // false: nothing of it is in the trace
  Interval whole;                          // from its first event to its last
  Intervals compute;                       // when it computed, or in a trace of Tutti: when its program was not held up
  Intervals communication;                 // when its calls were under way, from when all ranks had come
  Intervals under_way;                     // the same with the waiting before
  std::map<std::int64_t, Interval> steps;  // of training, by number
  std::vector<PeerWait> waits;
};

struct TracedJob {
  enum class Recorder : std::uint8_t { tutti, torch };

  Recorder recorder = Recorder::tutti;
  std::string job;      // empty where the trace has no name for it
  std::string backend;  // of torch: nccl, gloo, tutti
  std::vector<std::string> hosts;
  std::vector<RankTimeline> ranks;  // by rank
  std::vector<TracedCall> calls;
  std::vector<ScheduleStep> steps;
  std::vector<std::string> notes;  // what a reader has to know before believing the figures

  // Of all ranks.
  Interval whole() const;
};

// The verb that a trace means by this name: "allreduce", "all_gather_into_tensor" and "_reduce_scatter_base" have one;
// the name itself where there is none.
std::string verb_of(std::string_view name);

}  // namespace tutti::analysis
