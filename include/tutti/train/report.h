// What a strategy says and how long that took, as values: the sentence of a step, the bytes of model states on this
// rank, the timeline of its buckets and where the time went. Pure data, which tools and tests read as well.
//
//   std::puts(to_text(strategy.report()).c_str());
//
// A program that calls verbs itself has its own steps told in the same words:
//
//   const tutti::train::Mark begin = tutti::train::mark(comm);
//   ... ten steps ...
//   std::puts(to_text(tutti::train::report(begin, tutti::train::mark(comm), 10)).c_str());
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/counters.h"
#include "tutti/export.h"
#include "tutti/types.h"

namespace tutti {
class Communicator;
}

namespace tutti::train {

// A verb that a step calls: on what, how many bytes a call (as Counters count them), how often, among how many ranks.
struct Phrase {
  Verb verb = Verb::all_reduce;
  std::string what;
  std::uint64_t bytes = 0;
  std::uint64_t times = 1;
  int ranks = 1;
  // Of all its calls in a step, where they were measured: from the first to the end of each, and what the program
  // waited for. The rest was hidden by computation. Where a bucket's gradients are two calls, the first has both.
  double under_way_us = 0, exposed_us = 0;
  std::int64_t every = 1;  // it is said in one of so many steps

  bool operator==(const Phrase&) const = default;
};
using Sentence = std::vector<Phrase>;

// All calls of a verb in a sentence.
struct Spoken {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;

  bool operator==(const Spoken&) const = default;
};
inline Spoken spoken(const Sentence& sentence, Verb verb) {
  Spoken all;
  for (const Phrase& phrase : sentence) {
    if (phrase.verb != verb) continue;
    all.calls += phrase.times;
    all.bytes += phrase.times * phrase.bytes;
  }
  return all;
}

// Bytes of model states on one rank: the table of ZeRO for elements + padding, alike on all but for states of 8 bits.
struct StateBytes {
  std::uint64_t values = 0, gradients = 0, master = 0, optimizer = 0;
  std::uint64_t outer = 0;  // besides, of local updates: where replicas set out, its momentum, what quantising lost
  std::uint64_t elements = 0, padding = 0;  // numbers of the model; numbers that only fill up blocks and shards
  // Besides, from stage 2 on: room for buckets of gradients on their way to their shards, and for gathered units.
  std::uint64_t in_flight = 0;
  // Besides: what compression has lost and adds to the next step.
  std::uint64_t errors = 0;

  std::uint64_t total() const { return values + gradients + master + optimizer; }
  bool operator==(const StateBytes&) const = default;
};

// One bucket of a step, in microseconds from the end of the step before. Between `ready` and `start` it waited for
// earlier buckets; what of start .. end lies behind the call of step() is exposed, and what somebody waited for before,
// who needed its buffer; the rest was hidden by computation.
struct BucketTimes {
  std::uint64_t bytes = 0;
  std::uint64_t parameters = 0;
  double ready_us = 0, start_us = 0, end_us = 0, exposed_us = 0;

  bool operator==(const BucketTimes&) const = default;
};

// Where a step's time went: computing until step() was called, waiting for others, there and before (in
// gather(), or for a buffer of gradients), updating. When step() was called is counted from the end of the step before,
// as buckets are.
struct StepTimes {
  double computing_us = 0, waiting_us = 0, updating_us = 0, total_us = 0, called_us = 0;
};

struct Report {
  std::string strategy;  // its name, for people
  int ranks = 1;
  std::int64_t steps = 0;
  Sentence once, each_step;  // when it was made and in the first step; in every step
  StateBytes bytes;
  std::uint64_t bucket_bytes = 0;     // the cap; 0 where buckets are units
  std::vector<BucketTimes> timeline;  // of the last step
  StepTimes times;                    // of the last step
  // Communication over computation: of all time that a bucket was under way or somebody waited, and of all waits.
  double gamma_raw = 0, gamma_exposed = 0;
  // Of a communicator's calls: nothing is known of a model, bytes are those of a call on average, and times those of a
  // step on average. together: the calls do not come out even, so that each_step is what all steps said together.
  bool of_calls = false, together = false;
};

// What a communicator has counted until now, and when that was.
struct Mark {
  Counters counters;
  std::chrono::steady_clock::time_point at;
  int ranks = 1;
};
// From the first mark on the communicator times its calls (Communicator::time_calls).
TUTTI_API Mark mark(Communicator& communicator);
// What was called between two marks of one communicator, in so many steps.
TUTTI_API Report report(const Mark& from, const Mark& to, std::int64_t steps = 1);

TUTTI_API std::string to_text(const Report& report);
TUTTI_API std::string to_json(const Report& report);
// The buckets as bars over time.
TUTTI_API std::string to_svg(const Report& report);

}  // namespace tutti::train
