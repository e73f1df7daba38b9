// What the verifier tells of wrong programs, word by word: what is wrong for the caller, and how it comes to that.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "program_sets.h"
#include "schedule/readers/verify.h"

namespace tutti::schedule {
namespace {

using Programs = std::vector<Lowered>;

constexpr VerifyOptions kOneSegment{64, 4, 1, 0, false};

Programs of(Verb verb, const char* algorithm, int ranks, std::uint32_t credits = 2) {
  return programs_of(*find_algorithm(verb, algorithm), ranks, shared_memory(credits));
}

Step& step_of(Programs& programs, std::size_t rank, std::size_t step) {
  return programs[rank].program.lanes[0].steps[step];
}

std::string first_story(const Programs& programs, const VerifyOptions& options = kOneSegment) {
  const VerifyReport report = verify(programs, options);
  if (report.ok()) return "verified";
  for (const Problem& problem : report.problems) EXPECT_LE(problem.story.size(), 7u) << text_of(problem);
  return text_of(report.problems[0]);
}

TEST(Stories, OfACircle) {
  Programs programs = of(Verb::all_reduce, "ring", 3);
  for (Lowered& lowered : programs) lowered.offers.inside.credits = 1;
  EXPECT_EQ(
      first_story(programs),
      "block 0 of rank 0's output never gets the reduction over ranks 0-2: a circle of 3 lanes that wait for each "
      "other\n"
      "  rank 0, lane 'ring', step 1, segment 0 waits for rank 1 to take a message (1 credit)\n"
      "  rank 1, lane 'ring', step 1, segment 0 waits for rank 2 to take a message (1 credit)\n"
      "  rank 2, lane 'ring', step 1, segment 0 waits for rank 0 to take a message (1 credit)\n"
      "  and that is where the circle closes: none of them can ever move");
}

TEST(Stories, OfALongCircleNameItsEnds) {
  Programs programs = of(Verb::all_reduce, "ring", 20);
  for (Lowered& lowered : programs) lowered.offers.inside.credits = 1;
  const std::string story = first_story(programs);
  EXPECT_NE(story.find("a circle of 20 lanes"), std::string::npos) << story;
  EXPECT_NE(story.find("step 1, segment 0 waits for rank 3 to take a message (1 credit)\n"
                       "  ... and so on, through 15 lanes more\n"
                       "  rank 18, lane 'ring'"),
            std::string::npos)
      << story;
}

// The chain of waiting ends at the rank that forgot to send.
TEST(Stories, OfAMessageThatNeverComes) {
  Programs programs = of(Verb::all_gather, "ring", 4);
  programs[1].program.lanes[0].steps.clear();
  for (Lowered& lowered : programs) lowered.offers.inside.credits = 4;
  EXPECT_EQ(first_story(programs),
            "rank 0 never receives block 1 of rank 1's input: rank 2 waits for what never comes\n"
            "  rank 0, lane 'ring', step 3, segment 0 waits for a message from rank 3\n"
            "  rank 3, lane 'ring', step 2, segment 0 waits for a message from rank 2\n"
            "  rank 2, lane 'ring', step 1, segment 0 waits for a message from rank 1\n"
            "  no lane of rank 1 sends to rank 2");
}

TEST(Stories, OfAContributionThatIsNotAdded) {
  Programs programs = of(Verb::all_reduce, "direct", 3);
  step_of(programs, 1, 0).sources.pop_back();
  EXPECT_EQ(first_story(programs),
            "block 1 of rank 0's output lacks the contribution of rank 2\n"
            "  block 1 of rank 0's output is written by rank 1, lane 'reduce', step 0, segment 0\n"
            "  no step reads block 1 of rank 2's input");
}

// Over streams messages land first: rank 2 hands on what landed, without the reduction before it.
TEST(Stories, OfAContributionThatIsPassedBy) {
  Programs programs = programs_of(*find_algorithm(Verb::all_reduce, "ring"), 4, byte_streams(2));
  std::vector<Step>& steps = programs[2].program.lanes[0].steps;
  const auto reduction = std::find_if(steps.begin(), steps.end(), [](const Step& s) { return s.op == StepOp::reduce; });
  reduction->op = StepOp::copy;
  std::erase_if(reduction->sources, [](const Operand& source) { return source.buffer == Buffer::input; });
  EXPECT_EQ(first_story(programs),
            "block 1 of rank 0's output lacks the contribution of rank 2\n"
            "  rank 0, lane 'ring', step 7, segment 0 has it from a message of rank 3\n"
            "  rank 3, lane 'ring', step 4, segment 0 has it from a message of rank 2\n"
            "  rank 2, lane 'ring', step 3, segment 0 passes it on, and adds nothing of rank 2\n"
            "  no step reads block 1 of rank 2's input");
}

TEST(Stories, OfAnElementOfAnotherPlace) {
  Programs programs = of(Verb::all_reduce, "ring", 4);
  step_of(programs, 1, 1).sources[1].blocks.first = Index::plus(0);
  EXPECT_EQ(first_story(programs),
            "block 0 of rank 0's output holds an element of another place: block 1 of rank 1's input\n"
            "  rank 0, lane 'ring', step 4, segment 0 has it from a message of rank 3\n"
            "  rank 3, lane 'ring', step 3, segment 0 has it from a message of rank 2\n"
            "  rank 2, lane 'ring', step 2, segment 0 has it from a message of rank 1\n"
            "  rank 1, lane 'ring', step 1, segment 0 has it from block 1 of rank 1's input");
}

TEST(Stories, OfAContributionThatComesTwice) {
  Programs programs = of(Verb::all_reduce, "direct", 3);
  step_of(programs, 1, 0).sources[2] = step_of(programs, 1, 0).sources[0];
  EXPECT_EQ(first_story(programs),
            "block 1 of rank 0's output holds the contribution of rank 0 twice\n"
            "  rank 1, lane 'reduce', step 0, segment 0 reduces two values that both hold it");
}

TEST(Stories, OfAnOutputThatNobodyWrites) {
  Programs programs = of(Verb::all_gather, "ring", 3);
  Step& step = step_of(programs, 1, 2);
  step.destinations[0] = Operand::own(Buffer::scratch, step.destinations[0].blocks);
  programs[1].program.scratch_planes = 1;
  const std::string story = first_story(programs);
  EXPECT_EQ(story.find("block 2 of rank 1's output is never written, or from memory that never was\n"
                       "  no step writes it\n"
                       "  block 2 of rank 2's input is last seen in rank "),
            0u)
      << story;
}

TEST(Stories, OfMemoryThatNobodyWrote) {
  Programs programs = of(Verb::broadcast, "binomial", 2);
  Step& step = step_of(programs, 0, 0);
  programs[0].program.scratch_planes = 1;
  step.sources[0] = Operand::own(Buffer::scratch, step.sources[0].blocks);
  EXPECT_EQ(first_story(programs),
            "block 0 of rank 0's output is never written, or from memory that never was\n"
            "  rank 0, lane 'tree', step 0, segment 0 has it from block 0 of rank 0's scratch\n"
            "  nobody has written there before");
}

TEST(Stories, OfARace) {
  Programs programs = of(Verb::all_reduce, "staged", 3);
  for (Lowered& lowered : programs) lowered.program.scratch_depth = 1;
  EXPECT_EQ(
      first_story(programs, {1024, 4, 4, 0, false}),
      "rank 2, lane 'reduce', step 0, segment 0 reads block 2 of scratch of rank 0, and nothing orders it with rank "
      "0, lane 'in', step 0, segment 1, which writes it\n"
      "  which of the two comes first depends on timing, and so does what is read\n"
      "  neither waits for the other: what rank 2 knows to be over by then of rank 0's lane is rank 0, lane 'in', "
      "step 0, segment 0");
}

TEST(Stories, OfAMessageThatNobodyTakes) {
  Programs programs = of(Verb::send_recv, "message", 2);
  programs[0].program.lanes[0].steps.push_back(programs[0].program.lanes[0].steps[0]);
  EXPECT_EQ(first_story(programs),
            "1 message from rank 0 (lane 'message') to rank 1 is never received\n"
            "  it is sent by rank 0, lane 'message', step 1, segment 0\n"
            "  rank 1 receives from rank 0 in lane 'message', which has ended");
}

TEST(Stories, NameTheSegmentWhereThereAreSeveral) {
  Programs programs = of(Verb::all_reduce, "direct", 3);
  step_of(programs, 1, 0).sources.pop_back();
  const std::string story = first_story(programs, {1024, 4, 4, 0, false});
  EXPECT_EQ(story.find("block 1 of rank 0's output, segment 0, lacks the contribution of rank 2\n"), 0u) << story;
}

}  // namespace
}  // namespace tutti::schedule
