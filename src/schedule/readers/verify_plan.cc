#include "schedule/readers/verify_plan.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "schedule/readers/verify_shape.h"

namespace tutti::schedule::verification {
namespace {

constexpr auto kRace = Problem::Kind::race;

struct PlaceInPlan {
  int rank;
  const Lane* lane;
  std::size_t step;

  friend std::ostream& operator<<(std::ostream& out, const PlaceInPlan& place) {
    return out << "rank " << place.rank << ", lane '" << place.lane->name << "', step " << place.step << ": ";
  }
};

class Planner {
 public:
  Planner(VerifyPlan plan, Problems& problems) : plan_(std::move(plan)), problems_(problems) {}

  VerifyPlan run() {
    plan_.first_lane.push_back(0);
    for (const Lowered& lowered : plan_.programs) {
      plan_.first_lane.push_back(plan_.first_lane.back() + static_cast<int>(lowered.program.lanes.size()));
    }
    plan_.awaited.resize(static_cast<std::size_t>(plan_.first_lane.back()));
    for (const Lowered& lowered : plan_.programs) plan_program(lowered);
    return std::move(plan_);
  }

 private:
  void plan_program(const Lowered& lowered) {
    const Program& program = lowered.program;
    for (std::size_t i = 0; i < program.lanes.size(); ++i) {
      const Lane& lane = program.lanes[i];
      PlannedLane planned{program.rank, static_cast<int>(i), &lane, {}};
      lane_ = plan_.first_lane[static_cast<std::size_t>(program.rank)] + planned.number;
      for (std::size_t step = 0; step < lane.steps.size(); ++step) {
        planned.steps.push_back(plan_step(lowered, lane.steps[step], {program.rank, &lane, step}));
      }
      plan_.lanes.push_back(std::move(planned));
    }
  }

  PlannedStep plan_step(const Lowered& lowered, const Step& step, const PlaceInPlan& place) {
    PlannedStep planned{step.op, step.last, {}, {}, {}, {}};
    planned.writes_user = writes_user(step);
    check_arity(step, place);
    check_streams(step, place);
    for (const Operand& operand : step.destinations) {
      if (auto resolved = resolve(lowered, operand, place, true)) planned.destinations.push_back(std::move(*resolved));
    }
    for (const Operand& operand : step.sources) {
      if (auto resolved = resolve(lowered, operand, place, false)) planned.sources.push_back(std::move(*resolved));
    }
    for (const Wait& wait : step.waits) plan_wait(planned, wait, place);
    const bool whole =
        planned.destinations.size() == step.destinations.size() && planned.sources.size() == step.sources.size();
    if (whole && step.op != StepOp::wait) {
      check_sizes(planned, place);
      check_slots_differ(planned.destinations, place);
      check_slots_differ(planned.sources, place);
      check_overlap(planned, place);
    }
    return planned;
  }

  void check_arity(const Step& step, const PlaceInPlan& place) {
    const std::size_t sources = step.sources.size();
    const bool moves = step.op != StepOp::wait;
    if (!moves && (sources != 0 || !step.destinations.empty())) problems_.add(kMalformed, place, "a wait has operands");
    if (moves && step.destinations.empty()) problems_.add(kMalformed, place, "no destination");
    if (step.op == StepOp::copy && sources != 1) problems_.add(kMalformed, place, "a copy from ", sources, " sources");
    if (step.op == StepOp::reduce && sources < 2)
      problems_.add(kMalformed, place, "a reduction of ", sources, " sources");
    if (step.op != StepOp::reduce && step.last)
      problems_.add(kMalformed, place, "only a reduction can be the last one");
  }

