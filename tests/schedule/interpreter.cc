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
  edges_.clear();
  now_ = 0;
  const std::size_t blocks = trial_.layout.blocks;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Program& program = trial_.programs[i].program;
    RankState& rank = ranks_[i];
    rank = {};
    if (!compares_on_entry()) rank.unheard = senders_to(program);
    rank.user.resize(2 * trial_.layout.segments * blocks);
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
  for (const auto& [key, edge] : edges_) {
    if (!edge.messages.empty()) throw Fault{"a message is left over"};
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
  const Program& program = trial_.programs[rank].program;
  for (std::size_t i = 0; i < cells; ++i) {
    if (!holds_block(program, Buffer::input, program.rank, static_cast<int>(i % trial_.layout.blocks))) continue;
    state.user[i].word = fresh_word(rank * cells + i);
  }
  state.presence = Presence::inside;
  ++now_;
  if (state.lanes_left == 0) leave(rank);
  return true;
}

void Machine::leave(std::size_t rank) {
  RankState& state = ranks_[rank];
  const Program& program = trial_.programs[rank].program;
  const std::size_t blocks = trial_.layout.blocks;
  const std::size_t cells = trial_.layout.segments * blocks;
  for (const Place& place : state.user) {
    if (place.readers + place.writers != 0) throw Fault{"a rank returns while a peer uses its buffers"};
  }
  for (std::size_t i = 0; i < cells; ++i) {
    const std::size_t output = user_index(program.rank, Buffer::output, i / blocks, i % blocks);
    state.outputs.push_back(state.user[output].word);
    const bool given = holds_block(program, Buffer::input, program.rank, static_cast<int>(i % blocks));
    if (given && output != i && state.user[i].word != fresh_word(rank * cells + i))
      throw Fault{"an input was overwritten"};
  }
  for (const RankState& other : ranks_) {
    if (program.verb == Verb::barrier && other.presence == Presence::absent)
      throw Fault{"a rank leaves the barrier before another has entered"};
  }
  poison(state.user);
  state.presence = Presence::returned;
  ++now_;
}

// In place, a block that both buffers hold is the input's.
std::size_t Machine::user_index(int owner, Buffer buffer, std::uint64_t segment, std::size_t block) const {
  const Program& program = trial_.programs[static_cast<std::size_t>(owner)].program;
  const auto held = [&](Buffer which) { return holds_block(program, which, owner, static_cast<int>(block)); };
  const bool shared = trial_.in_place && held(Buffer::input) && held(Buffer::output);
  const bool second = buffer == Buffer::output && !shared;
  return ((second ? trial_.layout.segments : 0) + segment) * trial_.layout.blocks + block;
}

Word Machine::hosts_first(const std::vector<Word>& words) const {
  const Hosts& hosts = trial_.programs[0].offers.hosts;
  std::vector<std::vector<Word>> of_hosts(static_cast<std::size_t>(hosts.count()));
  for (std::size_t rank = 0; rank < words.size(); ++rank)
    of_hosts[static_cast<std::size_t>(hosts.of(static_cast<int>(rank)))].push_back(words[rank]);
  std::vector<Word> sums;
  for (const std::vector<Word>& of_host : of_hosts) sums.push_back(canonical_words(of_host));
  return canonical_words(sums);
}

// What the verbs mean, said here once more and without the verifier's table.
Word Machine::expected_word(std::size_t rank, std::size_t cell) const {
  const Program& program = trial_.programs[0].program;
  const std::size_t blocks = trial_.layout.blocks;
  const std::size_t cells = trial_.layout.segments * blocks;
  const std::size_t block = cell % blocks;
  const auto root = static_cast<std::size_t>(program.root);
  const auto given = [&](std::size_t from, std::size_t at) { return fresh_word(from * cells + cell - block + at); };
  const auto first = [&](std::size_t count) {
    std::vector<Word> words;
    for (std::size_t from = 0; from < count; ++from) words.push_back(given(from, block));
    return words;
  };
  switch (program.verb) {
    case Verb::gather:
    case Verb::all_gather: return given(block, block);
    case Verb::all_to_all: return given(block, rank);
    case Verb::scan: return prefix_words(first(rank + 1));
    case Verb::exclusive_scan: return prefix_words(first(rank));
    case Verb::all_reduce:
    case Verb::reduce:
    case Verb::reduce_scatter:
      return ranks_.size() == 1 ? given(0, block) : divide_word(hosts_first(first(ranks_.size())));
    default: return given(root, block);
  }
}

// Right sums in another order are a lesser fault, if any; of an all_reduce the order must be the same on all ranks.
void Machine::check_outputs() const {
  const Program& program = trial_.programs[0].program;
  bool canonical = true;
  for (std::size_t cell = 0; cell < trial_.layout.segments * trial_.layout.blocks; ++cell) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto block = static_cast<int>(cell % trial_.layout.blocks);
      if (!holds_block(program, Buffer::output, static_cast<int>(rank), block)) continue;
      const Word expected = expected_word(rank, cell), found = ranks_[rank].outputs[cell];
      const bool alike = program.verb != Verb::all_reduce || found.order == ranks_[0].outputs[cell].order;
      if (found.sum != expected.sum || !alike) throw Fault{"a wrong result"};
      canonical = canonical && found.order == expected.order;
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
