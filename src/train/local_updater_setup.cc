// How local updates are made: what all replicas must have alike, fragments, and the point that all set out from.
#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "base/formatted.h"
#include "strategy/buckets.h"
#include "strategy/fragments.h"
#include "train/agreement.h"
#include "train/checkpoint_index.h"
#include "train/local_updater.h"
#include "train/words.h"

namespace tutti::train {
namespace {

std::string decimal(double value) { return formatted("%g", value); }

std::string in_words(const LocalUpdatesOptions& options, double mixing) {
  return "the settings every " + std::to_string(options.every) + ", learning_rate " + decimal(options.learning_rate) +
         ", momentum " + decimal(options.momentum) + ", fragments " + std::to_string(options.fragments) + ", overlap " +
         std::to_string(options.overlap) + ", mixing " + decimal(mixing) + ", asynchronous " +
         (options.asynchronous ? "yes" : "no") + ", most_delay " + std::to_string(options.most_delay) + ", quantise " +
         (options.quantise ? to_text(*options.quantise) : "no");
}

std::string in_words(const Strategy& strategy) {
  std::string words = "a strategy of stage " + std::to_string(strategy.stage()) + " with the optimizer " +
                      std::string(optimizer_name(strategy.optimizer()));
  for (const auto& [name, value] : optimizer_settings(strategy.optimizer())) words += " " + name + " " + decimal(value);
  return words;
}

}  // namespace

LocalUpdater::LocalUpdater(Replicas& replicas, Strategy& strategy, const LocalUpdatesOptions& options)
    : inside_(replicas.inside.duplicate()),
      between_(replicas.between.duplicate()),
      control_(replicas.between.duplicate()),
      strategy_(strategy),
      options_(options),
      mixing_(options.mixing.value_or(options.overlap > 0 ? 0.5 : 0)) {
  for (Communicator* comm : {&inside_, &between_, &control_}) comm->set_timeout(options_.timeout);
  check_options();
  // In an order that does not depend on how a replica's buckets are laid out.
  std::vector<OwnedPart> owned = strategy_.owned();
  std::ranges::sort(owned, {}, [](const OwnedPart& part) { return std::pair(part.parameter, part.first); });
  check_alike(owned);
  make_fragments(owned);
  set_out_alike();
}

void LocalUpdater::check_options() const {
  const LocalUpdatesOptions& with = options_;
  if (with.every < 1)
    refuse_call("local updates every " + std::to_string(with.every) + " steps; give a number of inner steps from 1 on");
  if (with.overlap < 0 || with.overlap >= with.every) {
    refuse_call("overlap is " + std::to_string(with.overlap) + " and every is " + std::to_string(with.every) +
                ": an exchange ends before the next one of its fragment begins; give 0 .. " +
                std::to_string(with.every - 1));
  }
  const std::size_t parameters = strategy_.size();
  if (with.fragments < 1 || with.fragments > parameters) {
    refuse_call(std::to_string(with.fragments) + " fragments of " + std::to_string(parameters) +
                " parameters; give 1 .. " + std::to_string(parameters));
  }
  if (!(mixing_ >= 0 && mixing_ < 1))
    refuse_call("mixing is " + decimal(mixing_) + "; it is the share of own values that stays, at least 0 and below 1");
  if (!(with.learning_rate > 0) || !std::isfinite(with.learning_rate))
    refuse_call("the outer learning rate is " + decimal(with.learning_rate) + "; give a number above 0");
  if (!(with.momentum >= 0 && with.momentum < 1))
    refuse_call("the outer momentum is " + decimal(with.momentum) + "; it must be at least 0 and less than 1");
  if (with.most_delay < 0 || (with.most_delay > 0 && !with.asynchronous))
    refuse_call("most_delay is " + std::to_string(with.most_delay) +
                "; it counts steps from 0 on, and only where asynchronous is set");
  if (with.asynchronous && (with.overlap > 0 || with.mixing))
    refuse_call(
        "asynchronous exchanges are merged when they have ended, on top of what was moved meanwhile; leave "
        "overlap and mixing out");
  if (with.quantise) check_settings(*with.quantise);
  if (with.quantise && with.asynchronous && with.fragments > 1) {
    refuse_call(
        "asynchronous exchanges of quantised fragments would call in an order that depends on timing; give one "
        "fragment, or do without one of the others");
  }
  const int ranks = strategy_.report().ranks;
  if (ranks != inside_.size()) {
    refuse_call("the strategy is over " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
                " and the replica has " + std::to_string(inside_.size()) + "; make it over Replicas::inside");
  }
}

void LocalUpdater::check_alike(const std::vector<OwnedPart>& owned) {
  std::vector<std::string> things{in_words(options_, mixing_), in_words(strategy_)};
  for (const Parameter& parameter : strategy_.parameters()) things.push_back(train::in_words(parameter));
  std::string parts;
  for (const OwnedPart& part : owned) parts += formatted("%zu %zu %zu ", part.parameter, part.first, part.count);
  things.push_back("buckets that its first step has laid out by an order of its own (shards with hash " +
                   std::to_string(hash_of_text(parts)) + ")");
  std::vector<std::uint64_t> hashes;
  for (const std::string& thing : things) hashes.push_back(hash_of_text(thing));
  const auto describe = [&](std::size_t i) { return things[i]; };
  constexpr const char* kRemedy =
      "make local updates of the same model with the same settings on all ranks, before "
      "the first step";
  // Ranks of a replica own different shards.
  require_alike(inside_, std::span(hashes).first(hashes.size() - 1), describe, kRemedy, once_);
  as_one([&] { require_alike(between_, hashes, describe, kRemedy, once_); });
  if (inside_.size() > 1) {
    const auto bytes = static_cast<std::uint64_t>(inside_.size()) * 2 * sizeof(std::uint32_t);
    once_.push_back({Verb::all_gather, "whether all ranks found that", bytes, 1, inside_.size()});
  }
}

void LocalUpdater::make_fragments(const std::vector<OwnedPart>& owned) {
  std::vector<strategy::TensorSize> sizes;
  for (const Parameter& parameter : strategy_.parameters()) sizes.push_back({parameter.elements(), parameter.type});
  const std::vector<std::size_t> fragment_of = strategy::cut_into_fragments(sizes, options_.fragments);
  fragments_ = std::vector<Fragment>(options_.fragments);
  for (std::size_t i = 0; i < sizes.size(); ++i) fragments_[fragment_of[i]].parameters.push_back(i);
  for (const OwnedPart& part : owned) {
    if (part.count == 0) continue;
    Fragment& fragment = fragments_[fragment_of[part.parameter]];
    fragment.parts.push_back(part);
    fragment.elements += part.count;
  }
  for (Fragment& fragment : fragments_) {
    fragment.start.resize(fragment.elements);
    if (options_.momentum > 0) fragment.momentum.resize(fragment.elements);
    if (options_.quantise) {
      Quantise settings = *options_.quantise;
      settings.not_finite = NotFinite::pass;  // which is told in words of our own
      fragment.codes = std::make_unique<QuantisedExchange>(settings);
      fragment.lost.resize(fragment.elements);
    }
    fragment.memory = between_.allocate_bytes(std::max<std::size_t>(1, fragment.elements) * sizeof(float));
  }
}

// At the values of replica 0.
void LocalUpdater::set_out_alike() {
  for (Fragment& fragment : fragments_) {
    copy_values_to_send(fragment);
    between_.run({.verb = Verb::broadcast,
                  .input = fragment.values(),
                  .output = fragment.values(),
                  .input_count = fragment.elements,
                  .output_count = fragment.elements,
                  .element = DType::float32});
    once_.push_back({Verb::broadcast, "values of replica 0", fragment.elements * sizeof(float), 1, between_.size()});
    const float* from = fragment.values();
    std::copy_n(from, fragment.elements, fragment.start.begin());
    for (const OwnedPart& part : fragment.parts) {
      std::copy_n(from, part.count, part.shard.master);
      from += part.count;
    }
    fragment.refreshed = strategy_.refresh(fragment.parameters);
    once_.insert(once_.end(), fragment.refreshed.begin(), fragment.refreshed.end());
  }
}

}  // namespace tutti::train
