#include "schedule/readers/verify_rotation.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "schedule/readers/firing.h"
#include "schedule/readers/verify_plan.h"
#include "schedule/readers/verify_problems.h"
#include "schedule/readers/verify_turned.h"
#include "schedule/verbs.h"

namespace tutti::schedule {
namespace verification {
namespace {

std::string why_not(const Operand& operand) {
  if (operand.kind == Operand::Kind::window) return "has windows";
  if (is_slot(operand)) return operand.rank.base == Index::Base::plus ? "" : "names ranks that are not relative";
  return operand.blocks.first.base == Index::Base::plus ? "" : "names blocks that are not relative";
}

// Rank 0 runs, and with it all others.
class Rotation {
 public:
  Rotation(const VerifyPlan& plan, Problems& problems)
      : plan_(plan),
        problems_(problems),
        ranks_(static_cast<std::uint32_t>(plan.ranks)),
        expressions_(ranks_, ranks_ * static_cast<std::uint32_t>(plan.layout.segments)),
        steps_(plan.lanes.empty() ? nullptr : &plan.lanes[0].steps),
        known_(ranks_) {
    const std::size_t scratch = index_of(plan.any->scratch_planes) * index_of(plan.any->scratch_depth);
    cells_.resize((2 * plan.layout.segments + scratch) * ranks_);
    for (std::uint64_t segment = 0; segment < plan.layout.segments; ++segment) {
      for (int block = 0; block < plan.ranks; ++block) {
        if (holds_block(*plan.any, Buffer::input, 0, block))
          cell(Buffer::input, 0, segment, block) = leaf(0, segment, block);
      }
    }
    known_[0] = true;
    for (const PlannedEdge& edge : plan.edges) {
      if (edge.to == 0) senders_.insert(edge.from);
    }
  }

  // False where one rank does not decide.
  bool run() {
    for (segment_ = 0; steps_ != nullptr && segment_ < plan_.layout.segments; ++segment_) {
      for (step_ = 0; step_ < steps_->size(); ++step_) {
        const PlannedStep& step = (*steps_)[step_];
        const auto unmet = first_unmet(step, segment_, plan_.any->hears_first, *this);
        if (!unmet.may_fire()) {
          report_deadlock(unmet);
          return true;
        }
        fire(step);
        if (undecided_) return false;
      }
    }
    for (const auto& [distance, edge] : edges_) {
      if (!edge.messages.empty())
        problems_.add(Problem::Kind::unmatched, edge.messages.size(), " messages of every rank to rank+", distance,
                      " are never received");
    }
    if (problems_.empty()) check_results();
    return !undecided_;
  }

  bool canonical() const { return canonical_; }

  // What first_unmet() asks.
  bool entered(const PlannedWait&) const { return true; }
  bool finished(const PlannedWait&) const { return true; }
  bool has_come(const PlannedOperand& source) const { return waits_for(source.rank) != 0; }
  bool has_credit(const PlannedOperand& destination) const {
    const auto found = edges_.find(destination.rank);
    const PlannedEdge& edge = plan_.edges[index_of(destination.edge)];
    return found == edges_.end() ? edge.credits != 0 : found->second.messages.size() < edge.credits;
  }
  bool heard_all() const {
    return std::all_of(senders_.begin(), senders_.end(),
                       [&](int from) { return heard_.contains(from) || waits_for(from) != 0; });
  }

 private:
  struct Message {
    std::vector<TurnedValue> values;
    std::vector<int> blocks;
    std::vector<bool> known;  // barrier: who has entered
  };
  struct Edge {  // from rank 0 to the rank at this distance, and from every rank to the one at this distance from it
    std::deque<Message> messages;
  };

