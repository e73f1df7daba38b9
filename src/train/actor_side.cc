#include "train/actor_side.h"

#include <chrono>
#include <utility>

#include "train/words.h"

namespace tutti::train {
namespace {

constexpr std::chrono::seconds kMostUntilArrived{2};

Communicator group_of(Communicator& communicator, std::size_t weights, const ActorOptions& options,
                      ActorOptions& agreed) {
  ActorMeeting meeting = meet(communicator, weights, options, false);
  agreed = meeting.options;
  return std::move(meeting.groups.front());
}

}  // namespace

ActorSide::ActorSide(Communicator& communicator, std::size_t weights, const ActorOptions& options)
    : group_(group_of(communicator, weights, options, options_)), rank_(communicator.rank()), weights_(weights) {}

// It leaves once what it has sent has arrived, for which the learner has room and need not call anything. Its messages
// cannot stay behind: where one does not arrive, the learner is told that this actor has failed.
ActorSide::~ActorSide() {
  try {
    for (SentTrajectory& sent : sent_) sent.work.wait(kMostUntilArrived);
  } catch (...) {
    group_.abort();
  }
}

void ActorSide::tell(const Error& error, const std::string& what) const {
  const std::string learner = "learner rank " + std::to_string(options_.learner);
  std::string why = learner + " has given this actor up, or failed itself";
  if (error.code() == ErrorCode::peer_lost) why = learner + " is gone";
  if (error.code() == ErrorCode::timeout)
    why = learner + " has not answered for " + std::to_string(options_.patience.count()) +
          " ms; let it take() more often, or raise ActorOptions::patience";
  throw Error(error.code(), "actor rank " + std::to_string(rank_) + ", " + what + ": " + why + ": " + error.what(),
              options_.learner);
}

void ActorSide::hear() {
  ActorNews news;
  group_.recv(news.words, kLearnerRank, kNewsTag);
  ++news_;
  credits_ += news.credits();
  if (news.brings_weights() != 0) {
    group_.recv(weights_, kLearnerRank, kWeightsTag);
    version_ = news.version();
    group_.send(one(version_), kLearnerRank, kTakenTag);
    ++versions_;
  }
  if (news.stops() != 0) take_leave();
}

void ActorSide::hear_what_came() {
  while (!closed_ && group_.iprobe(kLearnerRank, kNewsTag, DType::int64)) hear();
}

void ActorSide::take_leave() {
  std::vector<float> farewell(kVersionFloats);
  put_version(farewell, kFarewell);
  start(std::move(farewell));
  for (SentTrajectory& sent : sent_) sent.work.wait();
  sent_.clear();
  until_closed_ = group_.counters();
  closed_ = true;
  group_.close();
}

bool ActorSide::running() {
  try {
    hear_what_came();
  } catch (const Error& error) {
    tell(error, "running");
  }
  return !closed_;
}

std::span<const float> ActorSide::weights() {
  try {
    while (version_ < 0 && !closed_) hear();
    hear_what_came();
  } catch (const Error& error) {
    tell(error, "weights");
  }
  shown_ = version_;
  return weights_;
}

void ActorSide::start(std::vector<float> message) {
  ++said_[message.size()];
  SentTrajectory& sent = sent_.emplace_back(std::move(message));
  sent.work = group_.send_async(sent.message, kLearnerRank, kTrajectoryTag);
}

bool ActorSide::send(std::span<const float> trajectory) {
  if (trajectory.size() > options_.most_floats)
    refuse_call("actor rank " + std::to_string(rank_) + ", send: a trajectory of " + std::to_string(trajectory.size()) +
                " numbers, and ActorOptions::most_floats is " + std::to_string(options_.most_floats));
  if (shown_ < 0)
    refuse_call("actor rank " + std::to_string(rank_) + ", send: no weights were asked for; call weights() first");
  try {
    while (!closed_ && credits_ == 0) hear();
    if (closed_) return false;
    while (!sent_.empty() && sent_.front().work.ended()) {
      sent_.front().work.wait();
      sent_.pop_front();
    }
    std::vector<float> message(kVersionFloats + trajectory.size());
    put_version(message, shown_);  // newer weights may have come while it waited
    if (!trajectory.empty())
      std::memcpy(message.data() + kVersionFloats, trajectory.data(), trajectory.size() * sizeof(float));
    start(std::move(message));
  } catch (const Error& error) {
    tell(error, "send");
  }
  --credits_;
  ++trajectories_;
  return true;
}

Sentence ActorSide::sentence() const {
  Sentence sentence;
  for (const auto& [floats, times] : said_)
    sentence.push_back(
        {Verb::send_recv, floats == kVersionFloats ? "farewell" : "trajectory", floats * sizeof(float), times, 2});
  sentence.push_back({Verb::send_recv, "news", sizeof(ActorNews), news_, 2});
  sentence.push_back({Verb::send_recv, "weights", weights_.size() * sizeof(float), versions_, 2});
  sentence.push_back({Verb::send_recv, "taken", sizeof version_, versions_, 2});
  return sentence;
}

}  // namespace tutti::train
