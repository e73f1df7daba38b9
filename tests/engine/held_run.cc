#include "engine/held_run.h"

#include <algorithm>

#include "check.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/layout.h"

namespace tutti::testing {

using engine::Advance;

HeldRun::HeldRun(Lockstep& group, const ProgramCase& c, const Offers& offers, Devices devices)
    : group_(group),
      case_(c),
      devices_(std::move(devices)),
      programs_(programs_of(c, offers)),
      model_(programs_, segments()) {
  std::vector<engine::Binding> bindings;
  buffers_.reserve(programs_.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    bindings.push_back(buffers_.emplace_back(c, rank).binding());
    if (devices_.mover) bindings.back().mover = devices_.mover(rank);
  }
  group.start(programs_, c.row.generate({c.ranks, 0, c.root}).scratch_planes, bindings);
}

std::vector<schedule::Lowered> HeldRun::programs_of(const ProgramCase& c, const Offers& offers) {
  std::vector<schedule::Lowered> programs;
  for (int rank = 0; rank < c.ranks; ++rank)
    programs.push_back(schedule::lower(c.row.generate({c.ranks, rank, c.root}), offers));
  return programs;
}

std::uint64_t HeldRun::segments() const {
  const schedule::Program& program = programs_.front().program;
  const std::uint64_t count = program.verb == Verb::barrier ? 0 : case_.count;
  return schedule::Layout::of(program.verb, count, static_cast<std::uint32_t>(size_of(case_.type())),
                              static_cast<std::uint32_t>(program.blocks), programs_.front().segment_bytes)
      .segments;
}

// Some ranks come seldom, so that others run as far ahead as they may.
void HeldRun::run(std::uint64_t seed) {
  seed_ = seed;
  std::mt19937_64 random(seed);
  std::vector<int> turns;
  for (int rank = 0; rank < group_.size(); ++rank) turns.insert(turns.end(), random() % 2 == 0 ? 1 : 12, rank);
  std::vector<bool> finished(programs_.size()), idle(programs_.size());
  while (std::find(finished.begin(), finished.end(), false) != finished.end()) {
    const int rank = turns[random() % turns.size()];
    const auto self = static_cast<std::size_t>(rank);
    if (devices_.go_on && random() % 2 == 0 && devices_.go_on(rank)) {
      idle[self] = false;
      continue;
    }
    if (finished[self]) continue;
    const Advance outcome = advance(rank);
    finished[self] = outcome == Advance::finished;
    if (outcome == Advance::stuck) {
      idle[self] = true;
    } else {
      std::fill(idle.begin(), idle.end(), false);
    }
    bool all_idle = true;
    for (std::size_t i = 0; i < idle.size(); ++i) all_idle = all_idle && (finished[i] || idle[i]);
    for (int i = 0; all_idle && devices_.go_on && i < group_.size(); ++i) {
      if (devices_.go_on(i)) all_idle = idle[static_cast<std::size_t>(i)] = false;
    }
    if (all_idle && !finished[self]) fail(rank, "all ranks are stuck");
  }
  for (const CaseBuffers& buffers : buffers_) buffers.require_right();
}

Advance HeldRun::advance(int rank) {
  const auto [outcome, events] = group_.advance(rank);
  for (const trace::TraceEvent& event : events) require_allowed(rank, event);
  steps_ += events.size();
  require_published(rank);
  require_nothing_left(rank, events.size());
  if (!events.empty() && outcome == Advance::stuck) fail(rank, "it says that it is stuck, and has done a step");
  if (outcome == Advance::finished && !model_.finished(rank)) fail(rank, "it says that it has finished");
  if (outcome != Advance::finished && model_.finished(rank) && model_.all_taken(rank)) fail(rank, "it does not finish");
  return outcome;
}

void HeldRun::require_allowed(int rank, const trace::TraceEvent& event) {
  const std::string where = "step " + std::to_string(event.step()) + " of lane " + std::to_string(event.name) +
                            ", segment " + std::to_string(event.segment()) + ", was done: ";
  const bool named =
      event.communicator == Lockstep::kCommunicator && event.sequence == group_.epoch() && event.begin <= event.end;
  if (!named) fail(rank, where + "recorded as one of another call");
  if (const std::string unmet = model_.fire(rank, event); !unmet.empty()) fail(rank, where + unmet);
}

// Where messages are copied once, an advance ends after a few rounds, each of which has done something.
void HeldRun::require_nothing_left(int rank, std::size_t done) {
  const bool single_copy = is_single_copy(programs_.front().offers.inside);
  if (single_copy && done >= static_cast<std::size_t>(engine::Operation::kSingleCopyRounds)) return;
  const int lanes = static_cast<int>(model_.program(rank).lanes.size());
  for (int lane = 0; lane < lanes; ++lane) {
    if (devices_.is_busy && devices_.is_busy(rank, lane)) continue;
    if (model_.must_fire(rank, lane)) fail(rank, "the step at the head of lane " + std::to_string(lane) + " was not");
  }
  if (group_.blocked(rank).peer == rank) fail(rank, "it says that it waits for itself");
}

void HeldRun::require_published(int rank) {
  const std::uint64_t epoch = group_.epoch();
  for (std::size_t lane = 0; lane < model_.program(rank).lanes.size(); ++lane) {
    if (!model_.program(rank).lanes[lane].published) continue;
    const std::uint64_t word = group_.transport(rank).flags(0, rank)->lanes[lane].load();
    const auto [segment, steps] = model_.progress(rank, static_cast<int>(lane));
    const bool right = steps == 0 ? word >> 32 != epoch : word == engine::progress_word(epoch, segment, steps);
    if (!right) fail(rank, "lane " + std::to_string(lane) + " publishes what is not so");
  }
}

void HeldRun::fail(int rank, const std::string& what) const {
  require(false, case_.words() + ", seed " + std::to_string(seed_) + ", rank " + std::to_string(rank) + ": " + what);
  std::abort();
}

}  // namespace tutti::testing
