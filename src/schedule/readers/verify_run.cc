#include "schedule/readers/verify_run.h"

#include <algorithm>

#include "schedule/readers/firing.h"

namespace tutti::schedule::verification {
namespace {

std::size_t leaves_of(const VerifyPlan& plan) {
  return index_of(plan.ranks) * plan.layout.segments * plan.layout.blocks;
}

}  // namespace

Run::Run(const VerifyPlan& plan, Problems& problems, Journal* journal)
    : plan_(plan),
      problems_(problems),
      journal_(journal),
      expressions_(leaves_of(plan)),
      states_(plan.lanes.size()),
      width_(plan.lanes.size() + index_of(plan.ranks)) {
  for (const PlannedEdge& edge : plan.edges) edges_.emplace_back().unused_credits = edge.credits;
  clocks_.resize(plan.lanes.size() * width_);
  for (std::size_t i = 0; i < plan.lanes.size(); ++i) clocks_[i * width_ + entry_component(plan.lanes[i].rank)] = 1;

  std::size_t cells = 0;
  for (const Lowered& lowered : plan.programs) {
    first_cell_.push_back(cells);
    const std::size_t scratch = index_of(lowered.program.scratch_planes) * index_of(lowered.program.scratch_depth);
    cells += (2 * plan.layout.segments + scratch) * plan.layout.blocks;
  }
  cells_.resize(cells);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    for (std::uint64_t segment = 0; segment < plan.layout.segments; ++segment) {
      for (int block = 0; block < plan.any->blocks; ++block) {
        if (!holds_block(*plan.any, Buffer::input, rank, block)) continue;
        cells_[cell_index(rank, Buffer::input, 0, segment, block)].value = leaf(rank, segment, block);
      }
    }
  }
  last_touch_.resize(index_of(plan.ranks) * plan.lanes.size());
  bytes_.resize(index_of(plan.ranks) * index_of(plan.ranks));
}

bool Run::to_the_end() {
  const auto lanes = static_cast<int>(plan_.lanes.size());
  for (int number = 0; number < lanes; ++number) {
    if (lane(number).steps.empty()) states_[index_of(number)].segment = plan_.layout.segments;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int number = 0; number < lanes; ++number) {
      while (!done(number) && blocker(number).kind == Blocker::Kind::none) {
        fire(number);
        moved = true;
      }
    }
  }
  for (int number = 0; number < lanes; ++number) {
    if (done(number)) continue;
    report_deadlock();
    return false;
  }
  check_left_over();
  check_returns();
  return true;
}

struct Run::Seen {
  const Run& run;
  int lane;

  const EdgeState& edge(const PlannedOperand& slot) const { return run.edges_[index_of(slot.edge)]; }
  bool entered(const PlannedWait&) const { return true; }  // sooner or later; what is done before is a race
  bool finished(const PlannedWait& wait) const {
    const std::uint64_t segment = run.states_[index_of(lane)].segment - wait.segments_back;
    const LaneState& other = run.states_[index_of(wait.lane)];
    return other.segment > segment || (other.segment == segment && other.step > index_of(wait.step));
  }
  bool has_come(const PlannedOperand& source) const { return !edge(source).messages.empty(); }
  bool has_credit(const PlannedOperand& destination) const {
    return edge(destination).unused_credits != 0 || !edge(destination).returned_credits.empty();
  }
  bool heard_all() const { return run.unheard(lane).kind == Blocker::Kind::none; }
};

Run::Blocker Run::blocker(int number) const {
  const LaneState& state = states_[index_of(number)];
  const PlannedStep& step = lane(number).steps[state.step];
  const auto unmet = first_unmet(step, state.segment, plan_.any->hears_first, Seen{*this, number});
  using Kind = decltype(unmet)::Kind;
  switch (unmet.kind) {
    case Kind::nothing: break;
    case Kind::wait: return {Blocker::Kind::wait, unmet.wait->rank, unmet.wait->lane, unmet.wait};
    case Kind::message:
      return {Blocker::Kind::message, unmet.operand->rank, plan_.edges[index_of(unmet.operand->edge)].sender};
    case Kind::credit: {
      const PlannedEdge& edge = plan_.edges[index_of(unmet.operand->edge)];
      return {Blocker::Kind::credit, unmet.operand->rank, edge.receiver, nullptr, edge.credits};
    }
    case Kind::hearing: return unheard(number);
  }
  return {};
}