  // Where messages are byte streams they are no operands of anything but a copy, and leave from memory.
  void check_streams(const Step& step, const PlaceInPlan& place) {
    const auto slot = [](const Operand& operand) { return schedule::is_slot(operand); };
    const auto stream = [&](const Operand& operand) {
      const int peer = operand.rank.resolve(place.rank, plan_.ranks);
      return slot(operand) && !plan_.offers(place.rank, peer).operands_in_slots;
    };
    const auto any = [](const std::vector<Operand>& operands, const auto& which) {
      return std::any_of(operands.begin(), operands.end(), which);
    };
    const bool lands = any(step.sources, stream), leaves = any(step.destinations, stream);
    if (step.op == StepOp::reduce && (lands || leaves))
      problems_.add(kMalformed, place, "a message is an operand of a reduction, which the transport does not offer");
    if ((lands && any(step.destinations, slot)) || (leaves && any(step.sources, slot)))
      problems_.add(kMalformed, place, "forwards a message without landing it, which the transport does not offer");
  }

  std::optional<PlannedOperand> resolve(const Lowered& lowered, const Operand& operand, const PlaceInPlan& place,
                                        bool destination) {
    const Program& program = lowered.program;
    const bool own = operand.kind == Operand::Kind::own;
    PlannedOperand planned{operand.kind,
                           own ? program.rank : operand.rank.resolve(program.rank, plan_.ranks),
                           operand.buffer,
                           operand.plane,
                           {},
                           -1};
    if (planned.rank < 0 || planned.rank >= plan_.ranks) {
      problems_.add(kMalformed, place, "names rank ", planned.rank, " of ", plan_.ranks);
      return std::nullopt;
    }
    if (operand.kind == Operand::Kind::slot) {
      if (!resolve_slot(planned, operand.channel, place, destination)) return std::nullopt;
      return planned;
    }
    const bool scratch = operand.buffer == Buffer::scratch;
    const EdgeOffers& edge = plan_.offers(program.rank, planned.rank);
    if (!own && !(scratch ? edge.windows_to_scratch : edge.windows_to_user)) {
      problems_.add(kMalformed, place, "a window onto ", name_of(operand.buffer), " of rank ", planned.rank,
                    ", which the transport does not offer");
      return std::nullopt;
    }
    plan_.user_windows = plan_.user_windows || (!own && !scratch);
    const int planes = scratch ? plan_.programs[static_cast<std::size_t>(planned.rank)].program.scratch_planes : 1;
    if (operand.plane >= planes) {
      problems_.add(kMalformed, place, "plane ", planned.plane, " of ", name_of(operand.buffer), " of rank ",
                    planned.rank, ", which has ", planes);
      return std::nullopt;
    }
    if (!resolve_blocks(planned, operand.blocks, program, place, destination)) return std::nullopt;
    return planned;
  }

  bool resolve_blocks(PlannedOperand& planned, const BlockSet& set, const Program& program, const PlaceInPlan& place,
                      bool destination) {
    const std::int64_t blocks = program.blocks;
    const std::int64_t first = set.list.empty() ? set.first.resolve(program.rank, program.blocks) : set.list.front();
    const auto outside = [&](std::int32_t block) { return block < 0 || block >= blocks; };
    if (const auto found = std::find_if(set.list.begin(), set.list.end(), outside); found != set.list.end()) {
      problems_.add(kMalformed, place, "block ", *found, " of ", blocks);
      return false;
    }
    if (!set.list.empty() && set.list.size() != static_cast<std::size_t>(set.count)) {
      problems_.add(kMalformed, place, set.count, " blocks, of a list of ", set.list.size());
      return false;
    }
    if (first < 0 || first >= blocks || set.count < 1 || set.count > blocks || set.run < 1) {
      problems_.add(kMalformed, place, set.count, " blocks from block ", first, " of ", blocks);
      return false;
    }
    std::vector<bool> seen(static_cast<std::size_t>(blocks));
    for (std::int32_t i = 0; i < set.count; ++i) {
      const auto block = static_cast<std::size_t>(set.at(i, program.rank, program.blocks));
      if (!holds_block(program, planned.buffer, planned.rank, static_cast<int>(block))) {
        problems_.add(kMalformed, place, "block ", block, " of ", name_of(planned.buffer), " of rank ", planned.rank,
                      ", which ", name_of(program.verb), " does not hold there");
        return false;
      }
      if (destination && seen[block]) {
        problems_.add(kMalformed, place, "writes block ", block, " twice");
        return false;
      }
      seen[block] = true;
      planned.blocks.push_back(static_cast<int>(block));
    }
    return true;
  }

