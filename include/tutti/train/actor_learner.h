// Actors and a learner: actors try out a policy and send what came of it, the learner improves the policy and sends it
// back, and neither waits for the other.
//
//   if (comm.rank() == 0) {
//     train::Learner learner(comm, weights, {.most_floats = 4096, .queue = 2});
//     while (...) {
//       const train::Trajectory trajectory = learner.take();    // of any actor
//       ... learn from trajectory.data, made with trajectory.version, learner.version() - that behind
//       learner.publish(weights);                               // the next version, for whoever is ready to take it
//     }
//     learner.stop();
//   } else {
//     train::Actor actor(comm, weights.size(), {.most_floats = 4096, .queue = 2});
//     while (actor.running()) {
//       std::span<const float> policy = actor.weights();         // the newest that has come
//       ... try it out
//       actor.send(trajectory);                                  // waits while `queue` of them are not taken yet
//     }
//   }
//
// Queues are bounded: an actor has sent `queue` trajectories at most that the learner has not taken, so that a slow
// learner slows actors down instead of filling memory. Weights never hold the learner up: an actor that has not taken a
// version yet is passed over, and gets the newest one later. So trajectories lag: they are of older weights than the
// learner has. lag() tells by how many versions, and v_trace() corrects for it.
//
// Every actor has a communicator of its own with the learner. One that dies, or owes a trajectory and says nothing for
// `patience`, is named in lost(), and the learner goes on with the others. If the learner dies, actors throw
// Error(peer_lost).
//
// Threads: one thread at a time. The learner takes part in take(), publish() and stop() alone; messages move meanwhile.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/report.h"

namespace tutti::train {

class LearnerSide;
class ActorSide;

// All ranks alike.
struct ActorOptions {
  int learner = 0;                        // its rank; all others are actors
  std::size_t most_floats = 0;            // of a trajectory
  std::size_t queue = 2;                  // trajectories of an actor that are not taken yet, at most
  std::chrono::milliseconds patience{0};  // without it the communicator's timeout
};

struct Trajectory {
  int actor = -1;                    // its rank
  std::int64_t version = 0;          // of the weights that it was made with
  std::span<const float> data = {};  // until the next call of take()
};

// An actor that is there no more, though nobody has stopped it. code: peer_lost, it died or
// left; timeout, it said nothing; peer_failed, all else.
struct LostActor {
  int rank = -1;
  std::uint64_t trajectories = 0;  // that were taken of it
  ErrorCode code = ErrorCode::peer_lost;
  std::string why;
};

// Versions between the weights that a trajectory was made with and those of the learner when it took it.
struct PolicyLag {
  std::uint64_t trajectories = 0;
  double mean = 0;
  std::int64_t most = 0;
};

class TUTTI_API Learner {
 public:
  // Collective, with the actors' constructors. The weights are version 0.
  Learner(Communicator& communicator, std::span<const float> weights, const ActorOptions& options);
  Learner(Learner&&) noexcept;
  Learner& operator=(Learner&&) noexcept;
  ~Learner();  // where it has not stopped, actors throw

  // Waits for the next trajectory; of several actors each has its turn. Error(peer_lost) where no actor is left.
  Trajectory take();
  // The next version: as many numbers as before. Returns its number.
  std::int64_t publish(std::span<const float> weights);
  // Tells all actors to end, and waits until they have; trajectories that are still under way are forgotten.
  void stop();

  std::int64_t version() const;
  int actors() const;  // that take part
  const std::vector<LostActor>& lost() const;
  PolicyLag lag() const;
  // Of the communicators with all actors.
  Counters counters() const;

 private:
  std::unique_ptr<LearnerSide> side_;
};

class TUTTI_API Actor {
 public:
  // Collective, with the others'. So many numbers are a version.
  Actor(Communicator& communicator, std::size_t weights, const ActorOptions& options);
  Actor(Actor&&) noexcept;
  Actor& operator=(Actor&&) noexcept;
  // Leaves once what it has sent has arrived; where that takes longer than 2 s, the learner is told that it has failed.
  ~Actor();

  // False once the learner has stopped.
  bool running();
  // The newest weights that have come, until the next call; waits only for the first ones.
  std::span<const float> weights();
  std::int64_t version() const;  // of the weights that weights() returned last
  // Sends what was made with those, under their version. Waits while `queue` of this actor's trajectories are not
  // taken. False where the learner has stopped, and the trajectory is forgotten.
  bool send(std::span<const float> trajectory);

  std::uint64_t trajectories() const;  // sent
  std::uint64_t versions() const;      // taken
  // What this actor has said so far, by formula; and what it has really called.
  Sentence sentence() const;
  Counters counters() const;

 private:
  std::unique_ptr<ActorSide> side_;
};

// ---- V-trace (Espeholt et al., IMPALA): targets for values and advantages for a policy, of a trajectory that another
// policy has made.

struct VTraceOptions {
  double most_rho = 1, most_c = 1;  // where importance weights are cut: of the targets, of what is carried on
};

// Of a trajectory of n steps; all but `bootstrap` have n numbers.
struct VTraceInput {
  std::span<const float> log_ratios;  // of an action: log of its probability now, less that when it was chosen
  std::span<const float> rewards;
  std::span<const float> discounts;  // 0 where an episode ends with the step
  std::span<const float> values;     // of the states, by the learner
  float bootstrap = 0;               // the value of the state behind the last step
};

// `targets` and `advantages` have n numbers. Computed in float64. Error(invalid_argument) where lengths differ.
TUTTI_API void v_trace(const VTraceInput& input, std::span<float> targets, std::span<float> advantages,
                       const VTraceOptions& options = {});

}  // namespace tutti::train