// A rank that sends to this one and of whom no message has come yet.
Run::Blocker Run::unheard(int number) const {
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const PlannedEdge& edge = plan_.edges[i];
    if (edge.to != lane(number).rank || edge.receiver == -1) continue;
    if (edges_[i].heard.time != 0 || !edges_[i].messages.empty()) continue;
    return {Blocker::Kind::message, edge.from, edge.sender, nullptr};
  }
  return {};
}

void Run::fire(int number) {
  LaneState& state = states_[index_of(number)];
  const PlannedStep& step = lane(number).steps[state.step];
  const std::span<std::uint32_t> now = clock(number);
  ++now[index_of(number)];
  acquire_waits(step, state.segment, now);
  acquire_credits(step, now);

  std::vector<std::uint64_t> sizes;
  for (const int block : step.blocks) sizes.push_back(plan_.size(state.segment, block));
  std::vector<Provenance> origins;
  if (journal_ != nullptr) origins = origins_of(number, step);
  std::vector<Value> values = gather(number, step, sizes);
  if (journal_ != nullptr) journal_->add(index_of(number), values, std::move(origins));
  for (const PlannedOperand& operand : step.destinations) {
    if (operand.edge == -1) write(number, step, operand, values);
  }
  tell(number, step, std::move(values), std::move(sizes));

  if (++state.step == lane(number).steps.size()) {
    state.step = 0;
    ++state.segment;
  }
}

void Run::acquire_waits(const PlannedStep& step, std::uint64_t segment, std::span<std::uint32_t> now) {
  for (const PlannedWait& wait : step.waits) {
    if (wait.lane == Wait::kEntryLane) {
      now[entry_component(wait.rank)] = 1;
    } else if (wait.segments_back <= segment) {
      // Before the first segment a wait holds by itself and tells of nothing.
      const std::size_t steps = lane(wait.lane).steps.size();
      acquire(
          now,
          states_[index_of(wait.lane)].published[(segment - wait.segments_back) * steps + index_of(wait.step)]->clock);
    }
  }
}

void Run::acquire_credits(const PlannedStep& step, std::span<std::uint32_t> now) {
  for (const PlannedOperand& operand : step.destinations) {
    if (operand.edge == -1) continue;
    EdgeState& edge = edges_[index_of(operand.edge)];
    if (edge.unused_credits != 0) {
      --edge.unused_credits;
      continue;
    }
    acquire(now, edge.returned_credits.front()->clock);
    edge.returned_credits.pop_front();
  }
}

// The values of the step's result, block by block. Messages come first: what they tell holds for the reads as well.
std::vector<Value> Run::gather(int number, const PlannedStep& step, const std::vector<std::uint64_t>& sizes) {
  if (step.op == StepOp::wait) return {};
  const std::size_t width = sizes.size();
  std::vector<Value> read_values(step.sources.size() * width);
  const auto row = [&](std::size_t source) { return std::span(read_values).subspan(source * width, width); };
  for (std::size_t i = 0; i < step.sources.size(); ++i) {
    if (step.sources[i].edge != -1) receive(number, step.sources[i], sizes, row(i));
  }
  for (std::size_t i = 0; i < step.sources.size(); ++i) {
    if (step.sources[i].edge == -1) read(number, step.sources[i], row(i));
  }
  if (step.op == StepOp::copy) return read_values;
  std::vector<Value> results(width), items(step.sources.size());
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t source = 0; source < items.size(); ++source) items[source] = read_values[source * width + i];
    results[i] = expressions_.reduce(items, step.last);
  }
  return results;
}

void Run::receive(int number, const PlannedOperand& operand, const std::vector<std::uint64_t>& sizes,
                  std::span<Value> values) {
  EdgeState& edge = edges_[index_of(operand.edge)];
  const Told message = std::move(edge.messages.front());
  edge.messages.pop_front();
  acquire(clock(number), message->clock);
  if (edge.heard.time == 0) edge.heard = {static_cast<std::uint32_t>(number), clock(number)[index_of(number)]};
  if (message->sizes == sizes) {
    std::copy(message->values.begin(), message->values.end(), values.begin());
    if (!plan_.edges[index_of(operand.edge)].single_copy) return;
    // Small ones were copied when they were sent, others are read now: that it is the same is the sender's duty.
    check_entered(number, *message->exposed);
    return look(number, *message->exposed, message->segment, values);
  }
  report_sizes(number, operand, sizes, *message);
}

