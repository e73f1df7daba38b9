// The interpreter finds no fault in correct programs with any timing, and finds the faults it is made for.
#include "interpreter.h"

#include <gtest/gtest.h>

#include "handmade.h"
#include "program_sets.h"

namespace tutti::schedule {
namespace {

using Programs = std::vector<Lowered>;

Trial trial_of(const Programs& programs, std::uint64_t segments, std::uint32_t credits, bool in_place = false,
               bool canonical = true) {
  return {programs, ragged_layout(programs[0].program, segments), credits, in_place, canonical};
}

std::string first_fault(const Trial& trial, int runs = 200) {
  Interpreter interpreter(trial);
  for (int seed = 0; seed < runs; ++seed) {
    if (std::string fault = interpreter.run(static_cast<std::uint64_t>(seed)); !fault.empty()) return fault;
  }
  return {};
}

TEST(Interpreter, FindsNothingWrongWithTheAlgorithms) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Offers& offers : {shared_memory(algorithm.credits), byte_streams(1)}) {
      if (!offers.inside.windows_to_user && needs_shared_memory(algorithm)) continue;
      for (int ranks = 1; ranks <= most_ranks(algorithm, 7); ++ranks) {
        if (!fits(algorithm, ranks)) continue;
        const Programs programs = programs_of(algorithm, ranks, offers, ranks - 1);
        for (const bool in_place : {false, true}) {
          if (in_place && !runs_in_place(algorithm)) continue;
          const Trial trial = trial_of(programs, 3, 0, in_place, algorithm.canonical() || ranks == 1);
          EXPECT_EQ(first_fault(trial, 20), "") << name_of(algorithm.verb) << " by " << algorithm.name << ", " << ranks
                                                << " ranks" << (in_place ? ", in place" : "");
        }
      }
    }
  }
}

TEST(Interpreter, FindsNothingWrongWithTheHandmade) {
  EXPECT_EQ(first_fault(trial_of(ordered_by_credits(1, 1), 4, 1)), "");
  EXPECT_EQ(first_fault(trial_of(ordered_by_credits(2, 2), 4, 2)), "");
  EXPECT_EQ(first_fault(trial_of(ordered_by_messages(), 4, 1)), "");
}

TEST(Interpreter, FindsFaults) {
  const Programs eager = ordered_by_credits(1, 2);
  EXPECT_NE(first_fault(trial_of(eager, 4, 2)), "");
  EXPECT_EQ(first_fault(trial_of(eager, 1, 2)), "") << "one segment reuses nothing";

  const Programs ring = programs_of(*find_algorithm(Verb::all_reduce, "ring"), 4, shared_memory(1));
  EXPECT_EQ(first_fault(trial_of(ring, 1, 1)), "deadlock");
  EXPECT_EQ(first_fault(trial_of(ring, 1, 2)), kAnotherOrder);

  const Algorithm& direct = *find_algorithm(Verb::all_reduce, "direct");
  Programs programs = programs_of(direct, 3, shared_memory(1));
  programs[0].program.lanes[0].steps[0].waits.pop_back();
  EXPECT_EQ(first_fault(trial_of(programs, 1, 1)), "touches buffers of a rank outside its call");
  programs = programs_of(direct, 3, shared_memory(1));
  programs[0].program.lanes.pop_back();
  EXPECT_NE(first_fault(trial_of(programs, 1, 1)), "");
  programs = programs_of(direct, 3, shared_memory(1));
  for (Lowered& lowered : programs) lowered.program.lanes[0].steps[0].last = false;
  EXPECT_EQ(first_fault(trial_of(programs, 1, 1)), "a wrong result");

  Programs staged = programs_of(*find_algorithm(Verb::all_reduce, "staged"), 3, shared_memory(1));
  for (Lowered& lowered : staged) lowered.program.scratch_depth = 1;
  EXPECT_NE(first_fault(trial_of(staged, 3, 1)), "");

  Programs twice = programs_of(*find_algorithm(Verb::send_recv, "message"), 2, shared_memory(2));
  twice[0].program.lanes[0].steps.push_back(twice[0].program.lanes[0].steps[0]);
  EXPECT_EQ(first_fault(trial_of(twice, 1, 2)), "a message is left over");

  Programs early = programs_of(*find_algorithm(Verb::all_reduce, "recursive_doubling"), 4, shared_memory(1));
  std::vector<Step>& steps = early[2].program.lanes[0].steps;
  steps[1].destinations.push_back(steps[3].destinations[0]);
  EXPECT_EQ(first_fault(trial_of(early, 1, 1)), kEarlyOutput);
}

}  // namespace
}  // namespace tutti::schedule
