// What a simulation remembers where somebody wants to know why it took so long: for each step that fired, which one let
// it, so that the critical path can be followed back from the end; and what the first ranks did when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/readers/simulate/simulate.h"

namespace tutti::schedule {

class History {
 public:
  using Id = std::uint64_t;
  static constexpr Id kNone = ~Id{0};
  static constexpr std::size_t kMostFired = std::size_t{1} << 22;       // the last ones are kept
  static constexpr std::size_t kMostActivities = std::size_t{1} << 20;  // the first ones are

  // Something that lets a step fire: when it was there, which step it comes from, and what went on since that fired.
  struct Token {
    Id from = kNone;
    double at = -1;
    float computing = 0, queueing = 0, sending = 0, sharing = 0, latency = 0;  // seconds
  };

  // The step fires because of the token, the last that it needed.
  Id fired(int rank, std::uint32_t lane, std::uint32_t step, std::uint32_t segment, double now, const Token& because);
  void active(const Simulated::Activity& activity);

  // The path to the step that ended last; `end` is its token.
  void tell(const Token& end, int rank, Simulated& simulated) const;

 private:
  struct Fired {
    Token because;
    double at = 0;
    int rank = 0;
    std::uint32_t lane = 0, step = 0, segment = 0;
  };

  std::vector<Fired> fired_;  // number i at i modulo the most
  Id count_ = 0;
  std::vector<Simulated::Activity> activities_;
};

}  // namespace tutti::schedule