void Run::read(int number, const PlannedOperand& operand, std::span<Value> values) {
  check_entered(number, operand);
  count_window(number, operand, false);
  look(number, operand, states_[index_of(number)].segment, values);
}

void Run::look(int number, const PlannedOperand& operand, std::uint64_t segment, std::span<Value> values) {
  const std::span<const std::uint32_t> now = clock(number);
  const Epoch epoch{static_cast<std::uint32_t>(number), now[index_of(number)]};
  for (std::size_t i = 0; i < values.size(); ++i) {
    Cell& cell = cells_[cell_index(operand.rank, operand.buffer, operand.plane, segment, operand.blocks[i])];
    cell.read(epoch, now, [&](Epoch other, bool wrote) { report_race(number, operand, i, false, other, wrote); });
    values[i] = cell.value;
  }
}

void Run::write(int number, const PlannedStep& step, const PlannedOperand& operand, std::span<const Value> values) {
  check_entered(number, operand);
  check_heard(number, operand);
  count_window(number, operand, true);
  const std::span<const std::uint32_t> now = clock(number);
  const Epoch epoch{static_cast<std::uint32_t>(number), now[index_of(number)]};
  const std::uint64_t segment = states_[index_of(number)].segment;
  const auto index_in = [&](const PlannedOperand& from, std::size_t i) {
    return cell_index(from.rank, from.buffer, from.plane, segment, from.blocks[i]);
  };
  const PlannedOperand* const copied =
      step.op == StepOp::copy && step.sources[0].edge == -1 ? &step.sources[0] : nullptr;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t index = index_in(operand, i);
    if (copied != nullptr && index_in(*copied, i) == index) continue;  // in place: nobody copies memory onto itself
    Cell& cell = cells_[index];
    cell.write(epoch, now, [&](Epoch other, bool wrote) { report_race(number, operand, i, true, other, wrote); });
    cell.value = values[i];
  }
}

// The step is over: its progress is published, its messages leave and the messages it used up give their credits back.
void Run::tell(int number, const PlannedStep& step, std::vector<Value> values, std::vector<std::uint64_t> sizes) {
  const auto slot = [](const PlannedOperand& operand) { return is_slot(operand); };
  const bool sends = std::any_of(step.destinations.begin(), step.destinations.end(), slot);
  const bool receives = std::any_of(step.sources.begin(), step.sources.end(), slot);
  const bool published = plan_.awaited[index_of(number)];
  if (!sends && !receives && !published) return;
  const std::span<const std::uint32_t> now = clock(number);
  const PlannedOperand* const exposed = sends ? &step.sources[0] : nullptr;
  const Told told = std::make_shared<Finished>(Finished{{now.begin(), now.end()},
                                                        std::move(values),
                                                        std::move(sizes),
                                                        exposed,
                                                        states_[index_of(number)].segment,
                                                        {static_cast<std::uint32_t>(number), now[index_of(number)]}});
  if (published) states_[index_of(number)].published.push_back(told);
  for (const PlannedOperand& operand : step.sources) {
    if (is_slot(operand)) edges_[index_of(operand.edge)].returned_credits.push_back(told);
  }
  std::uint64_t elements = 0;
  for (const std::uint64_t size : told->sizes) elements += size;
  for (const PlannedOperand& operand : step.destinations) {
    if (!is_slot(operand)) continue;
    edges_[index_of(operand.edge)].messages.push_back(told);
    count_bytes(lane(number).rank, operand.rank, elements);
    const std::uint64_t most = plan_.edges[index_of(operand.edge)].slot_bytes;
    if (most != 0 && elements * plan_.layout.element_bytes > most) {
      problems_.add(Problem::Kind::malformed, place(number), ": a message of ", elements * plan_.layout.element_bytes,
                    " bytes to rank ", operand.rank, ", and a slot holds ", most);
    }
  }
}

