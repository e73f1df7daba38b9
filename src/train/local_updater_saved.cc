// What of local updates is in a checkpoint, and how it comes back. Each replica has its own.
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strategy/fragments.h"
#include "train/agreement.h"
#include "train/local_updater.h"
#include "train/words.h"

namespace tutti::train {
namespace {

// By replica, the steps of its checkpoints.
std::vector<std::vector<std::int64_t>> steps_of_replicas(Communicator& replicas, const StepsOf& own) {
  std::vector<std::int64_t> steps;
  all_or_none(replicas, [&] { steps = own(); });
  const std::size_t count = steps.size();
  std::vector<std::size_t> counts(static_cast<std::size_t>(replicas.size()));
  replicas.all_gather(std::span(&count, 1), counts);
  const std::size_t longest = *std::ranges::max_element(counts);
  steps.resize(longest);
  std::vector<std::int64_t> all(counts.size() * longest);
  replicas.all_gather(steps, all);
  std::vector<std::vector<std::int64_t>> steps_of;
  for (std::size_t replica = 0; replica < counts.size(); ++replica) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(replica * longest);
    steps_of.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(counts[replica]));
  }
  return steps_of;
}

std::vector<std::int64_t> shared_by(Communicator& replicas, const StepsOf& own, bool must_match) {
  const std::vector<std::vector<std::int64_t>> steps_of = steps_of_replicas(replicas, own);
  std::vector<std::int64_t> shared = steps_of.front();
  if (std::ranges::any_of(steps_of, [](const auto& steps) { return steps.empty(); })) return {};
  for (std::size_t replica = 1; replica < steps_of.size(); ++replica) {
    std::vector<std::int64_t> before = std::move(shared);
    shared.clear();
    std::ranges::set_intersection(before, steps_of[replica], std::back_inserter(shared));
    if (!shared.empty()) continue;
    if (!must_match) break;
    const auto last = [](const std::vector<std::int64_t>& steps) { return std::to_string(steps.back()); };
    throw Error(ErrorCode::invalid_argument,
                "replica " + std::to_string(replica) + " has checkpoints up to step " + last(steps_of[replica]) +
                    ", and none of a step that the replicas before it have, which is " + last(before) +
                    " at last; put one back from a copy, or begin anew in other folders",
                static_cast<int>(replica));
  }
  return shared;
}

}  // namespace

OuterArrays LocalUpdater::outer_arrays() {
  const bool between_rounds = options_.asynchronous ? origin_ == steps_ : merged_ == begun_;
  if (failed_ || !between_rounds) {
    refuse_call("local updates after " + std::to_string(steps_) +
                (failed_ ? " steps have failed; only their strategy can be saved, or loaded into"
                         : " steps cannot be saved or loaded into: an exchange is under way, or may be; call finish() "
                           "first"));
  }
  OuterArrays outer{.rounds = {steps_, origin_}, .names = {"outer_start"}, .places = {}, .shared_steps = {}};
  outer.shared_steps = [this](const StepsOf& own) { return shared_steps(own, /*must_match=*/false); };
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
  // All fragments had their turn in the last round; those before say nothing more.
  if (const std::int64_t rounds_made = (steps_ - origin_) / options_.every; !options_.asynchronous && rounds_made > 1)
    begun_ = (rounds_made - 1) * static_cast<std::int64_t>(options_.fragments);
  for (; !options_.asynchronous && begin_of(begun_) <= steps_; ++begun_)
    fragment_of(begun_).begun_at = last_begin_ = begin_of(begun_);
  merged_ = begun_;
}

std::vector<std::int64_t> LocalUpdater::shared_steps(const StepsOf& own, bool must_match) {
  std::vector<std::int64_t> shared;
  as_one([&] {
    if (inside_.rank() == 0) shared = shared_by(control_, own, must_match);
  });
  std::size_t count = shared.size();
  inside_.broadcast(std::span(&count, 1), 0);
  shared.resize(count);
  inside_.broadcast(shared, 0);
  return shared;
}

std::optional<TrainingPosition> LocalUpdater::load_alike(
    const StepsOf& own, const std::function<std::optional<TrainingPosition>(std::int64_t)>& load) {
  const std::vector<std::int64_t> shared = shared_steps(own, /*must_match=*/true);
  std::optional<TrainingPosition> position;
  if (shared.empty()) return position;
  all_or_none(control_, [&] { position = load(shared.back()); });
  verify();
  return position;
}

}  // namespace tutti::train
