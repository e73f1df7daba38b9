#include "train/learner_side.h"

#include <algorithm>
#include <string>
#include <utility>

#include "train/counting.h"
#include "train/words.h"

namespace tutti::train {

LearnerSide::LearnerSide(Communicator& communicator, std::span<const float> weights, const ActorOptions& options)
    : weights_(std::make_shared<const std::vector<float>>(weights.begin(), weights.end())) {
  ActorMeeting meeting = meet(communicator, weights.size(), options, true);
  options_ = meeting.options;
  taken_.resize(kVersionFloats + options_.most_floats);
  for (std::size_t i = 0; i < meeting.groups.size(); ++i) {
    ActorSession& actor = sessions_.emplace_back(meeting.actors[i], std::move(meeting.groups[i]));
    actor.owed_credits = static_cast<std::int64_t>(options_.queue);
    with(actor, [&] {
      for (std::size_t slot = 0; slot < options_.queue; ++slot) expect(actor, std::vector<float>(taken_.size()));
      tell(actor);
    });
  }
}

LearnerSide::~LearnerSide() {
  for (ActorSession& actor : sessions_)
    if (!actor.gone) close(actor);
}

int LearnerSide::actors() const {
  return static_cast<int>(
      std::count_if(sessions_.begin(), sessions_.end(), [](const ActorSession& it) { return !it.gone; }));
}

PolicyLag LearnerSide::lag() const {
  PolicyLag lag = lag_;
  if (lag.trajectories > 0) lag.mean = lags_ / static_cast<double>(lag.trajectories);
  return lag;
}

Counters LearnerSide::counters() const {
  Counters counters = past_;
  for (const ActorSession& actor : sessions_)
    if (!actor.gone) add_counters(counters, actor.group.counters());
  return counters;
}

void LearnerSide::expect(ActorSession& actor, std::vector<float> message) {
  QueuedTrajectory next{std::move(message)};
  next.work = actor.group.recv_up_to_async(next.message, kActorRank, kTrajectoryTag);
  actor.queue.push_back(std::move(next));
}

void LearnerSide::tell(ActorSession& actor) {
  SentNews& sent = actor.news;
  for (Work* work : {&sent.head, &sent.body, &sent.taken}) {
    if (!work->valid()) continue;
    if (!work->ended()) return;
    work->wait();
    *work = {};
  }
  const bool newer = actor.sent_version < version_ && !stopping_;
  if (actor.told_to_stop || (!newer && actor.owed_credits == 0 && !stopping_)) return;
  sent.news.version() = version_;
  sent.news.credits() = std::exchange(actor.owed_credits, 0);
  sent.news.brings_weights() = newer ? 1 : 0;
  sent.news.stops() = stopping_ ? 1 : 0;
  actor.told_to_stop = stopping_;
  sent.weights = newer ? weights_ : nullptr;
  sent.head = actor.group.send_async(sent.news.words, kActorRank, kNewsTag);
  if (!newer) return;
  actor.sent_version = version_;
  sent.body = actor.group.send_async(std::span(*sent.weights), kActorRank, kWeightsTag);
  sent.taken = actor.group.recv_async(one(sent.taken_version), kActorRank, kTakenTag);
}

void LearnerSide::tell_all() {
  for (ActorSession& actor : sessions_)
    if (!actor.gone && !actor.failed) with(actor, [&] { tell(actor); });
}

// Until a trajectory has come, or an actor has taken its news.
void LearnerSide::await() {
  std::vector<Work*> works;
  for (ActorSession& actor : sessions_) {
    if (actor.gone) continue;
    if (!actor.queue.empty()) works.push_back(&actor.queue.front().work);
    if (actor.failed) continue;
    for (Work* work : {&actor.news.head, &actor.news.body, &actor.news.taken})
      if (work->valid()) works.push_back(work);
  }
  await_any(works);
}

std::optional<Trajectory> LearnerSide::take_from(ActorSession& actor) {
  if (!actor.queue.empty() && !actor.queue.front().work.ended()) return std::nullopt;
  if (actor.queue.empty() || !with(actor, [&] { actor.queue.front().work.wait(); })) {
    lose(actor);
    return std::nullopt;
  }
  QueuedTrajectory& first = actor.queue.front();
  const std::size_t floats = first.work.received().count;
  std::swap(taken_, first.message);
  std::vector<float> message = std::move(first.message);
  actor.queue.pop_front();
  ++actor.owed_credits;
  ++actor.taken;
  with(actor, [&] {
    expect(actor, std::move(message));
    tell(actor);
  });
  return Trajectory{.actor = actor.rank,
                    .version = version_in(taken_),
                    .data = std::span(taken_).subspan(kVersionFloats, floats - kVersionFloats)};
}

Trajectory LearnerSide::take() {
  if (stopping_) refuse_call("take: the learner has stopped; make a new one");
  while (actors() > 0) {
    tell_all();
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      ActorSession& actor = sessions_[(turn_ + i) % sessions_.size()];
      if (actor.gone) continue;
      const std::optional<Trajectory> trajectory = take_from(actor);
      if (!trajectory) continue;
      turn_ = (turn_ + i + 1) % sessions_.size();
      const std::int64_t behind = version_ - trajectory->version;
      ++lag_.trajectories;
      lags_ += static_cast<double>(behind);
      lag_.most = std::max(lag_.most, behind);
      return *trajectory;
    }
    if (actors() > 0) await();
  }
  throw Error(ErrorCode::peer_lost, "take: no actor is left; the last one: " + (lost_.empty() ? "" : lost_.back().why),
              lost_.empty() ? -1 : lost_.back().rank);
}

std::int64_t LearnerSide::publish(std::span<const float> weights) {
  if (weights.size() != weights_->size())
    refuse_call("publish: " + std::to_string(weights.size()) + " numbers, and a version has " +
                std::to_string(weights_->size()));
  weights_ = std::make_shared<const std::vector<float>>(weights.begin(), weights.end());
  ++version_;
  tell_all();
  return version_;
}

// Forgets what has come, up to the actor's farewell.
void LearnerSide::hear_out(ActorSession& actor) {
  while (!actor.queue.empty() && actor.queue.front().work.ended()) {
    if (!with(actor, [&] { actor.queue.front().work.wait(); })) return lose(actor);
    std::vector<float> message = std::move(actor.queue.front().message);
    actor.queue.pop_front();
    if (version_in(message) == kFarewell) return close(actor);
    with(actor, [&] { expect(actor, std::move(message)); });
  }
  if (actor.queue.empty()) lose(actor);
}

void LearnerSide::stop() {
  stopping_ = true;
  while (actors() > 0) {
    tell_all();
    for (ActorSession& actor : sessions_)
      if (!actor.gone) hear_out(actor);
    if (actors() > 0) await();
  }
}

void LearnerSide::close(ActorSession& actor) {
  actor.gone = true;
  add_counters(past_, actor.group.counters());
  actor.group.abort();
  actor.queue.clear();
  actor.news.head = {};
  actor.news.body = {};
  actor.news.taken = {};
  actor.group.close();
}

void LearnerSide::lose(ActorSession& actor) {
  const Error error = *actor.failed;
  close(actor);
  lost_.push_back({actor.rank, actor.taken, end_of_peer(error),
                   "actor rank " + std::to_string(actor.rank) + " was lost after " + std::to_string(actor.taken) +
                       " trajectories: " + error.what()});
}

}  // namespace tutti::train
