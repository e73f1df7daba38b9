// Buckets whose gradients travel in fewer bytes: when each stage of their exchange runs.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "train/float_arrays.h"
#include "train/frozen_adam.h"
#include "train/gradient_norm.h"
#include "train/power_sgd_exchange.h"
#include "train/top_k_exchange.h"
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

bool Trainer::is_by_deviation() const {
  const TopK* const top = std::get_if<TopK>(&options_.compression);
  const PowerSgd* const power = std::get_if<PowerSgd>(&options_.compression);
  return (top != nullptr && top->by_deviation) || (power != nullptr && power->by_deviation);
}

bool Trainer::freezes() const { return is_by_deviation() || std::holds_alternative<OneBitAdam>(options_.compression); }

Frozen Trainer::frozen() const {
  const auto most_beta1 = [](const auto& settings) {
    if constexpr (requires { settings.most_beta1; }) return settings.most_beta1;
    return 1.0;
  };
  return {.variances = options_.compress_from_step, .most_beta1 = std::visit(most_beta1, options_.compression)};
}

void Trainer::check_freezing() const {
  if (!freezes()) return;
  const bool signs = std::holds_alternative<OneBitAdam>(options_.compression);
  const std::string name = signs                                                ? "OneBitAdam"
                           : std::holds_alternative<TopK>(options_.compression) ? "TopK by deviation"
                                                                                : "PowerSgd by deviation";
  check_can_freeze(optimizer_);
  const TopK* const top = std::get_if<TopK>(&options_.compression);
  if (top != nullptr && top->momentum > 0)
    refuse_call(name + " with a momentum of its own: that of AdamW is applied to what came; leave it out");
  if (state_type(optimizer_) == StateType::eight_bits)
    refuse_call(name + " with states of 8 bits: it freezes variances as they are; give its optimizer float32 ones");
  if (stage_ > 0) {
    refuse_call(name + (signs ? " needs the whole momentum" : " needs all variances") +
                " on every rank, and ZeRO stage " + std::to_string(stage_) + (signs ? " cuts it" : " cuts them") +
                "; take data_parallel, or PowerSgd or Quantise with ZeRO");
  }
  if (options_.compress_from_step < 1) {
    refuse_call(name +
                " from step 0 on: variances are what plain steps have found; set compress_from_step to some "
                "15 % of all steps");
  }
  const auto refuse_option = [&](const char* option) {
    refuse_call(name + " with " + option + ": it looks at gradients of all ranks, and " +
                (signs ? "momentum travels" : "directions travel") + " in their place; leave it out");
  };
  if (options_.clip_norm && signs) refuse_option("clip_norm");
  if (options_.measure_noise) refuse_option("measure_noise");
  if (options_.unused_parameters) refuse_option("unused_parameters");
}

// Before there is memory for buckets.
void Trainer::check_places() const {
  if (!std::holds_alternative<TopK>(options_.compression)) return;
  for (const strategy::Bucket& bucket : layout_.buckets) {
    if (!bucket.compressed || bucket.elements <= TopKExchange::kMostCount) continue;
    const auto elements_of = [&](std::size_t parameter) { return sizes_[parameter].elements; };
    refuse_call(in_words(parameters_[*std::ranges::max_element(bucket.parameters, {}, elements_of)]) +
                " is in a bucket of " + std::to_string(bucket.elements) + " numbers, and TopK tells the places of " +
                std::to_string(TopKExchange::kMostCount) +
                " at most; have `compresses` leave it out, or take another compression");
  }
}

// Updates count, those before a checkpoint among them: a run that goes on does not begin with plain steps again.
void Trainer::decide_compression() { compresses_now_ = updates_ >= options_.compress_from_step; }

bool Trainer::sends_directions(std::size_t bucket) const {
  return is_compressed(bucket) && !directions_[bucket].empty();
}

// Of this rank's gradients alone; a mean over ranks takes their shares of all examples as many times.
const std::byte* Trainer::directions_of(std::size_t bucket, const std::byte* gradients) {
  Shard shard = memory_.shard(bucket, 0, layout_.buckets[bucket].filled);
  shard.gradient = gradients;
  const double factor = (examples_ ? share_ * ranks_ : 1) / scale_;
  const auto find = is_by_deviation() ? divide_by_deviation : find_directions;
  find(optimizer_, frozen(), shard, factor, directions_[bucket].data());
  return reinterpret_cast<const std::byte*>(directions_[bucket].data());
}

// Of what came in units of the deviation, as the gradient that it is; gradients are in those of the loss.
void Trainer::sum_directed_squares(std::size_t bucket, const strategy::ShardPart& part, double* sums) {
  std::vector<float> gradient(part.count);
  multiply_by_deviation(optimizer_, frozen(), memory_.shard(bucket, part.offset, part.count),
                        directions_[bucket].data() + part.offset, gradient.data());
  scale_floats(gradient.data(), gradient.size(), scale_);
  sum_squares(gradient.data(), DType::float32, gradient.size(), sums);
}

void Trainer::make_exchanges() {
  exchanges_.clear();
  directions_.clear();
  for (const strategy::Bucket& bucket : layout_.buckets) {
    directions_.emplace_back(freezes() && bucket.compressed ? bucket.elements : 0);
    const BucketExchangeShape shape{.type = freezes() ? DType::float32 : bucket.type,
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
  run.end = std::make_shared<NotedEnd::element_type>(0);
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
  rescale_exchanges(factor);
}

std::vector<KeptPart> Trainer::kept() {
  const std::scoped_lock lock(mutex_);
  std::vector<KeptPart> parts;
  for (std::size_t b = 0; b < exchanges_.size(); ++b) {
    if (!exchanges_[b]) continue;
    for (const KeptFloats& kept : exchanges_[b]->kept()) {
      const std::string name(kept.name);
      if (kept.parameter) {
        parts.push_back({name, *kept.parameter, 0, kept.values.size(), kept.values.data(), kept.by_owner});
        continue;
      }
      for (const std::size_t i : layout_.buckets[b].parameters) {
        const std::size_t begin = layout_.places[i].offset, end = begin + sizes_[i].elements;
        const std::size_t from = std::max(begin, kept.first), to = std::min(end, kept.first + kept.values.size());
        if (from < to)
          parts.push_back({name, i, from - begin, to - from, kept.values.data() + (from - kept.first), kept.by_owner});
      }
    }
  }
  return parts;
}

std::string Trainer::compression_settings() const {
  return to_text(options_.compression) + (options_.error_feedback ? "" : " without error feedback");
}

void Trainer::kept_restored(std::int64_t compressed_steps, double loss_scale) {
  const std::scoped_lock lock(mutex_);
  compressed_steps_ = compressed_steps;
  for (const auto& exchange : exchanges_) {
    if (exchange) exchange->go_on(static_cast<std::uint64_t>(compressed_steps));
  }
  if (loss_scale != scale_) rescale_exchanges(scale_ / loss_scale);
}

// What is in units of the deviation is not in those of the loss.
void Trainer::rescale_exchanges(double factor) {
  for (const auto& exchange : exchanges_)
    if (exchange && !freezes()) exchange->rescale(factor);
}

void Trainer::abort_all() {
  comm_.abort();
  if (returning_) returning_->abort();
  if (beside_) beside_->abort();
}

}  // namespace tutti::train
