#include "tutti/train/sampler.h"

#include <algorithm>
#include <string>

#include "train/permutation.h"
#include "tutti/error.h"

namespace tutti::train {
namespace {

void check_sampler(bool good, const std::string& why) {
  if (!good) throw Error(ErrorCode::invalid_argument, "sampler: " + why);
}

Permutation order_of(const SamplerOptions& options, std::int64_t epoch) {
  return {static_cast<std::uint64_t>(options.examples), mix(options.seed) ^ static_cast<std::uint64_t>(epoch)};
}

std::int64_t example_in(const Permutation& order, std::int64_t place) {
  return static_cast<std::int64_t>(order.at(static_cast<std::uint64_t>(place)));
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options, int rank, int ranks) : options_(options), rank_(rank), ranks_(ranks) {
  const std::string batch = "a batch of " + std::to_string(options.batch);
  check_sampler(ranks >= 1 && rank >= 0 && rank < ranks,
                "rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  check_sampler(options.examples >= 1, "there are " + std::to_string(options.examples) + " examples");
  check_sampler(options.batch >= ranks, batch + " on " + std::to_string(ranks) +
                                            " ranks; batch is of all ranks together, at least one example each");
  check_sampler(options.tail != Tail::drop || options.batch <= options.examples,
                batch + " is more than the " + std::to_string(options.examples) +
                    " examples, and with Tail::drop no epoch would have one");
}

std::vector<std::int64_t> Sampler::next() {
  const std::int64_t begin = position_.taken, rest = options_.examples - begin;
  const std::int64_t batch = options_.tail == Tail::keep ? std::min(options_.batch, rest) : options_.batch;
  // Pieces of equal size, the first ones with one more each where there is a remainder.
  const std::int64_t each = batch / ranks_, more = batch % ranks_;
  const std::int64_t first = begin + rank_ * each + std::min<std::int64_t>(rank_, more);
  std::vector<std::int64_t> examples(static_cast<std::size_t>(each + (rank_ < more ? 1 : 0)));
  const Permutation order = order_of(options_, position_.epoch);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const std::int64_t place = (first + static_cast<std::int64_t>(i)) % options_.examples;
    examples[i] = options_.shuffle ? example_in(order, place) : place;
  }
  position_.taken += batch;
  leave_finished_epoch();
  return examples;
}

void Sampler::leave_finished_epoch() {
  const std::int64_t rest = options_.examples - position_.taken;
  if (rest > 0 && (options_.tail != Tail::drop || rest >= options_.batch)) return;
  position_ = {position_.epoch + 1, 0};
}

void Sampler::set_position(const SamplerPosition& position) {
  check_sampler(position.epoch >= 0 && position.taken >= 0 && position.taken <= options_.examples,
                "no position is at example " + std::to_string(position.taken) + " of epoch " +
                    std::to_string(position.epoch) + "; there are " + std::to_string(options_.examples) + " examples");
  position_ = position;
  leave_finished_epoch();
}

std::int64_t Sampler::batches_per_epoch() const {
  const std::int64_t whole = options_.examples / options_.batch;
  return whole + (options_.tail != Tail::drop && options_.examples % options_.batch != 0 ? 1 : 0);
}

std::int64_t Sampler::example_at(std::int64_t epoch, std::int64_t place) const {
  check_sampler(epoch >= 0 && place >= 0 && place < options_.examples,
                "no example at place " + std::to_string(place) + " of epoch " + std::to_string(epoch));
  return options_.shuffle ? example_in(order_of(options_, epoch), place) : place;
}

}  // namespace tutti::train
