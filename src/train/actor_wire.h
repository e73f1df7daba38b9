// What actors and the learner say to each other, in the communicator that an actor has with the learner, who is rank 0.
//
//   actor                             learner
//                                     news (version, credits, whether weights follow, whether to stop) [weights]
//   taken: the version whose weights have come
//   trajectory: its version, then its floats
//   ...
//   farewell, a trajectory of version -1, once it has heard that it is to stop
//
// A credit is the right to send a trajectory: `queue` to begin with, and one for every one that was taken.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/train/actor_learner.h"

namespace tutti::train {

struct ActorNews {
  std::array<std::int64_t, 4> words{};

  std::int64_t& version() { return words[0]; }
  std::int64_t& credits() { return words[1]; }
  std::int64_t& brings_weights() { return words[2]; }
  std::int64_t& stops() { return words[3]; }
};

inline constexpr int kTrajectoryTag = 0, kNewsTag = 1, kWeightsTag = 2, kTakenTag = 3;
inline constexpr int kLearnerRank = 0, kActorRank = 1;
inline constexpr std::int64_t kFarewell = -1;

// Ahead of a trajectory's floats, in the place of so many.
inline constexpr std::size_t kVersionFloats = sizeof(std::int64_t) / sizeof(float);

inline void put_version(std::span<float> message, std::int64_t version) {
  std::memcpy(message.data(), &version, sizeof version);
}
inline std::int64_t version_in(std::span<const float> message) {
  std::int64_t version = 0;
  std::memcpy(&version, message.data(), sizeof version);
  return version;
}

// Who met, and the communicators of this rank: the learner's by actor, or an actor's one.
struct ActorMeeting {
  ActorOptions options;
  std::vector<int> actors = {};  // ranks
  std::vector<Communicator> groups = {};
};
// Collective. `learns`: whether this rank has made a Learner.
ActorMeeting meet(Communicator& communicator, std::size_t weights, const ActorOptions& options, bool learns);

}  // namespace tutti::train
