// What a single-copy row promises: nothing that was sent is written again before the call ends. The
// verifier, which asks only that it is not written before its receipt, comes to the same.
#include <gtest/gtest.h>

#include "schedule/algorithms/table.h"
#include "schedule/lower.h"
#include "schedule/program_sets.h"
#include "schedule/readers/verify.h"
#include "schedule/verbs.h"

namespace tutti::schedule {
namespace {

bool overlap(const BlockSet& a, const BlockSet& b, const Program& program) {
  for (int i = 0; i < a.count; ++i) {
    for (int j = 0; j < b.count; ++j) {
      if (a.at(i, program.rank, program.blocks) == b.at(j, program.rank, program.blocks)) return true;
    }
  }
  return false;
}

// In place the same blocks of input and output are one memory, and copying one to the other changes nothing.
bool overwrites(const Step& step, const Operand& exposed, bool in_place, const Program& program) {
  for (const Operand& written : step.destinations) {
    if (is_slot(written) || written.buffer == Buffer::scratch) continue;
    const bool moves_nothing = in_place && step.op == StepOp::copy && !is_slot(step.sources[0]) &&
                               is_user_memory(step.sources[0]) && step.sources[0].blocks == written.blocks;
    if (moves_nothing) continue;
    const bool same_buffer = in_place || written.buffer == exposed.buffer;
    if (same_buffer && overlap(written.blocks, exposed.blocks, program)) return true;
  }
  return false;
}

// Steps that may run after step `number` of lane `lane`, in the same segment.
bool written_again(const Program& program, std::size_t lane, std::size_t number, const Operand& exposed,
                   bool in_place) {
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    const std::vector<Step>& steps = program.lanes[l].steps;
    for (std::size_t s = l == lane ? number + 1 : 0; s < steps.size(); ++s) {
      if (overwrites(steps[s], exposed, in_place, program)) return true;
    }
  }
  return false;
}

// Whether every message leaves from memory of the caller's that stays as it is.
bool keeps_what_it_exposes(const Program& program, bool in_place) {
  for (std::size_t lane = 0; lane < program.lanes.size(); ++lane) {
    const std::vector<Step>& steps = program.lanes[lane].steps;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (std::none_of(steps[s].destinations.begin(), steps[s].destinations.end(), is_slot)) continue;
      const Operand& exposed = steps[s].sources[0];
      if (!is_user_memory(exposed) || written_again(program, lane, s, exposed, in_place)) return false;
    }
  }
  return true;
}

bool keeps_always(const Algorithm& row, bool in_place) {
  for (int ranks = 1; ranks <= (row.verb == Verb::send_recv ? 2 : 9); ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int root = 0; root < (facts_of(row.verb).rooted ? ranks : 1); ++root) {
        const Lowered lowered = lower(row.generate({ranks, rank, root}), single_copy_offers(shared_memory(4)));
        if (!keeps_what_it_exposes(lowered.program, in_place)) return false;
      }
    }
  }
  return true;
}

bool proved_always(const Algorithm& row, bool in_place) {
  for (int ranks = 1; ranks <= (row.verb == Verb::send_recv ? 2 : 9); ++ranks) {
    for (int root = 0; root < (facts_of(row.verb).rooted ? ranks : 1); ++root) {
      const VerifyReport report = verify(programs_of(row, ranks, shared_memory(4), root), {1003, 4, 3, 0, in_place});
      if (!report.ok()) return false;
    }
  }
  return true;
}

TEST(SingleCopy, NothingThatWasExposedIsWrittenAgain) {
  int rows = 0;
  for (const Algorithm& row : algorithms()) {
    if (!row.single_copy) continue;
    SCOPED_TRACE(std::string(name_of(row.verb)));
    ++rows;
    EXPECT_TRUE(keeps_always(row, false));
    EXPECT_EQ(keeps_always(row, true), row.single_copy_in_place);
    EXPECT_TRUE(proved_always(row, false));
    EXPECT_EQ(proved_always(row, true), row.single_copy_in_place);
  }
  EXPECT_GE(rows, 8);
}

// The test itself: rows that are not fit for it are found out.
TEST(SingleCopy, RowsThatWriteAgainAreFoundOut) {
  for (const char* name : {"recursive_doubling", "recursive_halving", "ring"})
    EXPECT_FALSE(keeps_always(*find_algorithm(Verb::all_reduce, name), false)) << name;
  EXPECT_FALSE(keeps_always(*find_algorithm(Verb::reduce, "binomial"), false));
}

}  // namespace
}  // namespace tutti::schedule
