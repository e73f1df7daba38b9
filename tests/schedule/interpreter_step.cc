// The life of a step: it begins when it can, reads and writes block by block, and finishes.
#include <tuple>
#include <utility>

#include "interpreter_machine.h"

namespace tutti::schedule::interpretation {

bool Machine::begin(LaneRun& lane) {
  if (ranks_[static_cast<std::size_t>(lane.program->rank)].presence != Presence::inside) return false;
  if (lane.blocked_at == now_) return false;
  lane.blocked_at = now_;
  const Step& step = lane.current();
  for (const Wait& wait : step.waits) {
    if (!holds(lane, wait)) return false;
  }
  if (!lane.reached) reach_all(lane);
  lane.reached = true;
  if (!slots_ready(lane) || !may_write(lane)) return false;
  take_slots(lane);
  check_heard(lane);
  mark(lane, +1);
  plan_events(lane);
  lane.in_flight = true;
  return true;
}

bool Machine::holds(const LaneRun& lane, const Wait& wait) const {
  const int rank = wait.rank.resolve(lane.program->rank, lane.program->ranks);
  if (rank < 0 || rank >= lane.program->ranks) throw Fault{"waits for a rank that does not exist"};
  if (wait.lane == Wait::kEntryLane) return ranks_[static_cast<std::size_t>(rank)].presence != Presence::absent;
  const Program& peer = trial_.programs[static_cast<std::size_t>(rank)].program;
  if (wait.lane < 0 || static_cast<std::size_t>(wait.lane) >= peer.lanes.size())
    throw Fault{"waits for a lane that does not exist"};
  const Lane& named = peer.lanes[static_cast<std::size_t>(wait.lane)];
  const std::int64_t segment = static_cast<std::int64_t>(lane.segment) - wait.segments_back;
  if (segment < 0) return true;
  if (!(named.published || rank == lane.program->rank) || named.steps.empty()) return false;
  const auto steps = static_cast<std::int64_t>(named.steps.size());
  const LaneRun& run = lanes_[first_lane_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(wait.lane)];
  return static_cast<std::int64_t>(run.finished) >= segment * steps + wait.step + 1;
}

void Machine::reach_all(LaneRun& lane) {
  const Step& step = lane.current();
  lane.sizes.clear();
  lane.sources.clear();
  lane.destinations.clear();
  if (step.op == StepOp::wait) return;
  if (step.op == StepOp::copy && step.sources.size() != 1) throw Fault{"a copy of several sources"};
  if (step.sources.empty()) throw Fault{"a step from nothing"};
  for (const Operand& operand : step.sources) lane.sources.push_back(reach(lane, operand, false));
  for (const Operand& operand : step.destinations) lane.destinations.push_back(reach(lane, operand, true));
  if (lane.sizes.empty()) throw Fault{"a step without a size"};
}

Reach Machine::reach(LaneRun& lane, const Operand& operand, bool destination) {
  const Program& program = *lane.program;
  Reach reached;
  const int peer =
      operand.kind == Operand::Kind::own ? program.rank : operand.rank.resolve(program.rank, program.ranks);
  if (peer < 0 || peer >= program.ranks) throw Fault{"names a rank that does not exist"};
  if (operand.kind == Operand::Kind::slot) {
    const int from = destination ? program.rank : peer, to = destination ? peer : program.rank;
    if (from == to) throw Fault{"a message to itself"};
    reached.peer = peer;
    reached.edge = &edges_[EdgeKey{from, to, operand.channel}];
    return reached;
  }
  reached.owner = peer;
  reached.user = operand.buffer != Buffer::scratch;
  const std::vector<std::int32_t>& list = operand.blocks.list;
  if (!list.empty() && list.size() != static_cast<std::size_t>(operand.blocks.count))
    throw Fault{"names another number of blocks than it lists"};
  const int first = list.empty() ? operand.blocks.first.resolve(program.rank, program.blocks) : 0;
  if (first < 0 || first >= program.blocks || operand.blocks.count < 1 || operand.blocks.run < 1)
    throw Fault{"names a block that does not exist"};
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < operand.blocks.count; ++i) {
    const int offset = i / operand.blocks.run * operand.blocks.stride + i % operand.blocks.run;
    const int counted = ((first + offset) % program.blocks + program.blocks) % program.blocks;
    const int block = list.empty() ? counted : list[static_cast<std::size_t>(i)];
    if (block < 0 || block >= program.blocks) throw Fault{"lists a block that does not exist"};
    if (!holds_block(program, operand.buffer, peer, block)) throw Fault{"names a block that its buffer does not hold"};
    reached.places.push_back(&place(peer, operand, lane.segment, static_cast<std::size_t>(block)));
    sizes.push_back(trial_.layout.size(lane.segment, static_cast<std::size_t>(block)));
  }
  if (lane.sizes.empty()) lane.sizes = sizes;
  if (lane.sizes != sizes) throw Fault{"operands of different sizes"};
  return reached;
}

