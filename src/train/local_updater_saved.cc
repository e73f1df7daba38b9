// What of local updates is in a checkpoint, and how it comes back. Each replica has its own.
#include <algorithm>
#include <span>

#include "strategy/fragments.h"
#include "train/agreement.h"
#include "train/local_updater.h"
#include "train/words.h"

namespace tutti::train {

OuterArrays LocalUpdater::outer_arrays() {
  const bool between_rounds = options_.asynchronous ? origin_ == steps_ : merged_ == begun_;
  if (failed_ || !between_rounds) {
    refuse_call("local updates after " + std::to_string(steps_) +
                (failed_ ? " steps have failed; only their strategy can be saved, or loaded into"
                         : " steps cannot be saved or loaded into: an exchange is under way, or may be; call finish() "
                           "first"));
  }
  OuterArrays outer{.rounds = {steps_, origin_}, .names = {"outer_start"}, .places = {}};
  if (options_.momentum > 0) outer.names.emplace_back("outer_momentum");
  if (options_.quantise) outer.names.emplace_back("outer_lost");
  outer.places = [this, names = outer.names.size()](std::size_t parameter, std::size_t first) {
    std::vector<float*> places(names);
    for (Fragment& fragment : fragments_) {
      std::size_t at = 0;
      for (const OwnedPart& part : fragment.parts) {
        if (part.parameter == parameter && first >= part.first && first - part.first < part.count) {
          const std::size_t offset = at + first - part.first;
          std::size_t name = 0;
          for (std::vector<float>* array : {&fragment.start, &fragment.momentum, &fragment.lost})
            if (!array->empty()) places[name++] = array->data() + offset;
          return places;
        }
        at += part.count;
      }
    }
    return places;  // a parameter without elements
  };
  return outer;
}

void LocalUpdater::restored(const SavedRounds& rounds) {
  steps_ = rounds.steps;
  origin_ = last_begin_ = rounds.origin;
  begun_ = 0;
  for (Fragment& fragment : fragments_) fragment.begun_at = origin_;
  for (; !options_.asynchronous && begin_of(begun_) <= steps_; ++begun_)
    fragment_of(begun_).begun_at = last_begin_ = begin_of(begun_);
  merged_ = begun_;
}

std::optional<TrainingPosition> LocalUpdater::load_alike(
    std::int64_t step, const std::function<std::optional<TrainingPosition>(std::int64_t)>& load) {
  control_.all_reduce(std::span(&step, 1), ReduceOp::minimum);
  std::optional<TrainingPosition> position;
  if (step < 0) return position;
  all_or_none(control_, [&] { position = load(step); });
  verify();
  return position;
}

}  // namespace tutti::train
