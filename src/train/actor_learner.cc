#include "tutti/train/actor_learner.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "train/actor_side.h"
#include "train/actor_wire.h"
#include "train/agreement.h"
#include "train/learner_side.h"
#include "train/words.h"

namespace tutti::train {

ActorMeeting meet(Communicator& communicator, std::size_t weights, const ActorOptions& options, bool learns) {
  Communicator comm = communicator.duplicate();
  const std::string settings = "the settings learner " + std::to_string(options.learner) + ", weights " +
                               std::to_string(weights) + ", most_floats " + std::to_string(options.most_floats) +
                               ", queue " + std::to_string(options.queue) + ", patience " +
                               std::to_string(options.patience.count()) + " ms";
  const std::uint64_t hash = hash_of_text(settings);
  Sentence said;
  require_alike(
      comm, std::span(&hash, 1), [&](std::size_t) { return settings; }, "give all ranks the same", said);
  all_or_none(comm, [&] {
    if (options.learner < 0 || options.learner >= comm.size() || comm.size() < 2)
      refuse_call("learner rank " + std::to_string(options.learner) + " of " + std::to_string(comm.size()) +
                  " ranks; it is one of them, and others act");
    if (learns != (comm.rank() == options.learner))
      refuse_call(std::string(learns ? "a Learner" : "an Actor") + " is made here, and the learner is rank " +
                  std::to_string(options.learner) + "; make a Learner there, and Actors elsewhere");
    if (options.queue == 0) refuse_call("a queue of 0 trajectories would never let an actor send; give 1 at least");
    if (options.most_floats == 0) refuse_call("trajectories of 0 numbers; say how many they have in most_floats");
  });
  ActorMeeting meeting{.options = options};
  if (options.patience.count() <= 0) meeting.options.patience = comm.timeout();
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == options.learner) continue;
    meeting.actors.push_back(rank);
    if (!learns && rank != comm.rank()) continue;
    meeting.groups.push_back(comm.create_group(std::vector{options.learner, rank}, rank));
    meeting.groups.back().set_timeout(meeting.options.patience);
  }
  return meeting;
}

Learner::Learner(Communicator& communicator, std::span<const float> weights, const ActorOptions& options)
    : side_(std::make_unique<LearnerSide>(communicator, weights, options)) {}
Learner::Learner(Learner&&) noexcept = default;
Learner& Learner::operator=(Learner&&) noexcept = default;
Learner::~Learner() = default;

Trajectory Learner::take() { return side_->take(); }
std::int64_t Learner::publish(std::span<const float> weights) { return side_->publish(weights); }
void Learner::stop() { side_->stop(); }
std::int64_t Learner::version() const { return side_->version(); }
int Learner::actors() const { return side_->actors(); }
const std::vector<LostActor>& Learner::lost() const { return side_->lost(); }
PolicyLag Learner::lag() const { return side_->lag(); }
Counters Learner::counters() const { return side_->counters(); }

Actor::Actor(Communicator& communicator, std::size_t weights, const ActorOptions& options)
    : side_(std::make_unique<ActorSide>(communicator, weights, options)) {}
Actor::Actor(Actor&&) noexcept = default;
Actor& Actor::operator=(Actor&&) noexcept = default;
Actor::~Actor() = default;

bool Actor::running() { return side_->running(); }
std::span<const float> Actor::weights() { return side_->weights(); }
std::int64_t Actor::version() const { return side_->version(); }
bool Actor::send(std::span<const float> trajectory) { return side_->send(trajectory); }
std::uint64_t Actor::trajectories() const { return side_->trajectories(); }
std::uint64_t Actor::versions() const { return side_->versions(); }
Sentence Actor::sentence() const { return side_->sentence(); }
Counters Actor::counters() const { return side_->counters(); }

void v_trace(const VTraceInput& input, std::span<float> targets, std::span<float> advantages,
             const VTraceOptions& options) {
  const std::size_t steps = input.rewards.size();
  const std::size_t lengths[] = {input.log_ratios.size(), input.discounts.size(), input.values.size(), targets.size(),
                                 advantages.size()};
  if (std::any_of(std::begin(lengths), std::end(lengths), [&](std::size_t length) { return length != steps; }))
    refuse_call("v_trace: arrays of different lengths; all have a number for each of " + std::to_string(steps) +
                " rewards");
  double carried = 0, next_value = input.bootstrap, next_target = input.bootstrap;
  for (std::size_t t = steps; t-- > 0;) {
    const double ratio = std::exp(static_cast<double>(input.log_ratios[t])), value = input.values[t];
    const double rho = std::min(options.most_rho, ratio), c = std::min(options.most_c, ratio);
    const double reward = input.rewards[t], discount = input.discounts[t];
    carried = rho * (reward + discount * next_value - value) + discount * c * carried;
    advantages[t] = static_cast<float>(rho * (reward + discount * next_target - value));
    next_value = value;
    next_target = value + carried;
    targets[t] = static_cast<float>(next_target);
  }
}

}  // namespace tutti::train