Place& Machine::place(int owner, const Operand& operand, std::uint64_t segment, std::size_t block) {
  RankState& state = ranks_[static_cast<std::size_t>(owner)];
  const std::size_t blocks = trial_.layout.blocks;
  if (operand.buffer != Buffer::scratch) return state.user[user_index(owner, operand.buffer, segment, block)];
  const Program& program = trial_.programs[static_cast<std::size_t>(owner)].program;
  if (operand.plane >= program.scratch_planes) throw Fault{"names a plane that does not exist"};
  const auto depth = static_cast<std::uint64_t>(program.scratch_depth);
  return state.scratch[(operand.plane * depth + segment % depth) * blocks + block];
}

bool Machine::slots_ready(const LaneRun& lane) const {
  std::map<EdgeState*, std::size_t> wanted;
  for (const Reach& source : lane.sources) {
    if (source.edge != nullptr && source.edge->messages.size() < ++wanted[source.edge]) return false;
  }
  wanted.clear();
  for (const Reach& destination : lane.destinations) {
    if (destination.edge == nullptr) continue;
    if (destination.edge->in_use + ++wanted[destination.edge] > credits(lane.program->rank, destination.peer))
      return false;
  }
  return true;
}

// A program that hears first holds its writes back until every sender's first message is here, taken or not.
bool Machine::may_write(const LaneRun& lane) const {
  if (!lane.program->hears_first) return true;
  bool writes = false;
  for (const Reach& destination : lane.destinations) writes = writes || destination.user;
  if (!writes) return true;
  for (const int sender : ranks_[static_cast<std::size_t>(lane.program->rank)].unheard) {
    bool here = false;
    for (const auto& [key, edge] : edges_) {
      const auto& [from, to, channel] = key;
      here = here || (from == sender && to == lane.program->rank && !edge.messages.empty());
    }
    if (!here) return false;
  }
  return true;
}

void Machine::take_slots(LaneRun& lane) {
  for (Reach& source : lane.sources) {
    source.words.resize(lane.sizes.size());
    if (source.edge == nullptr) continue;
    Message message = std::move(source.edge->messages.front());
    source.edge->messages.pop_front();
    if (message.sizes != lane.sizes) throw Fault{"a message of another size"};
    source.words = std::move(message.words);
    source.exposed = !message.exposed.empty();
    if (source.exposed)
      std::tie(source.places, source.owner, source.user) = std::tie(message.exposed, message.owner, message.user);
    ranks_[static_cast<std::size_t>(lane.program->rank)].unheard.erase(source.peer);
  }
  for (Reach& destination : lane.destinations) {
    if (destination.edge != nullptr) ++destination.edge->in_use;
  }
}

void Machine::check_heard(const LaneRun& lane) const {
  if (lane.program->hears_first || ranks_[static_cast<std::size_t>(lane.program->rank)].unheard.empty()) return;
  for (const Reach& destination : lane.destinations) {
    if (destination.user) throw Fault{std::string(kEarlyOutput)};
  }
}

