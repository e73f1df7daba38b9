// What a simulation remembers where somebody wants to know why it took so long: for each step that fired, which one let
// it, so that the critical path can be followed back from the end; and what the first ranks did when.
//
// What lets a step fire is a token: the end of the step before it in its lane or in one that it waits for, a message, a
// credit. The one that came last did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/readers/simulate/scene.h"
#include "schedule/readers/simulate/simulate.h"

namespace tutti::schedule {

class History {
 public:
  static constexpr std::size_t kMostFired = std::size_t{1} << 21;       // the last ones are kept
  static constexpr std::size_t kMostHops = std::size_t{1} << 16;        // the last ones are told one by one
  static constexpr std::size_t kMostActivities = std::size_t{1} << 20;  // the first ones are

  // Both must outlive it.
  History(const Scene& scene, const RankTraits& traits);

  // What a step of a lane does, in this order; ranks are those of the scene.
  void fired(std::uint32_t rank, std::size_t lane, const SceneStep& step, std::uint32_t number, std::uint64_t segment,
             double now);
  void computes_from(std::uint32_t rank, std::size_t lane, double begin) { at(rank, lane).computing_since = begin; }
  void computed(std::uint32_t rank, std::size_t lane, double now);
  // `ideal_s`: how long it would take alone.
  void sends(std::uint32_t rank, std::size_t lane, double ideal_s) { at(rank, lane).ideal_s += ideal_s; }
  void sent(std::uint32_t rank, std::size_t lane, std::uint32_t edge, double bytes, double began, double now);
  void finished(std::uint32_t rank, std::size_t lane, const SceneStep& step, double now);

  // The path to the step that ended last, and the activities.
  void tell(Simulated& simulated) const;

 private:
  using Id = std::uint64_t;
  static constexpr Id kNone = ~Id{0};

  // When it was there, which step it comes from, and what went on since that fired, in seconds.
  struct Token {
    Id from = kNone;
    double at = -1;
    float computing = 0, queueing = 0, sending = 0, sharing = 0, latency = 0;
  };
  struct Fired {
    Token because;
    double at = 0;
    int rank = 0;
    std::uint32_t lane = 0, step = 0, segment = 0;
  };
  // The step at hand of a lane, and the end of the one before.
  struct Hand {
    Id step = kNone;
    double fired = 0, computing_since = 0, computed = 0;
    double ideal_s = 0;  // that its messages so far would have taken alone
    Token finished;
  };

  Hand& at(std::uint32_t rank, std::size_t lane) { return hands_[first_hand_[rank] + lane]; }
  void active(const Hand& hand, Simulated::Activity activity);

  const Scene& scene_;
  const RankTraits& traits_;
  std::vector<Fired> fired_;  // number i at i modulo the most
  Id count_ = 0;
  std::vector<std::size_t> first_hand_;        // by rank
  std::vector<Hand> hands_;                    // by rank and lane
  std::vector<std::vector<Token>> under_way_;  // by edge: messages that were not taken, the oldest first
  struct Credit {
    Token last;                         // that came back
    std::uint32_t sent = 0, freed = 0;  // messages
    bool heard = false;                 // one has been sent to its end
  };
  std::vector<Credit> credits_;  // by edge
  std::vector<Token> heard_;     // by rank: the last first message of anybody
  Token last_end_;
  int last_rank_ = 0;
  std::vector<Simulated::Activity> activities_;
};

}  // namespace tutti::schedule