  int distance_from(int rank) const { return (plan_.ranks - rank) % plan_.ranks; }
  std::size_t waits_for(int from) const {
    const auto found = edges_.find(distance_from(from));
    return found == edges_.end() ? 0 : found->second.messages.size();
  }
  TurnedValue leaf(int rank, std::uint64_t segment, int block) const {
    const auto place = static_cast<std::uint32_t>((block + plan_.ranks - rank) % plan_.ranks);
    return expressions_.leaf(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(segment) * ranks_ + place);
  }
  TurnedValue& cell(Buffer buffer, int plane, std::uint64_t segment, int block) {
    const std::uint64_t segments = plan_.layout.segments;
    const auto depth = static_cast<std::uint64_t>(plan_.any->scratch_depth);
    std::uint64_t row = segment;
    if (buffer == Buffer::output && !plan_.shares(0, block)) row = segments + segment;
    if (buffer == Buffer::scratch) row = 2 * segments + static_cast<std::uint64_t>(plane) * depth + segment % depth;
    return cells_[row * ranks_ + index_of(block)];
  }
  bool vector_cut() const { return facts_of(plan_.any->verb).cut == Cut::vector; }

  void fire(const PlannedStep& step) {
    if (step.op == StepOp::wait) return;
    const std::size_t width = step.blocks.size();
    std::vector<std::vector<TurnedValue>> sources;
    for (const PlannedOperand& source : step.sources)
      sources.push_back(is_slot(source) ? receive(source, step) : read(source, step));
    if (undecided_ || !problems_.empty()) return;
    std::vector<TurnedValue> results = sources[0];
    if (step.op == StepOp::reduce) {
      std::vector<TurnedValue> items(sources.size());
      for (std::size_t i = 0; i < width; ++i) {
        for (std::size_t source = 0; source < items.size(); ++source) items[source] = sources[source][i];
        results[i] = expressions_.reduce(items, step.last);
      }
    }
    for (const PlannedOperand& destination : step.destinations) {
      if (is_slot(destination)) {
        const std::uint64_t most = plan_.edges[index_of(destination.edge)].slot_bytes;
        undecided_ = undecided_ || (most != 0 && width * plan_.size(0, 0) * plan_.layout.element_bytes > most);
        edges_[destination.rank].messages.push_back({results, step.blocks, known()});
      } else {
        write(destination, step, results);
      }
    }
  }

  // Only a barrier asks who is known to have entered.
  std::vector<bool> known() const { return moves_data(plan_.any->verb) ? std::vector<bool>() : known_; }

  std::vector<TurnedValue> read(const PlannedOperand& operand, const PlannedStep& step) {
    require_same(operand.blocks, step.blocks);
    std::vector<TurnedValue> values;
    for (const int block : operand.blocks) values.push_back(cell(operand.buffer, operand.plane, segment_, block));
    return values;
  }

  // What comes from rank r is what rank 0 sent as far, turned by r.
  std::vector<TurnedValue> receive(const PlannedOperand& operand, const PlannedStep& step) {
    std::deque<Message>& messages = edges_[distance_from(operand.rank)].messages;
    Message message = std::move(messages.front());
    messages.pop_front();
    heard_.insert(operand.rank);
    for (TurnedValue& value : message.values)
      value = expressions_.turned(value, static_cast<std::uint32_t>(operand.rank));
    if (moves_data(plan_.any->verb)) {
      for (int& block : message.blocks) block = (block + operand.rank) % plan_.ranks;
    }
    for (std::size_t i = 0; i < message.known.size(); ++i) {
      if (message.known[i]) known_[(i + index_of(operand.rank)) % known_.size()] = true;
    }
    if (message.blocks.size() != step.blocks.size()) {
      problems_.add(Problem::Kind::unmatched, "every rank expects ", step.blocks.size(), " blocks in step ", step_,
                    " from rank+", operand.rank, ", which sent ", message.blocks.size());
      return std::vector<TurnedValue>(step.blocks.size());
    }
    require_same(message.blocks, step.blocks);
    return message.values;
  }

