// Programs that are wrong in one way each, and what the verifier says of them.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "handmade.h"
#include "program_sets.h"
#include "schedule/algorithms/build.h"
#include "schedule/readers/verify.h"

namespace tutti::schedule {
namespace {

using Kind = Problem::Kind;
using Programs = std::vector<Lowered>;

constexpr VerifyOptions kOneSegment{64, 4, 1, 0, false};
constexpr VerifyOptions kFourSegments{1024, 4, 4, 0, false};

Programs ring(int ranks) { return programs_of(*find_algorithm(Verb::all_reduce, "ring"), ranks, shared_memory(2)); }
Programs direct(int ranks) { return programs_of(*find_algorithm(Verb::all_reduce, "direct"), ranks, shared_memory(2)); }
Programs staged(int ranks) { return programs_of(*find_algorithm(Verb::all_reduce, "staged"), ranks, shared_memory(2)); }
Programs message() { return programs_of(*find_algorithm(Verb::send_recv, "message"), 2, shared_memory(2)); }

// Rows that were not made for it, lowered as if their messages could be copied once.
Programs single_copy_programs(const Algorithm& row, int ranks) {
  Programs programs;
  for (int rank = 0; rank < ranks; ++rank)
    programs.push_back(lower(row.generate({ranks, rank, 0}), single_copy_offers(shared_memory(2))));
  return programs;
}

// A message between two ranks that both have an input.
Programs spread() {
  Programs programs = programs_of(*find_algorithm(Verb::broadcast, "binomial"), 2, shared_memory(2));
  for (Lowered& lowered : programs) lowered.program.lanes[0].name = "message";
  return programs;
}

Step& step_of(Programs& programs, std::size_t rank, std::size_t lane, std::size_t step) {
  return programs[rank].program.lanes[lane].steps[step];
}

// One problem of that kind with these words in it is among the problems, and no problem is of another kind.
void expect_problem(const Programs& programs, Kind kind, const std::string& words,
                    const VerifyOptions& options = kOneSegment) {
  const VerifyReport report = verify(programs, options);
  bool found = false;
  for (const Problem& problem : report.problems) {
    EXPECT_EQ(static_cast<int>(problem.kind), static_cast<int>(kind)) << problem.message;
    found = found || text_of(problem).find(words) != std::string::npos;
  }
  EXPECT_TRUE(found) << "nothing about: " << words << (report.ok() ? "" : "; first: " + text_of(report.problems[0]));
}

TEST(WrongPrograms, DisagreeAboutTheCall) {
  Programs programs = ring(3);
  programs[2].program.root = 1;
  expect_problem(programs, Kind::malformed, "ranks 0 and 2 differ in root");
  programs = ring(3);
  programs[1].segment_bytes = 4096;
  expect_problem(programs, Kind::malformed, "ranks 0 and 1 differ in segment bound");
  programs = ring(3);
  std::swap(programs[0], programs[1]);
  expect_problem(programs, Kind::malformed, "program 0 of 3 is for rank 1 of 3");
  expect_problem({}, Kind::malformed, "no programs");
}

TEST(WrongPrograms, NameWhatDoesNotExist) {
  const auto expect = [](const std::string& words, const std::function<void(Programs&)>& edit) {
    Programs programs = staged(4);
    edit(programs);
    expect_problem(programs, Kind::malformed, words);
  };
  expect("rank 1, lane 'out', step 2: names rank 4 of 4",
         [](Programs& p) { step_of(p, 1, 2, 2).sources[0].rank = Index::absolute(4); });
  expect("plane 1 of scratch of rank 2, which has 1", [](Programs& p) { step_of(p, 1, 2, 0).sources[0].plane = 1; });
  expect("5 blocks from block 0 of 4", [](Programs& p) { step_of(p, 3, 0, 0).sources[0].blocks.count = 5; });
  expect("publishes no such thing", [](Programs& p) { step_of(p, 0, 2, 0).waits[0].step = 7; });
  expect("publishes no such thing", [](Programs& p) { p[1].program.lanes[1].published = false; });
  expect("operands of different sizes", [](Programs& p) { step_of(p, 3, 0, 0).sources[0].blocks.count = 2; });
  expect("a copy from 2 sources",
         [](Programs& p) { step_of(p, 0, 0, 0).sources.push_back(step_of(p, 0, 0, 0).sources[0]); });
  expect("only a reduction can be the last", [](Programs& p) { step_of(p, 0, 0, 0).last = true; });
}

// The executor has flags for the first three lanes, whether they are published or not.
TEST(WrongPrograms, PublishALaneBehindTheThird) {
  Programs programs = staged(3);
  ASSERT_EQ(programs[1].program.lanes.size(), 3u);
  std::vector<Lane>& lanes = programs[1].program.lanes;
  const Lane idle{"idle", false, {wait_step({})}};
  lanes.push_back(idle);
  EXPECT_TRUE(verify(programs, kOneSegment).ok());
  lanes.back().published = true;
  lanes[2].published = false;
  expect_problem(programs, Kind::malformed, "rank 1: publishes lane 3 ('idle'), and there are flags for the first 3");
  programs = message();
  programs[0].program.lanes[0].published = true;
  programs[0].program.lanes[0].steps.insert(programs[0].program.lanes[0].steps.begin(), 4095, wait_step({}));
  expect_problem(programs, Kind::malformed, "publishes a lane of 4096 steps, and flags count fewer than 4096");
}

// Numbers of a file whose products are more than 64 bits: neither memory nor time is spent on them.
TEST(WrongPrograms, AskForMoreThanAnyMemory) {
  Programs programs = staged(2);
  for (Lowered& lowered : programs) {
    lowered.program.scratch_planes = 1 << 30;
    lowered.program.scratch_depth = 1 << 30;
    lowered.program.blocks = 16;
  }
  expect_problem(programs, Kind::malformed, "too large to be verified");
  for (Lowered& lowered : programs) lowered.offers.scratch_bytes = 1 << 20;
  expect_problem(programs, Kind::malformed, "bytes, and the transport offers 1048576");
  programs = message();
  for (Lowered& lowered : programs) lowered.program.blocks = 1 << 30;
  expect_problem(programs, Kind::malformed, "too large to be verified");
  expect_problem(message(), Kind::malformed, "more than any memory holds", {~std::uint64_t{0}, 4, 1, 0, false});
  programs = message();
  for (Lowered& lowered : programs) lowered.segment_bytes = 1;
  expect_problem(programs, Kind::malformed, "too large to be verified", {std::uint64_t{1} << 50, 4, 1, 0, false});
}

TEST(WrongPrograms, NameBlocksBeyondAnInteger) {
  Programs programs = message();
  step_of(programs, 1, 0, 0).sources[0].rank = Index::plus(2147483647);
  step_of(programs, 1, 0, 0).destinations[0].blocks.first = Index::plus(-2147483647);
  EXPECT_TRUE(verify(programs, kOneSegment).ok()) << "1 + 2147483647 is even";
}

// Both ranks expose their input and reduce what they copied from the other. Nothing tells a rank that its own input has
// been copied before it writes the sum, which in place lies there.
TEST(WrongPrograms, WriteWhatTheyExposed) {
  Programs programs = single_copy_programs(*find_algorithm(Verb::all_reduce, "recursive_doubling"), 2);
  EXPECT_TRUE(verify(programs, kOneSegment).ok());
  const VerifyOptions in_place{64, 4, 1, 0, true};
  expect_problem(programs, Kind::race, "of input of rank 1, and nothing orders it with rank 1", in_place);
  // As messages that are copied into a slot when they are sent, the same programs are right.
  for (Lowered& lowered : programs) lowered.offers.inside.single_copy = false;
  EXPECT_TRUE(verify(programs, in_place).ok());
}

// A receipt orders: what was exposed may be written once the other has said that it has it.
TEST(WrongPrograms, MayWriteWhatTheyExposedAfterTheReceipt) {
  Programs programs = programs_of(*find_algorithm(Verb::broadcast, "single_copy"), 2, shared_memory(1));
  for (Lowered& lowered : programs) lowered.program.scratch_planes = 2;
  const Operand other = Operand::slot(Index::plus(1));
  const auto scratch = [](int plane) { return Operand::own(Buffer::scratch, all_blocks(1), plane); };
  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  programs[0].program.lanes = {
      {"give",
       false,
       {copy_step({scratch(0)}, input), copy_step({other}, scratch(0)), copy_step({scratch(1)}, other),
        copy_step({scratch(0)}, input), copy_step({output}, input)}}};
  programs[1].program.lanes = {{"take", false, {copy_step({output}, other), copy_step({other}, output)}}};
  EXPECT_TRUE(verify(programs, kOneSegment).ok());
  std::vector<Step>& give = programs[0].program.lanes[0].steps;
  std::swap(give[2], give[3]);
  expect_problem(programs, Kind::race, "block 0 of scratch of rank 0, and nothing orders it with rank");
}

TEST(WrongPrograms, UseWhatIsNotOffered) {
  Programs programs = direct(3);
  for (Lowered& lowered : programs) lowered.offers.inside.windows_to_user = false;
  expect_problem(programs, Kind::malformed, "a window onto output of rank 0, which the transport does not offer");
  programs = ring(3);
  for (Lowered& lowered : programs) lowered.offers.inside.operands_in_slots = false;
  expect_problem(programs, Kind::malformed, "a message is an operand of a reduction");
  programs = message();
  for (Lowered& lowered : programs) lowered.offers.inside.slot_bytes = 128;
  expect_problem(programs, Kind::malformed, "a message of 256 bytes to rank 1, and a slot holds 128");
  programs = ring(3);
  for (Lowered& lowered : programs) lowered.program.message_blocks = 0;
  expect_problem(programs, Kind::malformed, "rank 0, lane 'ring', step 0: sends 1 blocks, and states at most 0");
  programs = staged(3);
  for (Lowered& lowered : programs) lowered.offers.scratch_bytes = 100;
  expect_problem(programs, Kind::malformed, "rank 2: scratch of 512 bytes, and the transport offers 100");
}

TEST(WrongPrograms, LetTwoLanesRaceForAnEdge) {
  Programs programs = ring(3);
  Program& program = programs[1].program;
  program.lanes.push_back({"more", false, {program.lanes[0].steps[0]}});
  expect_problem(programs, Kind::malformed, "rank 1, lane 'more', step 0: sends to rank 2, as another lane does");
}

TEST(WrongPrograms, OverwriteWhatTheyRead) {
  Programs programs = message();
  Step& step = programs[1].program.lanes[0].steps.emplace_back();
  for (Lowered& lowered : programs) lowered.program.blocks = lowered.program.message_blocks = 2;
  step_of(programs, 0, 0, 0).sources[0].blocks.count = step_of(programs, 1, 0, 0).destinations[0].blocks.count = 2;
  step.sources = {Operand::own(Buffer::output, {Index::absolute(0), 1, 2})};
  step.destinations = {Operand::own(Buffer::output, {Index::absolute(1), 1, 2})};
  expect_problem(programs, Kind::race, "rank 1, lane 'message', step 1: overwrites what it reads in output of rank 1");
}

Programs of(Verb verb, const char* algorithm, int ranks, int root = 0) {
  return programs_of(*find_algorithm(verb, algorithm), ranks, shared_memory(2), root);
}

TEST(WrongPrograms, NameBlocksThatABufferDoesNotHold) {
  Programs programs = of(Verb::all_gather, "ring", 3);
  step_of(programs, 1, 0, 0).sources[0].blocks.first = Index::plus(1);
  expect_problem(programs, Kind::malformed, "block 2 of input of rank 1, which all_gather does not hold there");
  programs = of(Verb::gather, "linear", 3, 2);
  step_of(programs, 0, 0, 0).destinations.push_back(Operand::own(Buffer::output, {Index::plus(0), 1, 1}));
  expect_problem(programs, Kind::malformed, "block 0 of output of rank 0, which gather does not hold there");
}

TEST(WrongPrograms, PutChunksWhereOthersBelong) {
  Programs programs = of(Verb::all_to_all, "direct", 3);
  step_of(programs, 1, 0, 1).sources[0].blocks.first = Index::plus(1);
  expect_problem(programs, Kind::wrong_result,
                 "block 2 of rank 1's output holds block 2 of rank 2's input where block 1 of rank 2's input belongs");
  programs = of(Verb::scatter, "linear", 3);
  std::swap(step_of(programs, 0, 0, 0).sources, step_of(programs, 0, 1, 0).sources);
  expect_problem(programs, Kind::wrong_result,
                 "block 1 of rank 1's output holds block 2 of rank 0's input where block 1 of rank 0's input belongs");
}

TEST(WrongPrograms, LeaveABarrierTooEarly) {
  Programs programs = of(Verb::barrier, "dissemination", 5);
  for (Lowered& lowered : programs) lowered.program.lanes[0].steps.resize(4);
  expect_problem(programs, Kind::wrong_result, "rank 0 may leave the barrier before rank 1 has entered it");
  programs = of(Verb::barrier, "flags", 3);
  step_of(programs, 2, 0, 1).waits.pop_back();
  expect_problem(programs, Kind::wrong_result, "rank 2 may leave the barrier before rank 1 has entered it");
}

// The operators of a scan need not commute.
TEST(WrongPrograms, FoldPrefixesOutOfOrder) {
  Programs programs = of(Verb::scan, "chain", 3);
  std::vector<Operand>& sources = step_of(programs, 2, 0, 0).sources;
  std::swap(sources[0], sources[1]);
  expect_problem(programs, Kind::wrong_result, "holds contributions in another order than that of the ranks");
  programs = of(Verb::scan, "recursive_doubling", 4);
  step_of(programs, 3, 0, 1).last = true;
  expect_problem(programs, Kind::wrong_result, "not marked last, or marked last before its last reduction");
}

TEST(WrongPrograms, WaitToHearWhatIsOnlySentLater) {
  Programs programs = of(Verb::all_gather, "bruck", 4);
  for (Lowered& lowered : programs) {
    lowered.program.hears_first = true;
    for (Step& step : lowered.program.lanes[0].steps) {
      for (Operand& operand : step.destinations) {
        if (operand.buffer == Buffer::scratch && operand.kind == Operand::Kind::own) operand.buffer = Buffer::output;
      }
    }
  }
  expect_problem(programs, Kind::deadlock, "waits for a message from rank");
}

TEST(WrongPrograms, HoldWrongContributions) {
  Programs programs = direct(3);
  step_of(programs, 1, 0, 0).sources.pop_back();
  expect_problem(programs, Kind::wrong_result, "block 1 of rank 0's output lacks the contribution of rank 2");
  programs = direct(3);
  step_of(programs, 1, 0, 0).sources[2] = step_of(programs, 1, 0, 0).sources[0];
  expect_problem(programs, Kind::wrong_result, "holds the contribution of rank 0 twice");
  programs = direct(2);
  step_of(programs, 0, 0, 0).sources[1].blocks.first = Index::plus(1);
  expect_problem(programs, Kind::wrong_result,
                 "block 0 of rank 0's output holds an element of another place: block 1 of rank 1's input");
  programs = direct(3);
  step_of(programs, 2, 0, 0).destinations.pop_back();
  expect_problem(programs, Kind::wrong_result, "block 2 of rank 2's output is never written");
}

TEST(WrongPrograms, DivideTooEarlyOrNever) {
  Programs programs = ring(3);
  for (std::size_t rank = 0; rank < 3; ++rank) step_of(programs, rank, 0, 2).last = false;
  expect_problem(programs, Kind::wrong_result, "not marked last");
  programs = ring(3);
  for (std::size_t rank = 0; rank < 3; ++rank) step_of(programs, rank, 0, 1).last = true;
  expect_problem(programs, Kind::wrong_result, "marked last before its last reduction");
}

TEST(WrongPrograms, EndWithDifferentBits) {
  const Algorithm& exchange = *find_algorithm(Verb::all_reduce, "exchange");
  Programs programs = programs_of(exchange, 3, shared_memory(1));
  std::swap(step_of(programs, 2, 0, 1).sources[0], step_of(programs, 2, 0, 1).sources[1]);
  expect_problem(programs, Kind::wrong_result, "block 0 of rank 2's output is reduced in another order");
  // Canonical on some ranks does not help where others differ.
  std::swap(step_of(programs, 0, 0, 1).sources[0], step_of(programs, 0, 0, 1).sources[1]);
  expect_problem(programs, Kind::wrong_result, "block 0 of rank 1's output is reduced in another order");
  std::swap(step_of(programs, 0, 0, 1).sources[0], step_of(programs, 0, 0, 1).sources[1]);
  // The same order everywhere is right, but not canonical.
  for (const std::size_t rank : {0, 1})
    std::swap(step_of(programs, rank, 0, 1).sources[0], step_of(programs, rank, 0, 1).sources[1]);
  const VerifyReport report = verify(programs, kOneSegment);
  EXPECT_TRUE(report.ok());
  EXPECT_FALSE(report.canonical);
}

TEST(WrongPrograms, SpoilTheInput) {
  Programs programs = spread();
  step_of(programs, 1, 0, 0).destinations.push_back(Operand::own(Buffer::input, {}));
  expect_problem(programs, Kind::wrong_result, "block 0 of rank 1's input is overwritten");
}

TEST(WrongPrograms, SendWhatNobodyReceives) {
  Programs programs = message();
  programs[0].program.lanes[0].steps.push_back(programs[0].program.lanes[0].steps[0]);
  expect_problem(programs, Kind::unmatched, "1 message from rank 0 (lane 'message') to rank 1 is never received");
}

TEST(WrongPrograms, ReceiveAnotherSize) {
  Programs programs = message();
  for (Lowered& lowered : programs) lowered.program.blocks = 2;
  step_of(programs, 1, 0, 0).destinations[0].blocks.count = 2;
  const VerifyReport report = verify(programs, kOneSegment);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.problems[0].kind, Kind::unmatched);
  EXPECT_NE(report.problems[0].message.find("expects 64 elements in 2 blocks from rank 0, which sent 32 in 1"),
            std::string::npos)
      << report.problems[0].message;
}

TEST(WrongPrograms, WaitForEachOther) {
  Programs programs = direct(2);
  for (std::size_t rank = 0; rank < 2; ++rank) step_of(programs, rank, 0, 0).waits.push_back({Index::plus(1), 0, 0, 0});
  expect_problem(
      programs, Kind::deadlock,
      "a circle of 2 lanes that wait for each other\n  rank 0, lane 'reduce', step 0, segment 0 waits for rank 1 "
      "to finish step 0 of lane 'reduce'\n  rank 1, ");
}

TEST(WrongPrograms, WaitForWhatNeverComes) {
  Programs programs = message();
  programs[0].program.lanes.clear();
  expect_problem(
      programs, Kind::deadlock,
      "rank 1, lane 'message', step 0, segment 0 waits for a message from rank 0\n  no lane of rank 0 sends to rank 1");
  programs = message();
  programs[1].program.lanes[0].steps.push_back(programs[1].program.lanes[0].steps[0]);
  expect_problem(programs, Kind::deadlock, "waits for a message from rank 0\n  lane 'message' of rank 0 has ended");
}

TEST(WrongPrograms, TouchBuffersOutsideTheCall) {
  Programs programs = direct(3);
  step_of(programs, 1, 0, 0).waits.pop_back();
  expect_problem(
      programs, Kind::race,
      "rank 1, lane 'reduce', step 0, segment 0 may touch input of rank 0 before that rank has entered the call");
  programs = direct(3);
  programs[2].program.lanes.pop_back();
  expect_problem(programs, Kind::race,
                 "rank 0, lane 'reduce', step 0, segment 0 may touch buffers of rank 2 after that rank has returned");
}

TEST(WrongPrograms, ReuseScratchTooEarly) {
  Programs programs = staged(3);
  for (Lowered& lowered : programs) lowered.program.scratch_depth = 1;
  EXPECT_TRUE(verify(programs, kOneSegment).ok());
  expect_problem(programs, Kind::race,
                 "reads block 2 of scratch of rank 0, and nothing orders it with rank 0, lane 'in', step 0, segment 1, "
                 "which writes it",
                 kFourSegments);
}

TEST(WrongPrograms, WriteWhatAnotherLaneStillReads) {
  Programs programs = spread();
  Program& program = programs[1].program;
  const Operand scratch = Operand::own(Buffer::scratch, {}), output = Operand::own(Buffer::output, {});
  program.scratch_planes = 1;
  program.lanes[0].published = true;
  program.lanes[0].steps[0].destinations = {scratch};
  program.lanes[0].steps.push_back({StepOp::copy, false, {output}, {scratch}, {}});
  const Step spoil{StepOp::copy, false, {scratch}, {Operand::own(Buffer::input, {})}, {{Index::plus(0), 0, 0, 0}}};
  program.lanes.push_back({"spoil", false, {spoil}});
  expect_problem(
      programs, Kind::race,
      "rank 1, lane 'spoil', step 0, segment 0 writes block 0 of scratch of rank 1, and nothing orders it with "
      "rank 1, lane 'message', step 1, segment 0, which reads it");
  program.lanes[1].steps[0].waits[0].step = 1;
  EXPECT_TRUE(verify(programs, kOneSegment).ok());
}

TEST(WrongPrograms, WriteTheOutputBeforeTheyHaveHeardFromEverySender) {
  Programs programs = programs_of(*find_algorithm(Verb::all_reduce, "recursive_doubling"), 4, shared_memory(2));
  EXPECT_TRUE(verify(programs, kFourSegments).ok());
  step_of(programs, 1, 0, 1).destinations.push_back(Operand::own(Buffer::output, {}));
  expect_problem(programs, Kind::early_output,
                 "rank 1, lane 'exchange', step 1, segment 0 writes output before every in-edge was heard: no message "
                 "from rank 3 need have come by then",
                 kFourSegments);
}

TEST(WrongPrograms, HearInALaneThatTheWritingLaneDoesNotWaitFor) {
  Programs programs = spread();
  Program& program = programs[1].program;
  program.scratch_planes = 1;
  program.lanes[0].published = true;
  program.lanes[0].steps[0].destinations = {Operand::own(Buffer::scratch, {})};
  const Step write{StepOp::copy, false, {Operand::own(Buffer::output, {})}, {Operand::own(Buffer::input, {})}, {}};
  program.lanes.push_back({"write", false, {write}});
  expect_problem(programs, Kind::early_output, "rank 1, lane 'write', step 0, segment 0 writes output before");
  program.lanes[1].steps[0].waits = {{Index::plus(0), 0, 0, 0}};
  expect_problem(programs, Kind::wrong_result,
                 "holds block 0 of rank 1's input where block 0 of rank 0's input belongs");
}

TEST(WrongPrograms, WorkOnlyOutOfPlace) {
  Programs programs = programs_of(*find_algorithm(Verb::all_reduce, "exchange"), 2, shared_memory(1));
  for (Lowered& lowered : programs) {
    std::vector<Step>& steps = lowered.program.lanes[0].steps;
    const Operand input = Operand::own(Buffer::input, {}), output = Operand::own(Buffer::output, {});
    const Operand peer = Operand::slot(Index::plus(1));
    steps.insert(steps.begin() + 1, Step{StepOp::copy, false, {output}, {peer}, {}});
    steps[2].sources = lowered.program.rank == 0 ? std::vector{input, output} : std::vector{output, input};
  }
  EXPECT_TRUE(verify(programs, kOneSegment).ok());
  VerifyOptions in_place = kOneSegment;
  in_place.in_place = true;
  expect_problem(programs, Kind::wrong_result, "block 0 of rank 0's output holds the contribution of rank 1 twice",
                 in_place);
}

TEST(Handmade, CreditsOrderMemory) {
  EXPECT_TRUE(verify(ordered_by_credits(1, 1), kFourSegments).ok());
  EXPECT_TRUE(verify(ordered_by_credits(2, 2), kFourSegments).ok());
  EXPECT_TRUE(verify(ordered_by_credits(2, 1), kFourSegments).ok());
  expect_problem(ordered_by_credits(1, 2), Kind::race,
                 "rank 1, lane 'take', step 0, segment 0 reads block 1 of scratch of rank 1, and nothing orders it "
                 "with rank 0, lane 'give', step 1, segment 1",
                 kFourSegments);
  EXPECT_TRUE(verify(ordered_by_credits(1, 2), kOneSegment).ok());
}

TEST(Handmade, MessagesOrderMemory) {
  EXPECT_TRUE(verify(ordered_by_messages(), kFourSegments).ok());
  Programs programs = ordered_by_messages();
  std::swap(step_of(programs, 0, 0, 1), step_of(programs, 0, 0, 2));
  expect_problem(programs, Kind::race, "after that rank has returned");
}

TEST(Problems, AreBounded) {
  Programs programs = direct(33);
  for (Lowered& lowered : programs) lowered.program.lanes[0].steps[0].waits.clear();
  EXPECT_EQ(verify(programs, kFourSegments).problems.size(), 16u);
}

}  // namespace
}  // namespace tutti::schedule
