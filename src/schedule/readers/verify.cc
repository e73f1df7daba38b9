#include "schedule/readers/verify.h"

#include <optional>
#include <string_view>

#include "schedule/readers/verify_plan.h"
#include "schedule/readers/verify_problems.h"
#include "schedule/readers/verify_run.h"

namespace tutti::schedule {
namespace verification {
namespace {

// Compares what every buffer holds at the end with what the verb promises.
class Promise {
 public:
  Promise(const Plan& plan, Run& run, Problems& problems) : plan_(plan), run_(run), problems_(problems) {}

  // Whether all reductions came out in canonical order.
  bool check() {
    for (std::uint64_t segment = 0; segment < plan_.layout.segments; ++segment) {
      for (int block = 0; block < plan_.any->blocks; ++block) {
        for (int rank = 0; rank < plan_.ranks; ++rank) check_input(rank, segment, block);
        if (plan_.any->verb == Verb::all_reduce) {
          check_reduced(segment, block);
        } else {
          check_received(segment, block);
        }
      }
    }
    return canonical_;
  }

 private:
  void wrong(int rank, Buffer buffer, std::uint64_t segment, int block, std::string_view why) {
    problems_.add(Problem::Kind::wrong_result, name_of(buffer), " of rank ", rank, ", segment ", segment, ", block ",
                  block, ": ", why);
  }

  // In place the input is what the verb overwrites, except where a rank only sends.
  void check_input(int rank, std::uint64_t segment, int block) {
    const bool only_sends = plan_.any->verb == Verb::send_recv && plan_.ranks > 1 && rank == plan_.any->root;
    if (plan_.in_place && !only_sends) return;
    if (run_.value(rank, Buffer::input, segment, block) != run_.leaf(rank, segment, block)) {
      wrong(rank, Buffer::input, segment, block, "overwritten");
    }
  }

  void check_received(std::uint64_t segment, int block) {
    const int root = plan_.any->root;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      if (plan_.any->verb == Verb::send_recv && plan_.ranks > 1 && rank == root) continue;
      const Value value = run_.value(rank, Buffer::output, segment, block);
      if (value == kPoison) {
        wrong(rank, Buffer::output, segment, block, "never written, or from memory that never was");
      } else if (value != run_.leaf(root, segment, block)) {
        wrong(rank, Buffer::output, segment, block, "not what the root has there");
      }
    }
  }

  void check_reduced(std::uint64_t segment, int block) {
    std::vector<Value> leaves;
    for (int rank = 0; rank < plan_.ranks; ++rank) leaves.push_back(run_.leaf(rank, segment, block));
    const Value canonical = run_.expressions().reduce(leaves, plan_.ranks > 1);
    const Value first = run_.value(0, Buffer::output, segment, block);
    if (first != canonical) {
      canonical_ = false;
      if (first != kPoison) check_sum(first, segment, block);
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      const Value value = run_.value(rank, Buffer::output, segment, block);
      if (value == kPoison) {
        wrong(rank, Buffer::output, segment, block, "never written, or from memory that never was");
      } else if (value != first) {
        wrong(rank, Buffer::output, segment, block, "another order or other contributions than at rank 0");
      }
    }
  }

  // Each rank's contribution once, and the division of an average at the very end.
  void check_sum(Value root, std::uint64_t segment, int block) {
    std::vector<bool> seen(static_cast<std::size_t>(plan_.ranks));
    std::vector<Value> todo{root};
    int contributions = 0;
    std::string_view why;
    while (!todo.empty() && why.empty()) {
      const Value value = todo.back();
      todo.pop_back();
      if (!run_.expressions().is_leaf(value)) {
        const Join join = run_.expressions().join_of(value);
        if (join.last != (value == root)) why = "not marked last, or marked last before its last reduction";
        todo.insert(todo.end(), {join.left, join.right});
        continue;
      }
      const auto per_rank = plan_.layout.segments * plan_.layout.blocks;
      const auto rank = run_.expressions().leaf_index(value) / per_rank;
      if (value != run_.leaf(static_cast<int>(rank), segment, block))
        why = "holds an element of another place";
      else if (seen[rank])
        why = "holds a contribution twice";
      seen[rank] = true;
      ++contributions;
    }
    if (why.empty() && contributions != plan_.ranks) why = "lacks a contribution";
    if (!why.empty()) wrong(0, Buffer::output, segment, block, why);
  }

  const Plan& plan_;
  Run& run_;
  Problems& problems_;
  bool canonical_ = true;
};

}  // namespace
}  // namespace verification

VerifyReport verify(std::span<const Lowered> programs, const VerifyOptions& options) {
  using namespace verification;
  Problems problems;
  VerifyReport report;
  report.canonical = false;
  if (const std::optional<Plan> plan = make_plan(programs, options, problems)) {
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
