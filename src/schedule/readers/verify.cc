#include "schedule/readers/verify.h"

#include <optional>
#include <string>
#include <vector>

#include "schedule/fold.h"
#include "schedule/readers/verify_journal.h"
#include "schedule/readers/verify_plan.h"
#include "schedule/readers/verify_problems.h"
#include "schedule/readers/verify_run.h"
#include "schedule/readers/verify_story.h"
#include "schedule/verbs.h"

namespace tutti::schedule {
namespace verification {
namespace {

// Compares what every buffer holds at the end with what the verb promises (verbs.h).
class Promise {
 public:
  // With a journal of the run, problems get their stories.
  Promise(const VerifyPlan& plan, Run& run, Problems& problems, const Journal* journal)
      : plan_(plan), run_(run), problems_(problems) {
    if (journal != nullptr) story_.emplace(plan, run, *journal);
  }

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
  template <class... Why>
  void wrong(const Spot& spot, const Why&... why) {
    problems_.add(Problem::Kind::wrong_result, words_of(spot, plan_), " ", why...);
  }
  void tell(const Story::Lines& lines) {
    for (const std::string& line : lines) problems_.tell(line);
  }
  Spot output_of(int rank) const { return {rank, Buffer::output, segment_, block_}; }

  // In place the verb overwrites what the output shares with the input, and nothing else.
  void check_input(int rank) {
    if (plan_.shares(rank, block_)) return;
    if (run_.value(rank, Buffer::input, segment_, block_) == run_.leaf(rank, segment_, block_)) return;
    const Spot spot{rank, Buffer::input, segment_, block_};
    wrong(spot, "is overwritten");
    if (story_) tell(story_->of_writer(spot));
  }

  void check_output(int rank) {
    const Promised promise = promised(*plan_.any, rank, block_);
    const Value value = run_.value(rank, Buffer::output, segment_, block_);
    if (value == kPoison) {
      wrong(output_of(rank), "is never written, or from memory that never was");
      if (story_) tell(story_->of_poison(output_of(rank)));
    } else if (promise.contributors != 0) {
      check_reduced(rank, value, promise);
    } else if (const Value expected = run_.leaf(promise.from_rank, segment_, promise.from_block); value != expected) {
      const bool moved = run_.expressions().is_leaf(value);
      wrong(output_of(rank), "holds ", moved ? words_of_leaf(value, plan_, run_) : "a reduction", " where ",
            words_of_leaf(expected, plan_, run_), " belongs");
      if (story_ && moved) tell(story_->of_stranger(output_of(rank), value));
      if (story_ && !moved) tell(story_->of_writer(output_of(rank)));
    }
  }

  void check_reduced(int rank, Value value, const Promised& promise) {
    const bool same_everywhere = plan_.any->verb == Verb::all_reduce;
    if (same_everywhere && rank != 0) {
      if (value != run_.value(0, Buffer::output, segment_, block_)) differs_from_first(rank);
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

  void differs_from_first(int rank) {
    wrong(output_of(rank), "is reduced in another order or of other contributions than at rank 0");
    if (!story_) return;
    tell(story_->of_writer(output_of(rank)));
    tell(story_->of_writer(output_of(0)));
  }

  // Each contribution once, and the division of an average at the very end. A prefix has no average, and its
  // contributions stand in the order of their ranks, whatever their association.
  void check_sum(int rank, Value root, const Promised& promise) {
    const bool prefix = facts_of(plan_.any->verb).prefix;
    const Spot spot = output_of(rank);
    std::vector<bool> seen(static_cast<std::size_t>(promise.contributors));
    std::vector<Value> todo{root};
    std::size_t contributions = 0;
    while (!todo.empty()) {
      const Value value = todo.back();
      todo.pop_back();
      if (!run_.expressions().is_leaf(value)) {
        const JoinNode join = run_.expressions().join_of(value);
        if (join.last != (!prefix && value == root)) {
          wrong(spot, "is not marked last, or marked last before its last reduction");
          if (story_) tell(story_->of_writer(spot));
          return;
        }
        todo.insert(todo.end(), {join.right, join.left});
        continue;
      }
      const auto from = static_cast<std::size_t>(rank_of_leaf(value, plan_, run_));
      if (value != run_.leaf(static_cast<int>(from), segment_, promise.from_block) || from >= seen.size()) {
        wrong(spot, "holds an element of another place: ", words_of_leaf(value, plan_, run_));
        if (story_) tell(story_->of_stranger(spot, value));
        return;
      }
      if (seen[from]) {
        wrong(spot, "holds the contribution of rank ", from, " twice");
        if (story_) tell(story_->of_twice(spot, value));
        return;
      }
      if (prefix && from != contributions) {
        wrong(spot, "holds contributions in another order than that of the ranks");
        if (story_) tell(story_->of_writer(spot));
        return;
      }
      seen[from] = true;
      ++contributions;
    }
    if (contributions != seen.size()) lacks(spot, seen, promise);
  }

  void lacks(const Spot& spot, const std::vector<bool>& seen, const Promised& promise) {
    std::vector<int> missing;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i]) missing.push_back(static_cast<int>(i));
    }
    wrong(spot, "lacks the contribution", missing.size() == 1 ? " of rank " : "s of ranks ", text_of_ranks(missing));
    if (story_) tell(story_->of_lacking(spot, run_.leaf(missing[0], segment_, promise.from_block)));
  }

  const VerifyPlan& plan_;
  Run& run_;
  Problems& problems_;
  std::uint64_t segment_ = 0;  // at hand
  int block_ = 0;
  bool canonical_ = true;
  std::optional<Story> story_;
};

// Runs the plan, compares what came out, and says whether all reductions are canonical.
bool examine(const VerifyPlan& plan, Problems& problems, Journal* journal, VerifyReport& report) {
  Run run(plan, problems, journal);
  // Only without races are the values of this run those of every run.
  const bool determined = run.to_the_end() && problems.empty();
  report.edge_bytes = run.edge_bytes();
  return determined && Promise(plan, run, problems, journal).check();
}

}  // namespace
}  // namespace verification

std::string_view name_of(Problem::Kind kind) {
  switch (kind) {
    case Problem::Kind::malformed: return "malformed";
    case Problem::Kind::wrong_result: return "wrong result";
    case Problem::Kind::unmatched: return "unmatched";
    case Problem::Kind::deadlock: return "deadlock";
    case Problem::Kind::race: return "race";
    case Problem::Kind::early_output: return "early output";
  }
  return "";
}

std::string text_of(const Problem& problem) {
  std::string text = problem.message;
  for (const std::string& line : problem.story) text += "\n  " + line;
  return text;
}

VerifyReport verify(std::span<const Lowered> programs, const VerifyOptions& options) {
  using namespace verification;
  Problems problems;
  VerifyReport report;
  report.canonical = false;
  if (const std::optional<VerifyPlan> plan = make_plan(programs, options, problems)) {
    report.canonical = examine(*plan, problems, nullptr, report);
    // The same again, with an eye on how each value comes about.
    if (!problems.empty()) {
      Journal journal(plan->lanes.size());
      problems = {};
      examine(*plan, problems, &journal, report);
    }
  }
  if (!problems.empty()) report.problems = problems.take();
  return report;
}

}  // namespace tutti::schedule
