// When a step may fire: one rule for all that play programs, whatever they keep count of (steps, clocks, seconds).
//
// The step at the head of a lane may fire once
//   - every wait is met: the rank has entered the call, or has finished the step that the wait names, in the segment it
//     means; before the first segment a wait holds by itself;
//   - every message that the step takes has come;
//   - every message that it sends has a credit, which is a place at the receiver;
//   - and, where the program hears first and the step writes memory of a caller, a message has come from every rank
//     that sends to this one.
//
// `State` is what its player knows, for the rank and lane of the step:
//   bool entered(wait), finished(wait)   of a wait for entry, and of one for a step
//   bool has_come(source)                of a slot: a message lies in it
//   bool has_credit(destination)         of a slot
//   bool heard_all()                     a message of every rank that sends to this one
// A player that asks when, not whether, answers true for what it knows the time of, and takes the latest.
#pragma once

#include <cstdint>
#include <set>

#include "schedule/program.h"

namespace tutti::schedule {

// What a step waits for, the first in the order above.
template <class WaitOf, class OperandOf>
struct Unmet {
  enum class Kind : std::uint8_t { nothing, wait, message, credit, hearing };

  Kind kind = Kind::nothing;
  const WaitOf* wait = nullptr;        // kind wait
  const OperandOf* operand = nullptr;  // kinds message and credit

  bool may_fire() const { return kind == Kind::nothing; }
};

// For steps as programs have them, and as other forms of the same do that have is_slot() and writes_user().
template <class StepOf, class State>
auto first_unmet(const StepOf& step, std::uint64_t segment, bool hears_first, State&& state) {
  using WaitOf = typename decltype(step.waits)::value_type;
  using OperandOf = typename decltype(step.sources)::value_type;
  using Found = Unmet<WaitOf, OperandOf>;
  for (const WaitOf& wait : step.waits) {
    if (static_cast<std::int64_t>(wait.segments_back) > static_cast<std::int64_t>(segment)) continue;
    if (wait.lane == Wait::kEntryLane ? !state.entered(wait) : !state.finished(wait))
      return Found{Found::Kind::wait, &wait, nullptr};
  }
  for (const OperandOf& source : step.sources) {
    if (is_slot(source) && !state.has_come(source)) return Found{Found::Kind::message, nullptr, &source};
  }
  for (const OperandOf& destination : step.destinations) {
    if (is_slot(destination) && !state.has_credit(destination))
      return Found{Found::Kind::credit, nullptr, &destination};
  }
  if (hears_first && writes_user(step) && !state.heard_all()) return Found{Found::Kind::hearing};
  return Found{};
}

// The ranks that send to the program's: those that heard_all() is about.
inline std::set<int> senders_to(const Program& program) {
  std::set<int> senders;
  for (const Lane& lane : program.lanes) {
    for (const Step& step : lane.steps) {
      for (const Operand& source : step.sources) {
        if (is_slot(source)) senders.insert(source.rank.resolve(program.rank, program.ranks));
      }
    }
  }
  return senders;
}

}  // namespace tutti::schedule
