#include "interpreter.h"

#include <algorithm>
#include <utility>

#include "interpreter_machine.h"

namespace tutti::schedule {
namespace interpretation {

std::string Machine::run(std::uint64_t seed) {
  random_ = {scramble(seed)};
  try {
    reset();
    schedule();
    check_outputs();
  } catch (const Fault& fault) {
    return fault.words;
  }
  return {};
}

void Machine::reset() {
  lanes_.clear();
  first_lane_.clear();
  channels_.clear();
  now_ = 0;
  const std::size_t blocks = trial_.layout.blocks;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Program& program = trial_.programs[i].program;
    RankState& rank = ranks_[i];
    rank = {};
    if (!compares_on_entry()) rank.unheard = senders_to(program);
    rank.user.resize((trial_.in_place ? 1 : 2) * trial_.layout.segments * blocks);
    rank.scratch.resize(static_cast<std::size_t>(program.scratch_planes * program.scratch_depth) * blocks);
    poison(rank.user);
    poison(rank.scratch);
    first_lane_.push_back(lanes_.size());
    for (const Lane& lane : program.lanes) {
      LaneRun& run = lanes_.emplace_back();
      run.program = &program;
      run.lane = &lane;
      if (lane.steps.empty()) {
        run.segment = trial_.layout.segments;
      } else {
        ++rank.lanes_left;
      }
    }
  }
}

// Where peers reach into each other's buffers, all of them have compared their calls before anything moves.
bool Machine::compares_on_entry() const {
  const auto reaches = [](const Operand& operand) {
    return operand.kind == Operand::Kind::window && operand.buffer != Buffer::scratch;
  };
  for (const Lowered& lowered : trial_.programs) {
    for (const Lane& lane : lowered.program.lanes) {
      for (const Step& step : lane.steps) {
        if (std::any_of(step.sources.begin(), step.sources.end(), reaches)) return true;
        if (std::any_of(step.destinations.begin(), step.destinations.end(), reaches)) return true;
      }
    }
  }
  return false;
}

std::set<int> Machine::senders_to(const Program& program) const {
  std::set<int> senders;
  for (const Lane& lane : program.lanes) {
    for (const Step& step : lane.steps) {
      for (const Operand& source : step.sources) {
        if (source.kind == Operand::Kind::slot) senders.insert(source.rank.resolve(program.rank, program.ranks));
      }
    }
  }
  return senders;
}

// Actors are the lanes and the entries of the ranks. Half the timings are uniform; the others follow priorities that
// change now and then, so that one actor can be far ahead of, or far behind, the rest.
void Machine::schedule() {
  std::vector<std::size_t> order(lanes_.size() + ranks_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
  const bool by_priority = random_.below(2) == 0;
  const std::size_t patience = std::size_t{8} << random_.below(5);
  while (!everyone_returned()) {
    std::size_t start = 0;
    if (!by_priority || random_.below(16) == 0) start = random_.below(order.size());
    if (by_priority && random_.below(patience) == 0) std::swap(order[0], order[random_.below(order.size())]);
    bool moved = false;
    for (std::size_t i = 0; i < order.size() && !moved; ++i) moved = move(order[(start + i) % order.size()]);
    if (!moved) throw Fault{"deadlock"};
  }
  for (const auto& [key, channel] : channels_) {
    if (!channel.messages.empty()) throw Fault{"a message is left over"};
  }
}

bool Machine::everyone_returned() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& rank) { return rank.presence == Presence::returned; });
}

bool Machine::move(std::size_t actor) {
  if (actor >= lanes_.size()) return enter(actor - lanes_.size());
  LaneRun& lane = lanes_[actor];
  if (lane.segment == trial_.layout.segments) return false;
  if (!lane.in_flight) return begin(lane);
  if (lane.next_event < lane.events.size()) {
    happen(lane, lane.events[lane.next_event++]);
  } else {
    finish(lane);
  }
  return true;
}

bool Machine::enter(std::size_t rank) {
  RankState& state = ranks_[rank];
  if (state.presence != Presence::absent) return false;
  const std::size_t cells = trial_.layout.segments * trial_.layout.blocks;
  for (std::size_t i = 0; i < cells; ++i) state.user[i].word = fresh_word(rank * cells + i);
  state.presence = Presence::inside;
  ++now_;
  if (state.lanes_left == 0) leave(rank);
  return true;
}

void Machine::leave(std::size_t rank) {
  RankState& state = ranks_[rank];
  const std::size_t cells = trial_.layout.segments * trial_.layout.blocks;
  const Program& program = trial_.programs[rank].program;
  const bool only_sends = program.verb == Verb::send_recv && program.ranks > 1 && program.rank == program.root;
  for (std::size_t i = 0; i < state.user.size(); ++i) {
    const Place& place = state.user[i];
    if (place.readers + place.writers != 0) throw Fault{"a rank returns while a peer uses its buffers"};
    const bool is_output = trial_.in_place || i >= cells;
    if (is_output) state.outputs.push_back(place.word);
    const bool kept = i < cells && (!trial_.in_place || only_sends);
    if (kept && place.word != fresh_word(rank * cells + i)) throw Fault{"an input was overwritten"};
  }
  poison(state.user);
  state.presence = Presence::returned;
  ++now_;
}

Word Machine::expected_word(std::size_t cell) const {
  const Program& program = trial_.programs[0].program;
  const std::size_t cells = trial_.layout.segments * trial_.layout.blocks;
  if (program.verb != Verb::all_reduce || program.ranks == 1) {
    return fresh_word(static_cast<std::size_t>(program.root) * cells + cell);
  }
  std::vector<Word> inputs;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) inputs.push_back(fresh_word(rank * cells + cell));
  return divide_word(canonical_words(std::move(inputs)));
}

// Right sums in an order that is the same on all ranks are a lesser fault, if any.
void Machine::check_outputs() const {
  const Program& program = trial_.programs[0].program;
  const bool skips_root = program.verb == Verb::send_recv && program.ranks > 1;
  const std::size_t first = skips_root && program.root == 0 ? 1 : 0;
  bool canonical = true;
  for (std::size_t cell = 0; cell < trial_.layout.segments * trial_.layout.blocks; ++cell) {
    const Word expected = expected_word(cell);
    const std::uint64_t order = ranks_[first].outputs[cell].order;
    canonical = canonical && order == expected.order;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (skips_root && static_cast<int>(rank) == program.root) continue;
      if (ranks_[rank].outputs[cell] != Word{expected.sum, order}) throw Fault{"a wrong result"};
    }
  }
  if (trial_.canonical && !canonical) throw Fault{std::string(kAnotherOrder)};
}

void Machine::poison(std::vector<Place>& places) {
  for (Place& place : places) place.word = {random_.next(), random_.next()};
}

}  // namespace interpretation

Interpreter::Interpreter(const Trial& trial) : machine_(std::make_unique<interpretation::Machine>(trial)) {}
Interpreter::~Interpreter() = default;

std::string Interpreter::run(std::uint64_t seed) { return machine_->run(seed); }

}  // namespace tutti::schedule
