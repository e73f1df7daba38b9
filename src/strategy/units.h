// Which units of parameters a rank holds whole, and when: stage 3 of ZeRO, as pure data.
//
// A unit is gathered before it is used, stays while there is room, and makes room for others, the one that was used
// longest ago first. While one is used, the next of the order that the last step had is gathered ahead. All of that
// follows from the order of use alone, so that all ranks gather alike. With n units and room for k, a forward pass over
// all of them and a backward pass in reverse gather 2n - k times: the last k are still there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tutti::strategy {

// In the order in which they are to be made.
struct UnitMove {
  enum class Kind : unsigned char { drop, gather };
  Kind kind = Kind::gather;
  std::size_t unit = 0;

  bool operator==(const UnitMove&) const = default;
};

struct UnitEvent {
  std::size_t unit = 0;
  bool used = true;  // false: done with
};

class UnitWindow {
 public:
  UnitWindow(std::size_t units, std::size_t limit) : units_(units), limit_(limit) {}

  // What makes the unit whole, and then what goes ahead. Throws Error(invalid_argument) where the limit of units are
  // in use.
  std::vector<UnitMove> use(std::size_t unit);
  // Throws Error(invalid_argument) where it is not in use.
  void done(std::size_t unit);
  // What comes now is the pass that the next steps shall be like; what was used before was something else.
  void begin_pass();
  // Nothing is held any more; what was used stays. The units must not be in use.
  void forget();
  // Nothing is held any more, and what was used since the pass began is the order of the next step. The units must not
  // be in use.
  void end_step();

  bool in_use(std::size_t unit) const { return units_[unit].uses > 0; }
  bool holds(std::size_t unit) const { return units_[unit].held; }
  // Since the last end_step() or begin_pass().
  std::span<const UnitEvent> events() const { return events_; }

 private:
  struct State {
    bool held = false;
    int uses = 0;
    std::uint64_t last_used = 0;
  };
  // Makes room for one more; false where all that are held are in use.
  bool make_room(std::vector<UnitMove>& moves);
  void gather(std::size_t unit, std::vector<UnitMove>& moves);
  // Of two that were used at once the first comes first.
  std::pair<std::uint64_t, std::size_t> age_of(std::size_t unit) const { return {units_[unit].last_used, unit}; }

  std::vector<State> units_;
  std::size_t limit_;
  std::vector<std::size_t> held_;
  std::uint64_t clock_ = 0;
  std::vector<std::size_t> expected_, seen_;  // orders of use: of the last step, of this one
  std::vector<UnitEvent> events_;
};

// How often each unit is gathered in a step of these events that follows one of the same.
std::vector<std::size_t> gathers_of(std::span<const UnitEvent> events, std::size_t units, std::size_t limit);

}  // namespace tutti::strategy
