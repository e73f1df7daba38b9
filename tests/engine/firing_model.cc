#include "engine/firing_model.h"

#include <algorithm>

#include "schedule/readers/firing.h"
#include "transport/memory/arena.h"

namespace tutti::testing {

using schedule::Lane;
using schedule::Operand;
using schedule::Step;
using schedule::Wait;

FiringModel::FiringModel(std::span<const schedule::Lowered> programs, std::uint64_t segments)
    : programs_(programs),
      segments_(segments),
      streams_(!programs.front().offers.inside.operands_in_slots),
      channels_(static_cast<std::size_t>(programs.front().program.channels)),
      edges_(programs.size() * programs.size() * channels_) {
  for (const schedule::Lowered& lowered : programs) heads_.emplace_back(lowered.program.lanes.size());
}

const Step& FiringModel::step_at(int rank, int lane) const {
  return program(rank).lanes[static_cast<std::size_t>(lane)].steps[head(rank, lane).step];
}

bool FiringModel::done(int rank, int lane) const {
  return head(rank, lane).segment == segments_ || program(rank).lanes[static_cast<std::size_t>(lane)].steps.empty();
}

bool FiringModel::finished(int rank) const {
  const int lanes = static_cast<int>(program(rank).lanes.size());
  for (int lane = 0; lane < lanes; ++lane) {
    if (!done(rank, lane)) return false;
  }
  return true;
}

bool FiringModel::all_taken(int rank) const {
  for (int to = 0; to < static_cast<int>(programs_.size()); ++to) {
    for (int channel = 0; channel < static_cast<int>(channels_); ++channel) {
      if (edge(rank, to, channel).taken != edge(rank, to, channel).sent) return false;
    }
  }
  return true;
}

FiringModel::Progress FiringModel::progress(int rank, int lane) const {
  const Head& at = head(rank, lane);
  const std::size_t steps = program(rank).lanes[static_cast<std::size_t>(lane)].steps.size();
  if (at.step == 0 && at.segment > 0) return {at.segment - 1, static_cast<std::uint32_t>(steps)};
  return {at.segment, static_cast<std::uint32_t>(at.step)};
}

// What a rank sees. All ranks have entered.
struct FiringModel::Seen {
  const FiringModel& model;
  int rank, lane;
  std::uint64_t credits;

