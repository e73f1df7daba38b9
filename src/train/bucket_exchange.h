// How the gradients of one bucket travel where they are compressed, in stages that others run between:
//
//   start     encode, submit the first call ........ then the gradients may be written again
//   publish   wait, reduce, submit the second call .. only where it has two (codes in stage 0, thin matrices)
//   finish    wait, decode into what the optimizer reads
//
// First calls go through one communicator and second ones through another, each in the order of buckets, so that ranks
// may publish when it suits them. Encoding runs on the thread that starts, reducing on the one that publishes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "strategy/buckets.h"
#include "strategy/sentence.h"
#include "train/quantised_exchange.h"
#include "tutti/communicator.h"
#include "tutti/train/compression.h"
#include "tutti/train/parameters.h"

namespace tutti::train {

// A parameter as a matrix, row by row, its first dimension against the rest.
struct BucketMatrix {
  std::size_t parameter = 0;
  std::size_t offset = 0;  // in the bucket
  std::size_t rows = 0, columns = 0;
};

// One bucket on one rank. Where values are cut, in all stages but 0, a rank wants its shard alone.
struct BucketExchangeShape {
  DType type = DType::float32;
  std::size_t filled = 0, elements = 0;  // without and with what makes shards equal
  int ranks = 1, rank = 0;
  bool cut = false;
  std::vector<BucketMatrix> matrices = {};  // for PowerSgd

  // What travels, and a rank's share of it.
  std::size_t count() const { return cut ? elements : filled; }
  std::size_t share() const {
    return (count() + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
  }
};

// Of the bucket's parameters.
std::vector<BucketMatrix> matrices_of(const strategy::BucketLayout& layout, const strategy::Bucket& bucket,
                                      const Parameters& parameters);
// Whether a parameter's gradient is compressed; `asked` is StrategyOptions::compresses.
bool is_compressed(const Compression& compression, const std::function<bool(const Parameter&)>& asked,
                   const Parameter& parameter);

// What the ranks' gradients are multiplied by before they are added; the mean where there is none.
using GradientShare = std::optional<double>;

// Numbers that an exchange keeps from one step to the next, under a name.
struct KeptFloats {
  std::string_view name;
  std::span<float> values;
  std::size_t first = 0;  // their place in the bucket
  // Each rank has a part of them, of pieces that it owns, and not numbers of its own for the whole bucket.
  bool by_owner = false;
  std::optional<std::size_t> parameter = {};  // set: they belong to it, and to no place
};

class BucketExchange {
 public:
  virtual ~BucketExchange() = default;

  virtual void start(Communicator& communicator, const std::byte* gradients, GradientShare share) = 0;
  virtual bool has_second_call() const { return false; }
  // Whether publish() need not wait.
  virtual bool can_publish() { return true; }
  virtual void publish(Communicator&) {}
  // `output`: all gradients, or the own shard. Tells where a gradient was not finite, on all ranks alike.
  virtual std::optional<NotFinitePlace> finish(std::byte* output) = 0;
  virtual bool is_under_way() const = 0;

  // The unit of gradients changes by this factor, and so does that of what was lost.
  virtual void rescale(double) {}

  // For checkpoints, between steps. A run that goes on with them after so many calls of start() comes to the bits of
  // one that was never stopped.
  virtual std::vector<KeptFloats> kept() { return {}; }
  virtual void go_on(std::uint64_t /*starts*/) {}

  // What it says in a step, and keeps between steps.
  virtual strategy::CompressedCalls calls() const = 0;
};

// nullptr where this bucket does as well without. Collective.
std::unique_ptr<BucketExchange> make_exchange(const Compression& compression, bool error_feedback,
                                              const BucketExchangeShape& shape, Communicator& communicator);

// What that would say in a step and keep, without making it: nothing where this bucket does as well without.
std::optional<strategy::CompressedCalls> calls_of(const Compression& compression, bool error_feedback,
                                                  const BucketExchangeShape& shape);

// Throws Error(invalid_argument) where it makes no sense.
void check_compression(const Compression& compression);

}  // namespace tutti::train