std::span<std::uint32_t> Run::clock(int number) {
  return std::span(clocks_).subspan(index_of(number) * width_, width_);
}

std::size_t Run::cell_index(int rank, Buffer buffer, int plane, std::uint64_t segment, int block) const {
  const std::uint64_t segments = plan_.layout.segments;
  const auto depth = static_cast<std::uint64_t>(plan_.any->scratch_depth);
  std::uint64_t row = 0;
  switch (buffer) {
    case Buffer::input: row = segment; break;
    case Buffer::output: row = plan_.shares(rank, block) ? segment : segments + segment; break;
    case Buffer::scratch: row = 2 * segments + static_cast<std::uint64_t>(plane) * depth + segment % depth; break;
  }
  return first_cell_[index_of(rank)] + row * plan_.layout.blocks + index_of(block);
}

Value Run::value(int rank, Buffer buffer, std::uint64_t segment, int block) const {
  return cells_[cell_index(rank, buffer, 0, segment, block)].value;
}

Epoch Run::writer(int rank, Buffer buffer, std::uint64_t segment, int block) const {
  return cells_[cell_index(rank, buffer, 0, segment, block)].writer();
}

std::size_t Run::index_of_result(int rank, Buffer buffer, std::uint64_t segment, int block) const {
  return index_in(writer(rank, buffer, segment, block), cell_index(rank, buffer, 0, segment, block));
}

// Where the values of the step's sources come from, as they are before it fires.
std::vector<Provenance> Run::origins_of(int number, const PlannedStep& step) const {
  std::vector<Provenance> origins;
  for (const PlannedOperand& source : step.sources) {
    for (std::size_t i = 0; i < step.blocks.size(); ++i) {
      if (is_slot(source)) {
        const Finished& message = *edges_[index_of(source.edge)].messages.front();
        origins.push_back({message.by, i, i < message.values.size() ? message.values[i] : kPoison});
        continue;
      }
      const std::uint64_t segment = states_[index_of(number)].segment;
      const std::size_t cell = cell_index(source.rank, source.buffer, source.plane, segment, source.blocks[i]);
      const Epoch by = cells_[cell].writer();
      origins.push_back({by, by.time == 0 ? 0 : index_in(by, cell), cells_[cell].value});
    }
  }
  return origins;
}

// Which of its results the step at `epoch` wrote to `cell`.
std::size_t Run::index_in(Epoch epoch, std::size_t cell) const {
  const std::vector<PlannedStep>& steps = lane(static_cast<int>(epoch.component)).steps;
  const PlannedStep& step = steps[(epoch.time - 1) % steps.size()];
  for (const PlannedOperand& operand : step.destinations) {
    for (std::size_t i = 0; i < operand.blocks.size(); ++i) {
      const std::uint64_t segment = (epoch.time - 1) / steps.size();
      if (cell_index(operand.rank, operand.buffer, operand.plane, segment, operand.blocks[i]) == cell) return i;
    }
  }
  return 0;
}

Value Run::leaf(int rank, std::uint64_t segment, int block) const {
  return expressions_.leaf((index_of(rank) * plan_.layout.segments + segment) * plan_.layout.blocks + index_of(block));
}

void Run::count_window(int number, const PlannedOperand& operand, bool writes) {
  const int self = lane(number).rank;
  if (operand.rank == self) return;
  std::uint64_t elements = 0;
  for (const int block : operand.blocks) elements += plan_.size(states_[index_of(number)].segment, block);
  count_bytes(writes ? self : operand.rank, writes ? operand.rank : self, elements);
}

void Run::count_bytes(int from, int to, std::uint64_t elements) {
  bytes_[index_of(from) * index_of(plan_.ranks) + index_of(to)] += elements * plan_.layout.element_bytes;
}

std::map<std::pair<int, int>, std::uint64_t> Run::edge_bytes() const {
  std::map<std::pair<int, int>, std::uint64_t> edges;
  for (int from = 0; from < plan_.ranks; ++from) {
    for (int to = 0; to < plan_.ranks; ++to) {
      const std::uint64_t bytes = bytes_[index_of(from) * index_of(plan_.ranks) + index_of(to)];
      if (bytes != 0) edges[{from, to}] = bytes;
    }
  }
  return edges;
}

}  // namespace tutti::schedule::verification
