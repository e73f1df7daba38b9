#include "schedule/readers/verify.h"

#include <optional>
#include <string_view>

#include "schedule/readers/verify_plan.h"
#include "schedule/readers/verify_problems.h"
#include "schedule/readers/verify_run.h"
#include "schedule/verbs.h"

namespace tutti::schedule {
namespace verification {
namespace {

// Compares what every buffer holds at the end with what the verb promises (verbs.h).
class Promise {
 public:
  Promise(const VerifyPlan& plan, Run& run, Problems& problems) : plan_(plan), run_(run), problems_(problems) {}

  // Whether all reductions came out in the order that all algorithms of the verb should follow.
  bool check() {
    for (segment_ = 0; segment_ < plan_.layout.segments; ++segment_) {
      for (block_ = 0; block_ < plan_.any->blocks; ++block_) {
        for (int rank = 0; rank < plan_.ranks; ++rank) {
          if (holds_block(*plan_.any, Buffer::input, rank, block_)) check_input(rank);
          if (holds_block(*plan_.any, Buffer::output, rank, block_)) check_output(rank);
        }
      }
    }
    return canonical_;
  }

 private:
  void wrong(int rank, Buffer buffer, std::string_view why) {
    problems_.add(Problem::Kind::wrong_result, name_of(buffer), " of rank ", rank, ", segment ", segment_, ", block ",
                  block_, ": ", why);
  }

  // In place the verb overwrites what the output shares with the input, and nothing else.
  void check_input(int rank) {
    if (plan_.shares(rank, block_)) return;
    if (run_.value(rank, Buffer::input, segment_, block_) != run_.leaf(rank, segment_, block_)) {
      wrong(rank, Buffer::input, "overwritten");
    }
  }

  void check_output(int rank) {
    const Promised promise = promised(*plan_.any, rank, block_);
    const Value value = run_.value(rank, Buffer::output, segment_, block_);
    if (value == kPoison) {
      wrong(rank, Buffer::output, "never written, or from memory that never was");
    } else if (promise.contributors != 0) {
      check_reduced(rank, value, promise);
    } else if (value != run_.leaf(promise.from_rank, segment_, promise.from_block)) {
      const VerbFacts& facts = facts_of(plan_.any->verb);
      const bool spreads = facts.rooted && facts.cut == Cut::vector;
      wrong(rank, Buffer::output, spreads ? "not what the root has there" : "not the chunk that belongs there");
    }
  }

  void check_reduced(int rank, Value value, const Promised& promise) {
    const bool same_everywhere = plan_.any->verb == Verb::all_reduce;
    if (same_everywhere && rank != 0) {
      if (value != run_.value(0, Buffer::output, segment_, block_))
        wrong(rank, Buffer::output, "another order or other contributions than at rank 0");
      return;
    }
    std::vector<Value> leaves;
    for (int i = 0; i < promise.contributors; ++i) leaves.push_back(run_.leaf(i, segment_, promise.from_block));
    const auto join = [&](Value left, Value right) { return run_.expressions().join(left, right, false); };
    const Value expected =
        facts_of(plan_.any->verb).prefix
            ? prefix_fold(std::span<const Value>(leaves), join)
            : run_.expressions().reduce(leaves, promise.contributors > 1, plan_.programs[0].offers.hosts);
    if (value == expected) return;
    canonical_ = false;
    check_sum(rank, value, promise);
  }

  // Each contribution once, and the division of an average at the very end. A prefix has no average, and its
  // contributions stand in the order of their ranks, whatever their association.
  void check_sum(int rank, Value root, const Promised& promise) {
    const bool prefix = facts_of(plan_.any->verb).prefix;
    std::vector<bool> seen(static_cast<std::size_t>(promise.contributors));
    std::vector<Value> todo{root};
    std::size_t contributions = 0;
    std::string_view why;
    while (!todo.empty() && why.empty()) {
      const Value value = todo.back();
      todo.pop_back();
      if (!run_.expressions().is_leaf(value)) {
        const JoinNode join = run_.expressions().join_of(value);
        if (join.last != (!prefix && value == root)) why = "not marked last, or marked last before its last reduction";
        todo.insert(todo.end(), {join.right, join.left});
        continue;
      }
      const std::size_t from = run_.expressions().leaf_index(value) / (plan_.layout.segments * plan_.layout.blocks);
      if (value != run_.leaf(static_cast<int>(from), segment_, promise.from_block) || from >= seen.size())
        why = "holds an element of another place";
      else if (seen[from])
        why = "holds a contribution twice";
      else if (prefix && from != contributions)
        why = "holds contributions in another order than that of the ranks";
      else
        seen[from] = true;
      ++contributions;
    }
    if (why.empty() && contributions != seen.size()) why = "lacks a contribution";
    if (!why.empty()) wrong(rank, Buffer::output, why);
  }

  const VerifyPlan& plan_;
  Run& run_;
  Problems& problems_;
  std::uint64_t segment_ = 0;  // at hand
  int block_ = 0;
  bool canonical_ = true;
};

}  // namespace
}  // namespace verification

VerifyReport verify(std::span<const Lowered> programs, const VerifyOptions& options) {
  using namespace verification;
  Problems problems;
  VerifyReport report;
  report.canonical = false;
  if (const std::optional<VerifyPlan> plan = make_plan(programs, options, problems)) {
    Run run(*plan, problems);
    // Only without races are the values of this run those of every run.
    const bool determined = run.to_the_end() && problems.empty();
    report.canonical = determined && Promise(*plan, run, problems).check();
    report.edge_bytes = run.edge_bytes();
  }
  if (!problems.empty()) report.problems = problems.take();
  return report;
}

}  // namespace tutti::schedule
