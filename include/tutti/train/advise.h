// Which compression a model's gradients want, on these ranks and links: what a step's communication is expected to take
// under each, in time and in bytes, and which one to begin with.
//
//   const tutti::train::Advice advice = tutti::train::advise(comm, parameters, {.computing_us = 80'000});
//   std::puts(to_text(advice).c_str());
//   options.compression = advice.best().compression;
//
// Calls are priced by what they take on these links: as `tutti tune` has measured them, or measured now, in a second or
// two. Encoding and decoding is timed on all ranks at once, as training does it. What each costs in accuracy is not
// known here: the order of hooks is that of how much they change, and one that changes more is recommended only where
// it saves a share of the step that is worth it. Nothing is refused. docs/fewer-bytes.md tells what each hook does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/compression.h"
#include "tutti/train/parameters.h"
#include "tutti/train/report.h"
#include "tutti/train/strategy.h"
#include "tutti/types.h"

namespace tutti::train {

// What calls of a verb take: points in the order of their bytes, as Counters count those. Between two points, and
// behind the last, time grows evenly.
struct VerbPrices {
  struct Point {
    std::uint64_t bytes = 0;
    double us = 0;
  };
  Verb verb = Verb::all_reduce;
  std::vector<Point> points;
};

// What a rank computes for a million numbers: before they travel, and afterwards.
struct CodePrice {
  std::string name;  // as compression_named() takes it
  double before_us = 0, after_us = 0;
};

struct AdvicePrices {
  std::string how;  // for people: where they are from
  std::vector<VerbPrices> calls;
  std::vector<CodePrice> codes;  // those that are missing take no time
};

struct AdviseOptions {
  int stage = 0;  // of ZeRO; 0 is data parallel
  // Of these count bucket_bytes, compresses and error_feedback; and what 1-bit Adam does not go with, so that it is not
  // recommended there.
  StrategyOptions strategy = {};
  // Forward and backward of a step on one rank. With it whole steps are compared, most of whose communication may be
  // hidden; without it communication alone, and nothing that changes more than codes of 8 bits is recommended.
  std::optional<double> computing_us = {};
  std::vector<std::int64_t> local_updates = {50};  // steps from one exchange to the next, for each a line
  double worth = 0.1;                              // the share of a step that a change must save
  // Whether links are measured now. Unless given, where `tutti tune` has not.
  std::optional<bool> measure = {};
};

// One line: a compression, or local updates.
struct AdvisedHook {
  std::string name;
  Compression compression = {};
  std::int64_t every = 0;  // local updates: steps from one exchange to the next; 0 for compressions
  Sentence each_step;
  std::uint64_t bytes = 0;       // of a step, as Counters count them, on average
  std::uint64_t sent_bytes = 0;  // of a step by a rank to others, by programs that send least
  std::size_t buckets = 0;       // of gradients
  double calls_us = 0;           // of all calls of a step, one after the other
  double codes_us = 0;           // of encoding and decoding
  double step_us = 0;            // with computation, where that is given; else the two above
  double saves_us = 0;           // of the step without it; below 0 where it costs
  bool recommended = false;
};

struct Advice {
  int ranks = 1, stage = 0;
  std::uint64_t parameters = 0, numbers = 0;
  std::optional<double> computing_us;
  std::vector<AdvisedHook> hooks;  // from what changes nothing to what changes most
  std::string why;                 // in a sentence
  AdvicePrices prices;

  TUTTI_API const AdvisedHook& best() const;
};

// By prices that are given: talks to nobody. Only the shapes and types of parameters count.
TUTTI_API Advice advise(int ranks, const Parameters& parameters, const AdvicePrices& prices,
                        const AdviseOptions& options = {});
// Collective; all ranks get the same.
TUTTI_API Advice advise(Communicator& communicator, const Parameters& parameters, const AdviseOptions& options = {});
// What the above goes by. Collective; all ranks get the same. Calls of up to so many bytes matter.
TUTTI_API AdvicePrices measure_prices(Communicator& communicator, std::uint64_t most_bytes,
                                      std::optional<bool> measure = {});

TUTTI_API std::string to_text(const Advice& advice);
TUTTI_API std::string to_json(const Advice& advice);

}  // namespace tutti::train
