#include "engine/execute/plan.h"

#include <algorithm>
#include <span>

#include "schedule/verbs.h"
#include "tutti/error.h"

namespace tutti::engine {

using schedule::Operand;

Plan::Plan(schedule::Lowered lowered_program, transport::Transport& transport, PlanChannel channel,
           const std::vector<int>& member_ranks, int landing_plane)
    : lowered(std::move(lowered_program)), members(member_ranks), channel_(channel), landing_plane_(landing_plane) {
  const schedule::Program& program = lowered.program;
  for (std::size_t number = 0; number < program.lanes.size(); ++number) {
    lanes.push_back({.progress = progress_of(number, transport), .published = program.lanes[number].published});
  }
  for (std::size_t number = 0; number < program.lanes.size(); ++number) {
    const schedule::Lane& lane = program.lanes[number];
    lanes[number].steps_begin = static_cast<std::uint32_t>(steps.size());
    for (std::size_t step = 0; step < lane.steps.size(); ++step) compile_step(lane, step, transport);
    lanes[number].steps_end = static_cast<std::uint32_t>(steps.size());
  }
  if (single_copy && most_pieces > transport::kMostExposedPieces) {
    throw Error(ErrorCode::unsupported, "'" + program.algorithm + "' sends messages that lie in too many places");
  }
}

// Where a lane shows how far it is: in its flags to all ranks, else to the others of this rank, if they wait for it.
std::atomic<std::uint64_t>* Plan::progress_of(std::size_t number, transport::Transport& transport) {
  const schedule::Program& program = lowered.program;
  const schedule::Lane& lane = program.lanes[number];
  const auto names_it = [&](const schedule::Wait& wait) {
    return wait.lane == static_cast<int>(number) && wait.rank.resolve(program.rank, program.ranks) == program.rank;
  };
  const auto waits_for_it = [&](const schedule::Step& step) { return std::ranges::any_of(step.waits, names_it); };
  const bool awaited = std::ranges::any_of(
      program.lanes, [&](const auto& other) { return std::ranges::any_of(other.steps, waits_for_it); });
  if (!lane.published && !awaited) return nullptr;
  if (lane.steps.size() >> kStepBits != 0)
    throw Error(ErrorCode::unsupported, "a lane that others wait for has too many steps for its flags");
  if (!lane.published) return &own_progress.emplace_back(0);
  if (number >= schedule::kPublishedLanes)
    throw Error(ErrorCode::unsupported, "a program publishes at most its first three lanes");
  uses_flags = true;
  return &transport.flags(channel_.first, transport.rank())->lanes[number];
}

void Plan::compile_step(const schedule::Lane& lane, std::size_t number, transport::Transport& transport) {
  const schedule::Program& program = lowered.program;
  const schedule::Step& step = lane.steps[number];
  PlanStep compiled;
  compiled.op = step.op;
  compiled.last = step.last;
  compiled.waits_begin = static_cast<std::uint32_t>(waits.size());
  for (const schedule::Wait& wait : step.waits) {
    const int rank = members[static_cast<std::size_t>(wait.rank.resolve(program.rank, program.ranks))];
    const std::atomic<std::uint64_t>* word = nullptr;
    if (wait.lane != schedule::Wait::kEntryLane) {
      lanes_wait = true;
      word = rank == transport.rank() ? lanes[static_cast<std::size_t>(wait.lane)].progress
                                      : &transport.flags(channel_.first, rank)->lanes[wait.lane];
    }
    waits.push_back(
        {word, static_cast<std::uint32_t>(wait.step), static_cast<std::uint32_t>(wait.segments_back), rank});
  }
  compiled.waits_end = static_cast<std::uint32_t>(waits.size());
  compiled.operands_begin = static_cast<std::uint32_t>(operands.size());
  for (const Operand& operand : step.destinations) operands.push_back(compile_operand(operand, false, transport));
  compiled.sources_begin = static_cast<std::uint32_t>(operands.size());
  for (const Operand& operand : step.sources) operands.push_back(compile_operand(operand, true, transport));
  compiled.operands_end = static_cast<std::uint32_t>(operands.size());
  most_operands = std::max(most_operands, compiled.operands_end - compiled.operands_begin);
  compile_runs(lane, number, compiled);
  compiled.stream = std::any_of(operands.begin() + compiled.operands_begin, operands.end(),
                                [](const PlanOperand& operand) { return operand.stream; });
  compiled.writes_output = std::any_of(step.destinations.begin(), step.destinations.end(), [](const Operand& operand) {
    return operand.kind == Operand::Kind::own && operand.buffer == schedule::Buffer::output;
  });
  compiled.reaches_peers = std::any_of(operands.begin() + compiled.operands_begin, operands.end(),
                                       [](const PlanOperand& operand) { return operand.is_peers_buffer(); });
  compiled.fills_outputs = !step.destinations.empty() &&
                           std::all_of(step.destinations.begin(), step.destinations.end(), [](const Operand& o) {
                             return o.kind != Operand::Kind::slot && o.buffer == schedule::Buffer::output;
                           });
  const Operand source = step.sources.empty() ? Operand{} : step.sources.front();
  compiled.keeps_input = step.op == schedule::StepOp::copy && source.kind == Operand::Kind::own &&
                         source.buffer == schedule::Buffer::input && compiled.uniform;
  if (compiled.stream && operands[compiled.sources_begin].receiver != nullptr &&
      compiled.sources_begin - compiled.operands_begin != 1) {
    throw Error(ErrorCode::unsupported, "'" + program.algorithm + "' lets a message land in two places at once");
  }
  std::uint32_t pieces = 0;  // runs of a vector; chunks may lie apart
  const bool chunks = schedule::facts_of(program.verb).cut == schedule::Cut::chunks;
  for (std::uint32_t r = compiled.runs_begin; r < compiled.runs_end; ++r) pieces += chunks ? runs[r].blocks : 1;
  most_pieces = std::max(most_pieces, pieces);
  steps.push_back(compiled);
}

PlanOperand Plan::compile_operand(const Operand& operand, bool source, transport::Transport& transport) {
  const schedule::Program& program = lowered.program;
  PlanOperand compiled;
  compiled.kind = operand.kind;
  compiled.buffer = operand.buffer;
  compiled.plane = operand.plane;
  const int rank =
      operand.kind == Operand::Kind::own ? program.rank : operand.rank.resolve(program.rank, program.ranks);
  compiled.rank = members[static_cast<std::size_t>(rank)];
  compiled.alone = operand.kind != Operand::Kind::slot &&
                   schedule::holding_of(program, operand.buffer, rank) == schedule::Holding::own;
  if (operand.kind == Operand::Kind::slot) {
    compiled.channel = static_cast<std::uint8_t>(operand.channel);
    const EdgeOffers& edge = lowered.offers.of(program.rank, rank);
    compiled.stream = !edge.operands_in_slots;
    compiled.single_copy = is_single_copy(edge);
    single_copy = single_copy || compiled.single_copy;
    if (source) {
      compiled.receiver = &transport.receiver(channel_.of_slot(operand), compiled.rank);
      const auto known = std::find(receivers.begin(), receivers.end(), compiled.receiver);
      compiled.receiver_number = static_cast<std::uint32_t>(known - receivers.begin());
      if (known == receivers.end()) {
        receivers.push_back(compiled.receiver);
        receiver_ranks.push_back(compiled.rank);
        receiver_steps.push_back(static_cast<std::uint32_t>(steps.size()));
      }
    } else {
      compiled.sender = &transport.sender(channel_.of_slot(operand), compiled.rank);
      if (compiled.stream && std::find(senders.begin(), senders.end(), compiled.sender) == senders.end()) {
        senders.push_back(compiled.sender);
        sender_ranks.push_back(compiled.rank);
      }
    }
  } else if (operand.buffer == schedule::Buffer::scratch) {
    compiled.scratch = transport.scratch(channel_.first, compiled.rank);
    uses_scratch = true;
  }
  return compiled;
}

// Of a step that sends or receives, those at the other ends of its messages alone.
void Plan::find_peers() const {
  if (!step_peers.empty()) return;
  const auto peers_of = [&](std::uint32_t begin, std::uint32_t end, std::uint8_t flag, int channel, StepPeers& peers) {
    const auto listed = std::span(operands).subspan(begin, end - begin);
    const int self = members[static_cast<std::size_t>(lowered.program.rank)];
    const bool messages =
        std::ranges::any_of(listed, [](const PlanOperand& it) { return it.kind == Operand::Kind::slot; });
    trace::RankSet ranks;
    for (const PlanOperand& operand : listed) {
      const bool slot = operand.kind == Operand::Kind::slot;
      if (operand.rank == self || slot != messages) continue;
      ranks.add(operand.rank);
      if (slot) peers.flags = static_cast<std::uint8_t>(peers.flags | flag | (operand.channel & 7) << channel);
    }
    return ranks;
  };
  using trace::TraceEvent;
  for (const PlanStep& step : steps) {
    StepPeers& peers = step_peers.emplace_back();
    peers.to = peers_of(step.operands_begin, step.sources_begin, TraceEvent::kGives, TraceEvent::kGivesChannel, peers);
    peers.from = peers_of(step.sources_begin, step.operands_end, TraceEvent::kTakes, TraceEvent::kTakesChannel, peers);
    for (std::uint32_t i = step.waits_begin; peers.from.empty() && i < step.waits_end; ++i) {
      if (step.op == schedule::StepOp::wait && waits[i].rank != members[static_cast<std::size_t>(lowered.program.rank)])
        peers.from.add(waits[i].rank);
    }
  }
}

// The operand whose blocks say how much a step moves. Chunks that land take the next free blocks of scratch, whose
// numbers say nothing of their size where chunks differ: that is said by the step that reduces what has landed, or that
// made what leaves from there.
const Operand* Plan::sizing_operand(const schedule::Lane& lane, std::size_t number) const {
  const bool chunks = schedule::facts_of(lowered.program.verb).cut == schedule::Cut::chunks;
  const auto landing = [&](const Operand& operand) {
    return chunks && operand.buffer == schedule::Buffer::scratch && operand.plane >= landing_plane_;
  };
  const auto numbered = [&](const schedule::Step& step) -> const Operand* {
    const Operand* found = schedule::sized_operand(step);
    if (found == nullptr || !landing(*found)) return found;
    for (const auto* named : {&step.destinations, &step.sources}) {
      for (const Operand& operand : *named) {
        if (!is_slot(operand) && !landing(operand)) return &operand;
      }
    }
    return nullptr;
  };
  const schedule::Step& step = lane.steps[number];
  if (const Operand* own = numbered(step)) return own;
  const Operand* place = schedule::sized_operand(step);
  const auto names_place = [&](const Operand& operand) {
    return !is_slot(operand) && operand.buffer == place->buffer && operand.plane == place->plane &&
           operand.blocks == place->blocks;
  };
  const bool lands = !step.destinations.empty() && place == &step.destinations.front();
  for (std::size_t s = number; lands ? ++s < lane.steps.size() : s-- > 0;) {
    const schedule::Step& other = lane.steps[s];
    const auto& named = lands ? other.sources : other.destinations;
    if (std::any_of(named.begin(), named.end(), names_place)) {
      if (const Operand* found = numbered(other)) return found;
    }
  }
  return place;
}

// Cuts the block sets of a step into runs of blocks that are neighbours in every operand, so that one kernel call
// covers as much as possible.
void Plan::compile_runs(const schedule::Lane& lane, std::size_t number, PlanStep& compiled) {
  const schedule::Program& program = lowered.program;
  const schedule::Step& step = lane.steps[number];
  std::vector<const Operand*> named;
  for (const Operand& operand : step.destinations) named.push_back(&operand);
  for (const Operand& operand : step.sources) named.push_back(&operand);
  const Operand* sized = sizing_operand(lane, number);
  const int count = sized == nullptr ? 0 : sized->blocks.count;
  const auto block_at = [&](const Operand& operand, int i) {
    return operand.blocks.at(i, program.rank, program.blocks);
  };
  compiled.has_slots = std::any_of(named.begin(), named.end(), [](const Operand* o) { return is_slot(*o); });
  if (sized != nullptr) compiled.sized = sized->buffer;
  compiled.runs_begin = static_cast<std::uint32_t>(runs.size());
  for (int i = 0; i < count;) {
    int length = 1;
    const auto continues = [&](const Operand* operand) {
      return is_slot(*operand) || block_at(*operand, i + length) == block_at(*operand, i) + length;
    };
    while (i + length < count && continues(sized) && std::all_of(named.begin(), named.end(), continues)) ++length;
    runs.push_back({static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(run_firsts.size()),
                    static_cast<std::uint32_t>(block_at(*sized, i))});
    for (const Operand* operand : named) {
      const Operand& like = is_slot(*operand) ? *sized : *operand;  // a slot has no blocks of its own
      if (block_at(like, i) != block_at(*sized, i)) compiled.uniform = false;
      run_firsts.push_back(static_cast<std::uint32_t>(block_at(like, i)));
    }
    i += length;
  }
  compiled.runs_end = static_cast<std::uint32_t>(runs.size());
}

}  // namespace tutti::engine