  bool resolve_slot(PlannedOperand& planned, int channel, const PlaceInPlan& place, bool destination) {
    if (planned.rank == place.rank) {
      problems_.add(kMalformed, place, "a message to itself");
      return false;
    }
    if (channel >= plan_.any->channels) {
      problems_.add(kMalformed, place, "channel ", channel, " of an edge, and states ", plan_.any->channels);
      return false;
    }
    const int from = destination ? place.rank : planned.rank;
    const int to = destination ? planned.rank : place.rank;
    const auto [found, fresh] = numbers_.try_emplace({from, to, channel}, static_cast<int>(plan_.edges.size()));
    if (fresh) {
      const EdgeOffers& offers = plan_.offers(from, to);
      const std::uint32_t credits = plan_.credits != 0 ? plan_.credits : offers.credits;
      plan_.edges.push_back({from, to, credits, offers.slot_bytes, is_single_copy(offers)});
    }
    planned.edge = found->second;
    PlannedEdge& edge = plan_.edges[static_cast<std::size_t>(found->second)];
    int& user = destination ? edge.sender : edge.receiver;
    if (user != -1 && user != lane_) {
      // Two lanes would race for the order of the messages.
      problems_.add(kMalformed, place, destination ? "sends to" : "receives from", " rank ", planned.rank,
                    ", as another lane does");
    }
    user = lane_;
    return true;
  }

  void plan_wait(PlannedStep& planned, const Wait& wait, const PlaceInPlan& place) {
    const int rank = wait.rank.resolve(place.rank, plan_.ranks);
    if (rank < 0 || rank >= plan_.ranks || wait.segments_back < 0) {
      problems_.add(kMalformed, place, "waits for rank ", rank, " of ", plan_.ranks, ", ", wait.segments_back,
                    " segments back");
      return;
    }
    if (rank != place.rank && !plan_.offers(place.rank, rank).operands_in_slots) {
      problems_.add(kMalformed, place, "waits for rank ", rank, ", whose flags are not in sight");
      return;
    }
    int lane = Wait::kEntryLane;
    if (wait.lane != Wait::kEntryLane) {
      const std::vector<Lane>& lanes = plan_.programs[static_cast<std::size_t>(rank)].program.lanes;
      const auto number = static_cast<std::size_t>(wait.lane);
      const bool exists = wait.lane >= 0 && number < lanes.size() && wait.step >= 0 &&
                          static_cast<std::size_t>(wait.step) < lanes[number].steps.size();
      if (!exists || !(lanes[number].published || rank == place.rank)) {
        problems_.add(kMalformed, place, "waits for step ", wait.step, " of lane ", wait.lane, " of rank ", rank,
                      ", which publishes no such thing");
        return;
      }
      lane = plan_.first_lane[static_cast<std::size_t>(rank)] + wait.lane;
      plan_.awaited[static_cast<std::size_t>(lane)] = true;
    }
    planned.waits.push_back({rank, lane, wait.step, static_cast<std::uint64_t>(wait.segments_back)});
  }

  // Segments differ in size only if they are the last one.
  void check_sizes(PlannedStep& step, const PlaceInPlan& place) {
    for (const auto* operands : {&step.destinations, &step.sources}) {
      for (const PlannedOperand& operand : *operands) {
        if (operand.kind == Operand::Kind::slot) continue;
        if (step.blocks.empty()) step.blocks = operand.blocks;
        bool same = operand.blocks.size() == step.blocks.size();
        for (std::size_t i = 0; same && i < step.blocks.size(); ++i) {
          for (const std::uint64_t segment : {std::uint64_t{0}, plan_.layout.segments - 1}) {
            same = same && plan_.size(segment, operand.blocks[i]) == plan_.size(segment, step.blocks[i]);
          }
        }
        if (!same) problems_.add(kMalformed, place, "operands of different sizes");
      }
    }
    const auto slot = [](const PlannedOperand& operand) { return is_slot(operand); };
    if (std::any_of(step.destinations.begin(), step.destinations.end(), slot) &&
        step.blocks.size() > static_cast<std::size_t>(plan_.any->message_blocks)) {
      problems_.add(kMalformed, place, "sends ", step.blocks.size(), " blocks, and states at most ",
                    plan_.any->message_blocks);
    }
    if (step.blocks.empty()) problems_.add(kMalformed, place, "no operand names its size");
  }