// A step uses its blocks from beginning to end: whoever else writes, or reads what it writes, in between races. Memory
// is not copied onto itself.
void Machine::mark(LaneRun& lane, int by) {
  if (by > 0 && lane.current().op == StepOp::copy && lane.sources[0].edge == nullptr) {
    for (Reach& destination : lane.destinations) {
      for (std::size_t i = 0; i < destination.places.size(); ++i) {
        if (destination.places[i] == lane.sources[0].places[i]) destination.places[i] = nullptr;
      }
    }
  }
  if (by > 0) {
    for (const Reach& source : lane.sources) check_free(source, false);
    for (const Reach& destination : lane.destinations) check_free(destination, true);
  }
  for (Reach& source : lane.sources) {
    for (Place* place : source.places) place->readers += by;
  }
  for (Reach& destination : lane.destinations) {
    for (Place* place : destination.places) {
      if (place != nullptr) place->writers += by;
    }
  }
}

void Machine::check_free(const Reach& reach, bool write) const {
  if (reach.user && ranks_[static_cast<std::size_t>(reach.owner)].presence != Presence::inside)
    throw Fault{"touches buffers of a rank outside its call"};
  for (const Place* place : reach.places) {
    if (place == nullptr) continue;
    if (place->writers != 0 || (write && place->readers != 0)) throw Fault{"two steps use a block at once"};
  }
}

// Everything read before anything is written, or block after block, in this or that direction.
void Machine::plan_events(LaneRun& lane) {
  lane.events.clear();
  lane.next_event = 0;
  const auto add = [&](bool write, std::size_t block) {
    const std::vector<Reach>& operands = write ? lane.destinations : lane.sources;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (write || operands[i].edge == nullptr || operands[i].exposed) lane.events.push_back({write, i, block});
    }
  };
  const std::size_t width = lane.sizes.size();
  const std::size_t manner = random_.below(3);
  const auto nth = [&](std::size_t i) { return manner == 1 ? width - 1 - i : i; };
  for (std::size_t i = 0; i < width; ++i) {
    add(false, nth(i));
    if (manner != 2) add(true, nth(i));
  }
  for (std::size_t i = 0; manner == 2 && i < width; ++i) add(true, i);
}

void Machine::happen(LaneRun& lane, const Event& event) {
  if (!event.write) {
    lane.sources[event.operand].words[event.block] = lane.sources[event.operand].places[event.block]->word;
    return;
  }
  const Step& step = lane.current();
  Word result = lane.sources[0].words[event.block];
  if (step.op == StepOp::reduce) {
    std::vector<Word> items;
    for (const Reach& source : lane.sources) items.push_back(source.words[event.block]);
    result = canonical_words(std::move(items));
  }
  if (step.last) result = divide_word(result);
  Reach& destination = lane.destinations[event.operand];
  if (destination.edge == nullptr) {
    if (destination.places[event.block] != nullptr) destination.places[event.block]->word = result;
  } else {
    destination.words.resize(lane.sizes.size());
    destination.words[event.block] = result;
  }
}

void Machine::finish(LaneRun& lane) {
  mark(lane, -1);
  for (Reach& destination : lane.destinations) {
    if (destination.edge == nullptr) continue;
    Message message{std::move(destination.words), lane.sizes, {}, -1, false};
    if (is_single_copy(offers(lane.program->rank, destination.peer))) {
      const Reach& from = lane.sources[0];
      std::tie(message.exposed, message.owner, message.user) = std::tie(from.places, from.owner, from.user);
      ++ranks_[static_cast<std::size_t>(lane.program->rank)].exposed;
    }
    destination.edge->messages.push_back(std::move(message));
  }
  for (Reach& source : lane.sources) {
    if (source.edge == nullptr) continue;
    --source.edge->in_use;
    if (!source.exposed) continue;
    --ranks_[static_cast<std::size_t>(source.owner)].exposed;
    leave_if_done(static_cast<std::size_t>(source.owner));
  }
  lane.in_flight = lane.reached = false;
  ++lane.finished;
  ++now_;
  if (++lane.step < lane.lane->steps.size()) return;
  lane.step = 0;
  if (++lane.segment < trial_.layout.segments) return;
  const auto rank = static_cast<std::size_t>(lane.program->rank);
  --ranks_[rank].lanes_left;
  leave_if_done(rank);
}

void Machine::leave_if_done(std::size_t rank) {
  if (ranks_[rank].lanes_left == 0 && ranks_[rank].exposed == 0) leave(rank);
}

}  // namespace tutti::schedule::interpretation