  void write(const PlannedOperand& operand, const PlannedStep& step, const std::vector<TurnedValue>& values) {
    require_same(operand.blocks, step.blocks);
    if (operand.buffer != Buffer::scratch && !plan_.any->hears_first && !wrote_) {
      wrote_ = true;
      for (const int from : senders_) {
        if (heard_.contains(from)) continue;
        problems_.add(Problem::Kind::early_output, "every rank, in step ", step_, ", writes ", name_of(operand.buffer),
                      " before it has heard from rank+", from);
        return;
      }
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      cell(operand.buffer, operand.plane, segment_, operand.blocks[i]) = values[i];
  }

  // Blocks of a vector may differ in size, and where they do depends on the rank.
  void require_same(const std::vector<int>& blocks, const std::vector<int>& others) {
    undecided_ = undecided_ || blocks.size() != others.size() || (vector_cut() && blocks != others);
  }

  template <class Missing>
  void report_deadlock(const Missing& unmet) {
    using Kind = typename Missing::Kind;
    problems_.add(Problem::Kind::deadlock, "no rank gets beyond step ", step_, " of segment ", segment_,
                  ": all of them wait for each other");
    if (unmet.kind == Kind::message)
      problems_.tell("every rank waits for a message from rank+", unmet.operand->rank, ", which is where it stands");
    if (unmet.kind == Kind::credit)
      problems_.tell("every rank waits for rank+", unmet.operand->rank, " to take a message, which is where it stands");
    if (unmet.kind == Kind::hearing) problems_.tell("every rank waits to hear from all that send to it");
  }

  void check_results() {
    if (!moves_data(plan_.any->verb)) {
      // What credits tell is left out here: the general proof has it.
      undecided_ = std::find(known_.begin(), known_.end(), false) != known_.end();
      return;
    }
    for (std::uint64_t segment = 0; segment < plan_.layout.segments; ++segment) {
      for (int block = 0; block < plan_.ranks; ++block) check_block(segment, block);
    }
  }

  void check_block(std::uint64_t segment, int block) {
    const Program& program = *plan_.any;
    const auto wrong = [&](const auto&... parts) { problems_.add(Problem::Kind::wrong_result, parts...); };
    if (holds_block(program, Buffer::input, 0, block) && !plan_.shares(0, block) &&
        cell(Buffer::input, 0, segment, block) != leaf(0, segment, block)) {
      wrong("block ", block, " of rank 0's input is overwritten, and likewise on every rank");
    }
    if (!holds_block(program, Buffer::output, 0, block)) return;
    const TurnedValue value = cell(Buffer::output, 0, segment, block);
    const Promised promise = promised(program, 0, block);
    if (value.tree == 0) {
      wrong("block ", block, " of rank 0's output is never written, and likewise on every rank");
    } else if (promise.contributors != 0) {
      check_reduced(segment, block, value);
    } else if (value != leaf(promise.from_rank, segment, promise.from_block)) {
      wrong("block ", block, " of rank 0's output is not block ", promise.from_block, " of rank ", promise.from_rank,
            "'s input, and likewise on every rank");
    }
  }

  void check_reduced(std::uint64_t segment, int block, TurnedValue value) {
    if (!complete(segment, block, value)) {
      problems_.add(Problem::Kind::wrong_result, "block ", block,
                    " of rank 0's output does not hold each contribution once, and likewise on every rank");
      return;
    }
    // Rank r has in this block what rank 0 has r blocks before it, turned by r.
    if (plan_.any->verb == Verb::all_reduce) {
      const TurnedValue first = cell(Buffer::output, 0, segment, 0);
      if (value != expressions_.turned(first, static_cast<std::uint32_t>(block))) {
        problems_.add(Problem::Kind::wrong_result, "block ", block,
                      " is reduced in another order at rank 0 than at rank ", block);
        return;
      }
    }
    // Of reduce_scatter every rank has another block, which is the same value turned.
    const int others = plan_.any->verb == Verb::all_reduce ? 1 : plan_.ranks;
    for (int turn = 0; canonical_ && turn < others; ++turn) {
      std::vector<TurnedValue> leaves;
      for (int rank = 0; rank < plan_.ranks; ++rank)
        leaves.push_back(leaf(rank, segment, (block + turn) % plan_.ranks));
      canonical_ =
          expressions_.turned(value, static_cast<std::uint32_t>(turn)) == expressions_.reduce(leaves, plan_.ranks > 1);
    }
  }

  // Whether the tree holds this block of every rank once, and the division of an average at its root. Of a tree that
  // was looked at before only the turn is new.
  bool complete(std::uint64_t segment, int block, TurnedValue value) {
    const auto known = complete_.find(value.tree);
    if (known != complete_.end())
      return known->second.segment == segment && (known->second.block + value.turn) % ranks_ == index_of(block);
    std::vector<bool> seen(ranks_);
    std::vector<TurnedValue> todo{{value.tree, 0}};
    std::size_t contributions = 0;
    std::optional<std::uint64_t> place;
    while (!todo.empty()) {
      const TurnedValue next = todo.back();
      todo.pop_back();
      if (!expressions_.is_leaf(next.tree)) {
        const TurnedJoin join = expressions_.join_of(next.tree);
        if (join.last != (next.tree == value.tree)) return false;
        todo.push_back({join.left, next.turn});
        todo.push_back({join.right, (next.turn + join.turn) % ranks_});
        continue;
      }
      const std::uint32_t key = expressions_.key_of(next.tree);
      const std::uint64_t here = (key % ranks_ + next.turn) % ranks_;
      if (key / ranks_ != segment || seen[next.turn] || place.value_or(here) != here) return false;
      place = here;
      seen[next.turn] = true;
      ++contributions;
    }
    if (contributions != ranks_) return false;
    complete_[value.tree] = {segment, static_cast<std::uint32_t>(*place)};
    return (*place + value.turn) % ranks_ == index_of(block);
  }

  struct Sum {
    std::uint64_t segment = 0;
    std::uint32_t block = 0;  // where it belongs if it is not turned
  };

  const VerifyPlan& plan_;
  Problems& problems_;
  std::uint32_t ranks_;
  TurnedExpressions expressions_;
  const std::vector<PlannedStep>* steps_;
  std::vector<TurnedValue> cells_;  // rank 0's
  std::map<int, Edge> edges_;       // by distance
  std::set<int> senders_, heard_;   // ranks that rank 0 receives from, and has
  std::vector<bool> known_;         // ranks that are known to have entered
  std::map<std::uint32_t, Sum> complete_;
  std::uint64_t segment_ = 0;
  std::size_t step_ = 0;
  bool wrote_ = false;
  bool canonical_ = true;
  bool undecided_ = false;
};

}  // namespace
}  // namespace verification

std::string why_not_rotation(const Lowered& lowered) {
  const Program& program = lowered.program;
  const VerbFacts& facts = facts_of(program.verb);
  if (facts.rooted || facts.prefix || program.verb == Verb::send_recv)
    return "is of a verb whose ranks are not all alike";
  if (program.rank != 0) return "is not rank 0's";
  if (program.ranks < 2) return "is for one rank";
  if (lowered.offers.hosts.several()) return "spans hosts";
  if (is_single_copy(lowered.offers.inside)) return "has messages that are copied once";
  if (moves_data(program.verb) && program.blocks != program.ranks) return "has not one block for each rank";
  if (program.lanes.size() > 1) return "has several lanes";
  for (const Lane& lane : program.lanes) {
    for (const Step& step : lane.steps) {
      if (!step.waits.empty()) return "waits for steps of others";
      for (const auto* operands : {&step.destinations, &step.sources}) {
        for (const Operand& operand : *operands) {
          const bool barrier_block = !moves_data(program.verb) && !is_slot(operand) && program.blocks == 1;
          if (barrier_block && operand.kind == Operand::Kind::own) continue;
          if (std::string why = verification::why_not(operand); !why.empty()) return why;
        }
      }
    }
  }
  return {};
}

std::optional<VerifyReport> verify_rotation(const Lowered& first, const VerifyOptions& options) {
  using namespace verification;
  if (!why_not_rotation(first).empty()) return std::nullopt;
  Problems problems;
  VerifyReport report;
  report.canonical = false;
  const std::optional<VerifyPlan> plan = make_plan_of_one(first, options, problems);
  if (plan) {
    Rotation rotation(*plan, problems);
    if (!rotation.run()) return std::nullopt;
    report.canonical = problems.empty() && rotation.canonical();
  }
  if (!problems.empty()) report.problems = problems.take();
  return report;
}

}  // namespace tutti::schedule