  void check_slots_differ(const std::vector<PlannedOperand>& operands, const PlaceInPlan& place) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (operands[i].edge != -1 && operands[i].edge == operands[j].edge) {
          problems_.add(kMalformed, place, "two messages on one edge, rank ", operands[i].rank);
        }
      }
    }
  }

  bool same_memory(const PlannedOperand& a, const PlannedOperand& b) const {
    const auto place_of = [&](const PlannedOperand& operand) {
      const bool aliased = plan_.in_place && operand.buffer == Buffer::output;
      return std::tuple(operand.rank, aliased ? Buffer::input : operand.buffer, operand.plane);
    };
    return a.edge == -1 && b.edge == -1 && place_of(a) == place_of(b);
  }

  // A step works element by element: it may write where it reads only if that is the very same element.
  void check_overlap(const PlannedStep& step, const PlaceInPlan& place) {
    const auto crossing = [](const std::vector<int>& a, const std::vector<int>& b) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        const auto found = std::find(b.begin(), b.end(), a[i]);
        if (found != b.end() && found - b.begin() != static_cast<std::ptrdiff_t>(i)) return true;
      }
      return false;
    };
    for (std::size_t i = 0; i < step.destinations.size(); ++i) {
      const PlannedOperand& written = step.destinations[i];
      for (std::size_t j = 0; j < i; ++j) {
        const PlannedOperand& other = step.destinations[j];
        const bool shared = same_memory(written, other) &&
                            std::find_first_of(written.blocks.begin(), written.blocks.end(), other.blocks.begin(),
                                               other.blocks.end()) != written.blocks.end();
        if (shared)
          problems_.add(kRace, place, "two destinations overlap in ", name_of(written.buffer), " of rank ",
                        written.rank);
      }
      for (const PlannedOperand& read : step.sources) {
        if (same_memory(written, read) && crossing(written.blocks, read.blocks)) {
          problems_.add(kRace, place, "overwrites what it reads in ", name_of(written.buffer), " of rank ",
                        written.rank);
        }
      }
    }
  }

  VerifyPlan plan_;
  Problems& problems_;
  int lane_ = 0;                                      // the one being planned
  std::map<std::tuple<int, int, int>, int> numbers_;  // of edges
};

std::optional<VerifyPlan> plan_of(std::span<const Lowered> programs, const VerifyOptions& options, Problems& problems) {
  VerifyPlan plan;
  plan.programs = programs;
  plan.any = &programs[0].program;
  plan.ranks = plan.any->ranks;
  plan.in_place = options.in_place;
  plan.credits = options.credits;
  plan.layout = layout_of(programs[0], options);
  if (!check_bounds(programs, plan.layout, problems)) return std::nullopt;
  plan = Planner(std::move(plan), problems).run();
  if (!problems.empty()) return std::nullopt;
  return plan;
}

}  // namespace

std::optional<VerifyPlan> make_plan(std::span<const Lowered> programs, const VerifyOptions& options,
                                    Problems& problems) {
  if (!check_shape(programs, options, problems)) return std::nullopt;
  return plan_of(programs, options, problems);
}

std::optional<VerifyPlan> make_plan_of_one(const Lowered& first, const VerifyOptions& options, Problems& problems) {
  if (!check_shape_of_one(first, options, problems)) return std::nullopt;
  return plan_of({&first, 1}, options, problems);
}

}  // namespace tutti::schedule::verification
