// Buckets whose gradients travel in fewer bytes: when each stage of their exchange runs.
#include <algorithm>
#include <atomic>
#include <string>
#include <variant>

#include "train/frozen_adam.h"
#include "train/power_sgd_exchange.h"
#include "train/trainer.h"
#include "train/words.h"

namespace tutti::train {

bool Trainer::compresses(const Parameter& parameter) const {
  return train::is_compressed(options_.compression, options_.compresses, parameter);
}

// A rank that is too large for all of them is a mistake; for some it is how small matrices go.
void Trainer::check_rank_pays() const {
  const PowerSgd* power = std::get_if<PowerSgd>(&options_.compression);
  if (power == nullptr) return;
  if (std::ranges::any_of(parameters_, [&](const Parameter& parameter) { return pays(*power, parameter); })) return;
  const auto most_rank = [](const Parameter& parameter) {
    PowerSgd least{.rank = 1};
    while (pays(least, parameter)) ++least.rank;
    return least.rank - 1;
  };
  const Parameter& best = *std::ranges::max_element(parameters_, {}, most_rank);
  const std::string most = std::to_string(most_rank(best));
  refuse_call("PowerSgd of rank " + std::to_string(power->rank) +
              (most_rank(best) == 0 ? ": the model has no matrix that two thin ones are smaller than; train without it"
                                    : " is too large for every matrix of the model; give a rank of at most " + most +
                                          ", which fits " + in_words(best)));
}

void Trainer::check_one_bit() const {
  if (!std::holds_alternative<OneBitAdam>(options_.compression)) return;
  check_can_freeze(optimizer_);
  if (state_type(optimizer_) == StateType::eight_bits)
    refuse_call("OneBitAdam with states of 8 bits: it freezes variances as they are; give its optimizer float32 ones");
  if (stage_ > 0) {
    refuse_call("OneBitAdam needs the whole momentum on every rank, and ZeRO stage " + std::to_string(stage_) +
                " cuts it; take data_parallel, or PowerSgd or Quantise with ZeRO");
  }
  if (options_.compress_from_step < 1) {
    refuse_call(
        "OneBitAdam from step 0 on: variances are what plain steps have found; set compress_from_step to some "
        "15 % of all steps");
  }
  const auto refuse_option = [](const char* option) {
    refuse_call("OneBitAdam with " + std::string(option) +
                ": it looks at gradients of all ranks, and momentum travels in their place; leave it out");
  };
  if (options_.clip_norm) refuse_option("clip_norm");
  if (options_.measure_noise) refuse_option("measure_noise");
  if (options_.unused_parameters) refuse_option("unused_parameters");
}

// Steps of this strategy count, but for a variance it is updates that tell what it has seen.
void Trainer::decide_compression() {
  const bool by_updates = std::holds_alternative<OneBitAdam>(options_.compression);
  compresses_now_ = (by_updates ? updates_ : steps_) >= options_.compress_from_step;
}

bool Trainer::sends_directions(std::size_t bucket) const {
  return is_compressed(bucket) && !directions_[bucket].empty();
}

// Of this rank's gradients alone; a mean over ranks takes their shares of all examples as many times.
const std::byte* Trainer::directions_of(std::size_t bucket, const std::byte* gradients) {
  Shard shard = memory_.shard(bucket, 0, layout_.buckets[bucket].filled);
  shard.gradient = gradients;
  const double factor = (examples_ ? share_ * ranks_ : 1) / scale_;
  find_directions(optimizer_, options_.compress_from_step, shard, factor, directions_[bucket].data());
  return reinterpret_cast<const std::byte*>(directions_[bucket].data());
}

void Trainer::make_exchanges() {
  exchanges_.clear();
  directions_.clear();
  const bool signs = std::holds_alternative<OneBitAdam>(options_.compression);
  for (const strategy::Bucket& bucket : layout_.buckets) {
    directions_.emplace_back(signs && bucket.compressed ? bucket.elements : 0);
    const BucketExchangeShape shape{.type = signs ? DType::float32 : bucket.type,
                                    .filled = bucket.filled,
                                    .elements = bucket.elements,
                                    .ranks = ranks_,
                                    .rank = rank_,
                                    .cut = stage_ > 0,
                                    .matrices = matrices_of(layout_, bucket, parameters_)};
    exchanges_.push_back(bucket.compressed ? make_exchange(options_.compression, options_.error_feedback, shape, comm_)
                                           : nullptr);
  }
}

bool Trainer::is_compressed(std::size_t bucket) const { return compresses_now_ && exchanges_[bucket] != nullptr; }

bool Trainer::passes_not_finite() const {
  return std::visit(
      [&](const auto& settings) {
        if constexpr (requires { settings.not_finite; }) {
          return settings.not_finite == NotFinite::pass || options_.loss_scale.has_value();
        }
        return false;
      },
      options_.compression);
}

void Trainer::start_exchange(std::size_t bucket, const std::byte* gradients) {
  BucketRun& run = runs_[bucket];
  run.start = Clock::now();
  run.end = std::make_shared<std::atomic<Clock::rep>>(0);
  if (sends_directions(bucket)) return exchanges_[bucket]->start(comm_, directions_of(bucket, gradients), std::nullopt);
  exchanges_[bucket]->start(comm_, gradients, examples_ ? GradientShare(share_) : std::nullopt);
}

void Trainer::publish_up_to(std::size_t bucket) {
  for (; published_ <= bucket; ++published_)
    if (is_compressed(published_) && exchanges_[published_]->has_second_call())
      exchanges_[published_]->publish(*returning_);
}

// While backward runs: what has come is reduced and sent on, and nobody waits.
void Trainer::publish_what_is_there() {
  while (published_ < next_ && (!is_compressed(published_) || exchanges_[published_]->can_publish()))
    publish_up_to(published_);
}

void Trainer::finish_exchange(std::size_t bucket) {
  BucketRun& run = runs_[bucket];
  if (run.finished) return;
  publish_up_to(bucket);
  std::byte* const output = sends_directions(bucket) ? reinterpret_cast<std::byte*>(directions_[bucket].data())
                                                     : memory_.own_gradients(bucket);
  const std::optional<NotFinitePlace> place = exchanges_[bucket]->finish(output);
  run.end->store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  run.finished = true;
  if (place) take_not_finite(bucket, *place);
}

// On all ranks alike.
void Trainer::take_not_finite(std::size_t bucket, const NotFinitePlace& place) {
  not_finite_ = true;
  if (passes_not_finite()) return;
  for (const std::size_t parameter : layout_.buckets[bucket].parameters) {
    const std::size_t offset = layout_.places[parameter].offset;
    if (place.index < offset || place.index >= offset + sizes_[parameter].elements) continue;
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(place.rank) + ", parameter \"" + parameters_[parameter].name + "\": element " +
                    std::to_string(place.index - offset) +
                    " of its gradient is not finite and cannot be compressed; look where it comes from, or skip such "
                    "steps (not_finite)",
                place.rank);
  }
}

void Trainer::change_scale(double factor) {
  scale_ *= factor;
  steps_since_overflow_ = 0;
  for (const auto& exchange : exchanges_)
    if (exchange) exchange->rescale(factor);
}

void Trainer::abort_all() {
  comm_.abort();
  if (returning_) returning_->abort();
}

}  // namespace tutti::train
