// Which examples a rank takes: every epoch a new order of all examples, the same whatever the number of ranks.
//
//   tutti::train::Sampler sampler({.examples = 60000, .batch = 512, .seed = 1}, comm.rank(), comm.size());
//   while (sampler.position().epoch < 10) train_on(sampler.next());     // this rank's share of the next batch
//
// A batch is of all ranks together: rank r takes its r-th piece, so that all pieces, put one behind the other, are the
// batch, and 8 ranks train on what 1 rank would. The order is a function of seed and epoch and takes no memory. It
// consists of integer arithmetic, and is the same on every machine. A position is a plain value: saved in a checkpoint,
// and set again on any number of ranks, it goes on where it was.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/export.h"

namespace tutti::train {

// What becomes of the last examples of an epoch where they make no whole batch.
enum class Tail {
  pad,   // the batch is filled with the first examples of the same epoch, so that all batches are of one size
  drop,  // they are left out of this epoch
  keep   // a smaller batch, of which some ranks may get one example less, or none
};

struct SamplerOptions {
  std::int64_t examples = 0;
  std::int64_t batch = 0;  // examples of all ranks in one step, at least one per rank
  std::uint64_t seed = 0;
  bool shuffle = true;  // false: in the order of their numbers
  Tail tail = Tail::pad;
};

struct SamplerPosition {
  std::int64_t epoch = 0;
  std::int64_t taken = 0;  // examples of this epoch that earlier batches had, over all ranks
  bool operator==(const SamplerPosition&) const = default;
};

class Sampler {
 public:
  TUTTI_API Sampler(const SamplerOptions& options, int rank, int ranks);

  // The numbers, from 0, of this rank's examples in the batch at position(), which then moves on.
  TUTTI_API std::vector<std::int64_t> next();

  // Where the next batch begins; after the last one of an epoch that is the start of the next epoch.
  const SamplerPosition& position() const { return position_; }
  TUTTI_API void set_position(const SamplerPosition& position);

  TUTTI_API std::int64_t batches_per_epoch() const;

  // Which example stands at a place in the order of an epoch.
  TUTTI_API std::int64_t example_at(std::int64_t epoch, std::int64_t place) const;

 private:
  void leave_finished_epoch();

  SamplerOptions options_;
  int rank_, ranks_;
  SamplerPosition position_;
};

}  // namespace tutti::train
