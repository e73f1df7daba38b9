#include "strategy/units.h"

#include <string>

#include "tutti/error.h"

namespace tutti::strategy {

// Looks at what is held alone: a model has many more units.
bool UnitWindow::make_room(std::vector<UnitMove>& moves) {
  if (held_.size() < limit_) return true;
  auto oldest = held_.end();
  for (auto unit = held_.begin(); unit != held_.end(); ++unit) {
    if (units_[*unit].uses > 0) continue;
    if (oldest == held_.end() || age_of(*unit) < age_of(*oldest)) oldest = unit;
  }
  if (oldest == held_.end()) return false;
  units_[*oldest].held = false;
  moves.push_back({UnitMove::Kind::drop, *oldest});
  held_.erase(oldest);
  return true;
}

void UnitWindow::gather(std::size_t unit, std::vector<UnitMove>& moves) {
  units_[unit].held = true;
  held_.push_back(unit);
  moves.push_back({UnitMove::Kind::gather, unit});
}

std::vector<UnitMove> UnitWindow::use(std::size_t unit) {
  std::vector<UnitMove> moves;
  if (!units_[unit].held) {
    if (!make_room(moves)) {
      throw Error(ErrorCode::invalid_argument,
                  "gather(" + std::to_string(unit) + "): " + std::to_string(limit_) +
                      " units are in use, as many as gathered_units allows; release() one first, or allow more");
    }
    gather(unit, moves);
  }
  ++units_[unit].uses;
  units_[unit].last_used = ++clock_;
  const std::size_t turn = seen_.size();
  seen_.push_back(unit);
  events_.push_back({unit, true});
  if (turn + 1 >= expected_.size() || expected_[turn] != unit) return moves;
  const std::size_t next = expected_[turn + 1];
  if (!units_[next].held && make_room(moves)) gather(next, moves);
  units_[next].last_used = clock_;  // not to be dropped before it was used
  return moves;
}

void UnitWindow::done(std::size_t unit) {
  if (units_[unit].uses == 0) {
    throw Error(ErrorCode::invalid_argument,
                "release(" + std::to_string(unit) + "): the unit is not in use; every release() has its gather()");
  }
  --units_[unit].uses;
  events_.push_back({unit, false});
}

void UnitWindow::begin_pass() {
  seen_.clear();
  events_.clear();
}

void UnitWindow::forget() {
  for (State& unit : units_) unit = {};
  held_.clear();
  clock_ = 0;
}

void UnitWindow::end_step() {
  forget();
  expected_ = std::move(seen_);
  seen_.clear();
  events_.clear();
}

std::vector<std::size_t> gathers_of(std::span<const UnitEvent> events, std::size_t units, std::size_t limit) {
  UnitWindow window(units, limit);
  std::vector<std::size_t> gathers(units);
  for (const bool counted : {false, true}) {
    for (const UnitEvent& event : events) {
      if (!event.used) {
        window.done(event.unit);
        continue;
      }
      for (const UnitMove& move : window.use(event.unit))
        if (counted && move.kind == UnitMove::Kind::gather) ++gathers[move.unit];
    }
    window.end_step();
  }
  return gathers;
}

}  // namespace tutti::strategy
