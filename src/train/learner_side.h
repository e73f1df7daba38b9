// Behind train::Learner: queues of trajectories, one for each actor, and news that go to whoever is ready for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "train/actor_wire.h"
#include "tutti/train/actor_learner.h"

namespace tutti::train {

class LearnerSide {
 public:
  LearnerSide(Communicator& communicator, std::span<const float> weights, const ActorOptions& options);
  ~LearnerSide();
  LearnerSide(const LearnerSide&) = delete;
  LearnerSide& operator=(const LearnerSide&) = delete;

  Trajectory take();
  std::int64_t publish(std::span<const float> weights);
  void stop();

  std::int64_t version() const { return version_; }
  int actors() const;
  const std::vector<LostActor>& lost() const { return lost_; }
  PolicyLag lag() const;
  Counters counters() const;

 private:
  struct QueuedTrajectory {
    std::vector<float> message;
    Work work = {};
  };
  // What is on its way to an actor: one piece of news at a time, until the actor says that it has taken the weights. A
  // send alone may end before: small weights would pile up in the transport.
  struct SentNews {
    ActorNews news;
    std::shared_ptr<const std::vector<float>> weights;  // of the version, however many come behind it
    std::int64_t taken_version = -1;                    // as the actor says
    Work head, body, taken;
  };
  struct ActorSession {
    int rank = -1;
    Communicator group;
    bool gone = false, told_to_stop = false;
    std::deque<QueuedTrajectory> queue;  // the first comes first; empty only where the actor has failed
    // What its communicator failed with, or a call to it: it is lost once what has come before is taken.
    std::optional<Error> failed;
    SentNews news;
    std::int64_t sent_version = -1, owed_credits = 0;
    std::uint64_t taken = 0;
  };

  void expect(ActorSession& actor, std::vector<float> message);
  // Sends what an actor does not know yet, once it has taken what was sent before.
  void tell(ActorSession& actor);
  void tell_all();
  void await();
  // The actor's next trajectory, if it has come. An actor that has failed is lost where it has not.
  std::optional<Trajectory> take_from(ActorSession& actor);
  void lose(ActorSession& actor);
  void close(ActorSession& actor);
  void hear_out(ActorSession& actor);
  // False where the actor has failed.
  template <class Part>
  bool with(ActorSession& actor, const Part& part) {
    try {
      part();
      return true;
    } catch (const Error& error) {
      if (!actor.failed) actor.failed = error;
      return false;
    }
  }

  ActorOptions options_;
  std::deque<ActorSession> sessions_;
  std::shared_ptr<const std::vector<float>> weights_;
  std::int64_t version_ = 0;
  bool stopping_ = false;
  std::size_t turn_ = 0;      // whose it is
  std::vector<float> taken_;  // what take() returned last
  std::vector<LostActor> lost_;
  PolicyLag lag_;
  double lags_ = 0;  // the sum of all
  Counters past_;    // of communicators that are closed
};

}  // namespace tutti::train