  int peer_of(const schedule::Index& index) const { return index.resolve(rank, model.program(rank).ranks); }
  bool entered(const Wait&) const { return true; }
  bool finished(const Wait& wait) const {
    const Head& other = model.head(peer_of(wait.rank), wait.lane);
    const std::uint64_t segment = model.head(rank, lane).segment - static_cast<std::uint64_t>(wait.segments_back);
    return other.segment > segment || (other.segment == segment && other.step > static_cast<std::size_t>(wait.step));
  }
  bool has_come(const Operand& source) const {
    const Edge& edge = model.edge(peer_of(source.rank), rank, source.channel);
    return edge.sent > edge.taken;
  }
  bool has_credit(const Operand& destination) const {
    const Edge& edge = model.edge(rank, peer_of(destination.rank), destination.channel);
    return edge.early || edge.sent - edge.taken < credits;
  }
  bool heard_all() const { return model.unheard(rank) == nullptr; }
};

// A message to this rank from one of which none has come yet, or nullptr.
const Operand* FiringModel::unheard(int rank) const {
  for (const Lane& lane : program(rank).lanes) {
    for (const Step& step : lane.steps) {
      for (const Operand& source : step.sources) {
        if (!is_slot(source)) continue;
        const int from = source.rank.resolve(rank, program(rank).ranks);
        if (edge(from, rank, source.channel).sent == 0) return &source;
      }
    }
  }
  return nullptr;
}

bool FiringModel::must_fire(int rank, int lane) const {
  if (done(rank, lane)) return false;
  const std::uint64_t credits = programs_.front().offers.inside.credits;
  return first_unmet(step_at(rank, lane), head(rank, lane).segment, program(rank).hears_first,
                     Seen{*this, rank, lane, credits})
      .may_fire();
}

// Over streams: a message of a step of `from` that could fire but for the credits of those behind it.
bool FiringModel::deliver_early(int from, int to, int channel) {
  if (!streams_ || edge(from, to, channel).early) return false;
  const int lanes = static_cast<int>(program(from).lanes.size());
  for (int lane = 0; lane < lanes; ++lane) {
    if (done(from, lane)) continue;
    Step part = step_at(from, lane);
    const auto sends = [&](const Operand& operand) {
      return is_slot(operand) && operand.channel == channel && operand.rank.resolve(from, program(from).ranks) == to;
    };
    const auto message = std::find_if(part.destinations.begin(), part.destinations.end(), sends);
    if (message == part.destinations.end()) continue;
    const bool hears_first = program(from).hears_first && writes_user(part);
    part.destinations.erase(message + 1, part.destinations.end());
    const Seen seen{*this, from, lane, transport::kHeaders};
    const bool may = first_unmet(part, head(from, lane).segment, false, seen).may_fire();
    if (!may || (hears_first && !seen.heard_all())) return false;
    ++edge(from, to, channel).sent;
    edge(from, to, channel).early = true;
    ++early_messages_;
    return true;
  }
  return false;
}

// What keeps the head of the lane from firing, or nothing. Messages that have come early come to light here.
std::string FiringModel::unmet_of(int rank, int lane) {
  const Seen seen{*this, rank, lane, transport::kHeaders};
  for (;;) {
    const auto unmet = first_unmet(step_at(rank, lane), head(rank, lane).segment, program(rank).hears_first, seen);
    using Kind = decltype(unmet)::Kind;
    switch (unmet.kind) {
      case Kind::nothing: return "";
      case Kind::wait:
        return "a wait for lane " + std::to_string(unmet.wait->lane) + " of rank " +
               std::to_string(seen.peer_of(unmet.wait->rank)) + " is not met";
      case Kind::credit: return "rank " + std::to_string(seen.peer_of(unmet.operand->rank)) + " has no place";
      case Kind::message:
      case Kind::hearing: {
        const Operand& missing = unmet.kind == Kind::hearing ? *unheard(rank) : *unmet.operand;
        const int from = seen.peer_of(missing.rank);
        if (!deliver_early(from, rank, missing.channel)) return "no message has come from rank " + std::to_string(from);
      }
    }
  }
}

std::string FiringModel::fire(int rank, const trace::TraceEvent& event) {
  const auto lane = static_cast<int>(event.name);
  if (lane >= static_cast<int>(program(rank).lanes.size()) || done(rank, lane)) return "the lane is over, or none";
  const Head& at = head(rank, lane);
  if (event.segment() != at.segment || event.step() != at.step) {
    return "the lane is at step " + std::to_string(at.step) + " of segment " + std::to_string(at.segment);
  }
  std::string unmet = unmet_of(rank, lane);
  if (unmet.empty()) play(rank, lane);
  return unmet;
}

void FiringModel::play(int rank, int lane) {
  const Step& step = step_at(rank, lane);
  const auto peer_of = [&](const Operand& operand) { return operand.rank.resolve(rank, program(rank).ranks); };
  for (const Operand& source : step.sources) {
    if (is_slot(source)) ++edge(peer_of(source), rank, source.channel).taken;
  }
  for (const Operand& destination : step.destinations) {
    if (!is_slot(destination)) continue;
    Edge& to = edge(rank, peer_of(destination), destination.channel);
    if (!to.early) ++to.sent;
    to.early = false;
  }
  Head& at = heads_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)];
  if (++at.step == program(rank).lanes[static_cast<std::size_t>(lane)].steps.size()) at = {at.segment + 1, 0};
}

}  // namespace tutti::testing
