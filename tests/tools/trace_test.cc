// What is told of a trace: every figure of tests/golden/trace/three_ranks.json computed by hand, and intervals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/formatted.h"
#include "golden_trace.h"
#include "tools/trace/calls.h"
#include "tools/trace/critical_path.h"
#include "tools/trace/shares.h"
#include "tools/trace/told.h"
#include "tools/trace/tutti_trace.h"
#include "tutti/error.h"

namespace tutti::analysis {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

void expect_shares(const Shares& of, double compute, double communication, double exposed, double waiting) {
  EXPECT_NEAR(of.compute_us, compute, kNear);
  EXPECT_NEAR(of.communication_us, communication, kNear);
  EXPECT_NEAR(of.exposed_us, exposed, kNear);
  EXPECT_NEAR(of.waiting_us, waiting, kNear);
  EXPECT_NEAR(of.other_us(), 0, kNear);
}

TEST(Intervals, AreUnitedCutAndTakenAway) {
  const auto text = [](const Intervals& of) {
    std::ostringstream words;
    for (const Interval& one : of) words << one.begin_us << "-" << one.end_us << " ";
    return words.str();
  };
  const Intervals all = united({{5, 7}, {0, 2}, {1, 3}, {7, 8}, {4, 4}});
  EXPECT_EQ(text(all), "0-3 5-8 ");
  EXPECT_EQ(length_us(all), 6);
  EXPECT_EQ(text(within(all, {2, 6})), "2-3 5-6 ");
  EXPECT_EQ(text(within(all, {3, 5})), "");
  EXPECT_EQ(text(without(all, {{1, 2}, {2.5, 6}})), "0-1 2-2.5 6-8 ");
  EXPECT_EQ(text(without(all, {})), text(all));
  EXPECT_EQ(text(without({{0, 10}}, all)), "3-5 8-10 ");
}

// Every rank has four steps of 1000 us, each with one async all_reduce, for whose end the program waits; in us since
// the step began:
//
//   step   entered            all in   ended   the program waits from
//   0      500, 520, 510         520     620   600, 600, 600
//   1, 3   500, 520, 700         700     800   600, 620, 710
//   2      500, 520, 700         700     950   600, 620, 710
//
// Step 0: each rank is held up for 20, so it computes for 980; the call is under way from all in for 100, of which 20
// are not covered; nobody had still to come when they began to wait. Steps 1 and 3: held up for 200, 180, 90; the call
// takes 100, of which 100, 100 and 90 are not covered; before that ranks 0 and 1 waited for rank 2 for 100 and 80. Step
// 2 is the same with 150 more of communication.
TEST(Shares, OfStepsAndRanksAreThoseComputedByHand) {
  const std::vector<StepShares> steps = shares_by_step(three_ranks());
  ASSERT_EQ(steps.size(), 4U);
  for (const RankShares& of : steps[0].ranks) expect_shares(of.shares, 980, 100, 20, 0);
  for (const std::size_t step : {1U, 3U}) {
    expect_shares(steps[step].ranks[0].shares, 800, 100, 100, 100);
    expect_shares(steps[step].ranks[1].shares, 820, 100, 100, 80);
    expect_shares(steps[step].ranks[2].shares, 910, 100, 90, 0);
  }
  expect_shares(steps[2].ranks[0].shares, 650, 250, 250, 100);
  expect_shares(steps[2].ranks[1].shares, 670, 250, 250, 80);
  expect_shares(steps[2].ranks[2].shares, 760, 250, 240, 0);
  // Of step 2: (650 + 670 + 760) / 3, and 250, 740 / 3, 180 / 3 beside it.
  expect_shares(steps[2].mean, 2080. / 3, 250, 740. / 3, 60);
  EXPECT_NEAR(steps[2].mean.gamma_raw(), 750. / 2080, kNear);
  EXPECT_NEAR(steps[2].mean.gamma_exposed(), 740. / 2080, kNear);

  // Rank 0: (980 + 800 + 650 + 800) / 4, (100 + 100 + 250 + 100) / 4, (20 + 100 + 250 + 100) / 4, 300 / 4.
  const StepShares mean = mean_step(steps);
  expect_shares(mean.ranks[0].shares, 807.5, 137.5, 117.5, 75);
  expect_shares(mean.ranks[1].shares, 822.5, 137.5, 117.5, 60);
  expect_shares(mean.ranks[2].shares, 890, 137.5, 110, 0);
  expect_shares(mean.mean, 840, 137.5, 115, 45);
  EXPECT_NEAR(mean.mean.gamma_raw(), 137.5 / 840, kNear);
}

TEST(Shares, OfATraceWithoutStepsAreThoseOfAllOfIt) {
  TracedJob trace = three_ranks();
  for (RankTimeline& rank : trace.ranks) rank.steps.clear();
  const std::vector<StepShares> steps = shares_by_step(trace);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_FALSE(steps[0].step);
  // Rank 0 from 0 to 4020: besides its steps, a blocking send for 10 behind a pause of 10.
  expect_shares(steps[0].ranks[0].shares, 4 * 807.5 + 10, 4 * 137.5 + 10, 4 * 117.5 + 10, 300);
  // Rank 2 to 4030: it waited from 4005 for a message that was sent at 4010.
  expect_shares(steps[0].ranks[2].shares, 4 * 890. + 5, 4 * 137.5 + 20, 4 * 110. + 20, 5);
}

// Four all_reduces of 3,000,000 bytes take 100, 100, 250 and 100 us from when all were in; each moves 2 * 2/3 of the
// vector, 4,000,000 bytes: 16,000,000 in 550 us. 50 us were predicted for each: twice as much is usual, and the third
// took five times as much. The message of 2000 bytes took 20 us from when it was sent.
TEST(Calls, AreSummedByVerbBesideWhatWasPredicted) {
  const TracedJob trace = three_ranks();
  const std::vector<VerbTotals> totals = totals_of(trace);
  ASSERT_EQ(totals.size(), 2U);
  EXPECT_EQ(totals[0].verb, "all_reduce");
  EXPECT_EQ(totals[0].algorithm, "ring");
  EXPECT_EQ(totals[0].calls, 4U);
  EXPECT_EQ(totals[0].bytes, 12e6);
  EXPECT_NEAR(totals[0].took_us, 550, kNear);
  EXPECT_NEAR(totals[0].busbw, 16e6 / 550e-6 / 1e9, kNear);
  EXPECT_NEAR(totals[0].predicted_us, 200, kNear);
  EXPECT_NEAR(totals[0].usual_ratio, 2, kNear);
  EXPECT_EQ(totals[1].verb, "send_recv");
  EXPECT_NEAR(totals[1].took_us, 20, kNear);
  EXPECT_NEAR(totals[1].busbw, 0.1, kNear);
  EXPECT_EQ(totals[1].usual_ratio, 0);

  const std::vector<Outlier> outliers = outliers_of(trace);
  ASSERT_EQ(outliers.size(), 1U);
  EXPECT_EQ(name_of(trace.calls[outliers[0].call]), "7b#2");
  EXPECT_NEAR(outliers[0].ratio, 5, kNear);
  EXPECT_EQ(step_of(trace, trace.calls[outliers[0].call]), 2);
}

// In steps 1 to 3 ranks 0 and 1 wait 100 and 80 us for rank 2, which comes 180 us behind the middle of the three; in
// step 0 the last is rank 1.
TEST(Calls, TellWhoWaitedForWhom) {
  const TracedJob trace = three_ranks();
  EXPECT_THAT(waits_of(trace),
              ElementsAre(Pair(Pair(0, 2), DoubleNear(300, kNear)), Pair(Pair(1, 2), DoubleNear(240, kNear))));
  const auto straggler = straggler_of(trace);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 2U);
  EXPECT_NEAR(straggler->late_us, 180, kNear);
  EXPECT_NEAR(straggler->share, 0.75, kNear);
  EXPECT_EQ(straggler->since, 1);
}

TEST(Calls, NameNobodyByAFewOfThemWithoutSteps) {
  TracedJob trace = three_ranks();
  for (RankTimeline& rank : trace.ranks) rank.steps.clear();
  EXPECT_FALSE(straggler_of(trace)) << "four calls";
  for (int i = 0; i < 8; ++i) trace.calls.push_back(trace.calls[1]);
  const auto straggler = straggler_of(trace);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 2U);
}

// Iterations of eight calls, in the first of which rank 1 of three is late by half of what an iteration takes: without
// steps it is last in an eighth of the calls alone.
TEST(Calls, NameWhoIsLateOnceInEveryFewOfThem) {
  TracedJob trace;
  trace.ranks.resize(3);
  for (int rank = 0; rank < 3; ++rank) {
    trace.ranks[static_cast<std::size_t>(rank)].rank = rank;
    trace.ranks[static_cast<std::size_t>(rank)].whole = {0, 20 * 1000.};
  }
  for (int i = 0; i < 160; ++i) {
    TracedCall call;
    call.verb = "all_reduce";
    call.ranks = 3;
    const double begin = 125. * i, late = i % 8 == 0 ? 500 : 0;
    for (int rank = 0; rank < 3; ++rank)
      call.parts.push_back({rank, begin, begin, begin + 10, rank == 1 ? late : i % 3 == rank ? 2. : 0});
    trace.calls.push_back(call);
  }
  const auto straggler = straggler_of(trace);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 1U);
  EXPECT_EQ(straggler->stretch, 16U);
  EXPECT_NEAR(straggler->share, 1, kNear);
  EXPECT_GT(straggler->late_us, 900) << "of two iterations";
  EXPECT_THAT(to_text(trace, "run.json", std::nullopt),
              HasSubstr("the last in 100 % of stretches of 16 calls, since call 0"));
  EXPECT_EQ(to_json(trace, std::nullopt).at("straggler").at("calls_in_a_row"), 16);
  for (TracedCall& call : trace.calls)
    for (CallPart& part : call.parts) part.late_us = std::min(part.late_us, 2.);
  EXPECT_FALSE(straggler_of(trace)) << "by lots";
}

// What lies between steps, as an evaluation, makes none of them longer.
TEST(Calls, OfStepsAreHeldAgainstTheirLengthAndNotAgainstTheTrace) {
  TracedJob trace = three_ranks();
  for (RankTimeline& rank : trace.ranks) rank.whole.end_us += 100'000;
  const auto straggler = straggler_of(trace);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 2U);
}

TEST(Calls, OfStepsWithoutAWholeOneDoNotCount) {
  TracedJob trace = three_ranks();
  const auto of_step = [&](std::int64_t step) {
    return *std::ranges::find_if(trace.calls, [&](const TracedCall& call) { return step_of(trace, call) == step; });
  };
  const TracedCall last = of_step(3);
  for (std::int64_t step = 4; step < 10; ++step) {  // in steps 4 to 6 the call has lost a part
    const double shift = 1000. * static_cast<double>(step - 3);
    TracedCall call = last;
    for (CallPart& part : call.parts) {
      part.entered_us += shift;
      part.ready_us += shift;
      part.ended_us += shift;
    }
    if (step < 7) call.parts.pop_back();
    trace.calls.push_back(call);
    for (RankTimeline& rank : trace.ranks) {
      const Interval time = rank.steps.at(3);
      rank.steps[step] = {time.begin_us + shift, time.end_us + shift};
    }
  }
  const auto straggler = straggler_of(trace);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 2U);
  EXPECT_NEAR(straggler->share, 6. / 7, kNear) << "of steps 0 to 3 and 7 to 9";
  EXPECT_EQ(straggler->since, 1);
  for (TracedCall& call : trace.calls)
    if (call.parts.size() == 3 && step_of(trace, call) == 1) call.parts.pop_back();
  EXPECT_EQ(straggler_of(trace)->since, 2) << "by its number, not its place";
}

// The last step is one in which another rank came last.
TEST(Calls, TellOfAStragglerThatIsNotLastInTheEnd) {
  TracedJob trace = three_ranks();
  for (TracedCall& call : trace.calls)
    if (step_of(trace, call) == 3)
      for (CallPart& part : call.parts) part.late_us = part.rank == 1 ? 20 : 0;
  for (TracedCall& call : trace.calls)
    if (step_of(trace, call) == 0)
      for (CallPart& part : call.parts) part.late_us = part.rank == 2 ? 180 : 0;
  const auto straggler = straggler_of(trace);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 2U);
  EXPECT_EQ(straggler->since, 0);
  EXPECT_THAT(to_text(trace, "run.json", std::nullopt), HasSubstr("in 75 % of steps, since step 0"));
  EXPECT_EQ(to_json(trace, std::nullopt).at("straggler").at("since_step"), 0);
}

TEST(Calls, ThatLieOverEachOtherWaitOnce) {
  TracedJob trace = three_ranks();
  trace.ranks[0].waits.push_back({2, {1650, 1720}});  // 50 of it beside the wait from 1600 to 1700
  EXPECT_NEAR(waits_of(trace).at({0, 2}), 320, kNear);
}

TEST(Calls, AreTheSameInAStepAlone) {
  const TracedJob step = only_step(three_ranks(), 2);
  ASSERT_EQ(step.calls.size(), 1U);
  EXPECT_EQ(step.steps.size(), 5U);
  EXPECT_NEAR(waits_of(step).at({0, 2}), 100, kNear);
  EXPECT_FALSE(straggler_of(step)) << "one step is too few";
  for (const RankTimeline& rank : step.ranks)
    for (const Intervals* const times : {&rank.compute, &rank.communication, &rank.under_way})
      for (const Interval& time : *times) {
        EXPECT_GE(time.begin_us, rank.whole.begin_us);
        EXPECT_LE(time.end_us, rank.whole.end_us);
      }
  EXPECT_EQ(critical_path(step, 0).size(), 3U);
  const std::vector<StepShares> shares = shares_by_step(step);
  ASSERT_EQ(shares.size(), 1U);
  expect_shares(shares[0].ranks[0].shares, 650, 250, 250, 100);
}

// Of many ranks those that computed longest and shortest, and the pairs that waited most.
TEST(Told, OfManyRanksStillFitsAScreen) {
  TracedJob trace;
  trace.ranks.resize(40);
  for (int rank = 0; rank < 40; ++rank) {
    RankTimeline& timeline = trace.ranks[static_cast<std::size_t>(rank)];
    timeline.rank = rank;
    timeline.whole = {0, 1000};
    timeline.compute = {{0, 500. + rank}};
    if (rank != 39) timeline.waits.push_back({39, {900. - rank, 950}});
  }
  const std::string text = to_text(trace, "wide.json", std::nullopt);
  EXPECT_THAT(text, HasSubstr("\n      39       1 ms     539 us"));
  EXPECT_THAT(text, HasSubstr("\n  ... 28 ranks between these\n       5 "));
  EXPECT_THAT(text, HasSubstr("rank 38 for 39: 88 us\n  rank 37 for 39: 87 us\n"));
  EXPECT_LT(std::ranges::count(text, '\n'), 50);
}

TEST(TuttiTrace, HasWhatIsThereOfOneThatIsCutOff) {
  const std::string whole = golden_text("three_ranks.json");
  const std::string cut = whole.substr(0, whole.find("\"seq\":2"));
  const TracedJob trace = read(cut);
  EXPECT_THAT(trace.notes.back(), HasSubstr("cut off: "));
  EXPECT_THAT(trace.notes.back(), HasSubstr(" events are readable, up to 3.000 ms")) << "step 2 was whole";
  EXPECT_EQ(trace.calls.size(), 2U);
  const std::vector<StepShares> steps = shares_by_step(trace);
  expect_shares(steps[1].ranks[0].shares, 800, 100, 100, 100);
  EXPECT_THAT(to_text(trace, "cut.json", std::nullopt), HasSubstr("cut off"));
  const std::string nothing = to_text(read(whole.substr(0, whole.find("\"X\""))), "cut.json", std::nullopt);
  EXPECT_THAT(nothing, HasSubstr("no calls are in it"));
  EXPECT_THAT(nothing, Not(HasSubstr("where the time went"))) << "a table without rows";
}

TEST(TuttiTrace, TakesTheLastToEnterWhereNobodySaysWhenAllWereIn) {
  std::string text = golden_text("three_ranks.json");
  for (std::size_t at = 0; (at = text.find("\"all_in_us\"", at)) != std::string::npos;)
    text.replace(at, 11, "\"unknown\"");
  expect_shares(shares_by_step(read(text))[1].ranks[0].shares, 800, 100, 100, 100);
}

// A send of 100 us whose receiver came after 80 of them waited for it; one that had ended before was eager.
TEST(TuttiTrace, SendsWaitForTheirReceivers) {
  const auto communication_of = [](double received_us, double until_us) {
    std::string text = R"({"tutti":{"format":1,"job":"1","ranks":2,"communicators":[{"id":"1a","ranks":[0,1]}]},)"
                       R"("traceEvents":[)";
    text += formatted(R"({"ph":"X","cat":"call","name":"send_recv","pid":0,"tid":0,"ts":0,"dur":100,)"
                      R"("args":{"comm":"1a","seq":0,"bytes":8,"peer":1,"direction":"send"}},)"
                      R"({"ph":"X","cat":"call","name":"send_recv","pid":0,"tid":1,"ts":%g,"dur":%g,)"
                      R"("args":{"comm":"1a","seq":0,"bytes":8,"peer":0,"direction":"receive"}},)"
                      R"({"ph":"s","cat":"message","name":"message","id":1,"pid":0,"tid":0,"ts":0},)"
                      R"({"ph":"f","bp":"e","cat":"message","name":"message","id":1,"pid":0,"tid":1,"ts":%g}]})",
                      received_us, until_us - received_us, until_us - 0.001);
    return length_us(read(text).ranks[0].communication);
  };
  EXPECT_NEAR(communication_of(80, 105), 20, kNear);
  EXPECT_NEAR(communication_of(150, 160), 100, kNear);
}

// Of a v-variant each rank knows its own chunks alone.
TEST(TuttiTrace, HasTheBytesOfTheRankThatKnowsMost) {
  for (const auto& [first, second] : {std::pair(0, 96), std::pair(96, 0)}) {
    std::string text = R"({"tutti":{"format":1,"job":"1","ranks":2,"communicators":[{"id":"1a","ranks":[0,1]}]},)"
                       R"("traceEvents":[)";
    for (const int rank : {0, 1})
      text += formatted(R"({"ph":"X","cat":"call","name":"gather_v","pid":0,"tid":%d,"ts":0,"dur":10,)"
                        R"("args":{"comm":"1a","seq":0,"bytes":%d,"root":1}},)",
                        rank, rank == 0 ? first : second);
    text.back() = ']';
    text += '}';
    const TracedJob trace = read(text);
    ASSERT_EQ(trace.calls.size(), 1U);
    EXPECT_EQ(trace.calls[0].bytes, 96);
  }
}

// What it has before and behind is told all the same.
TEST(TuttiTrace, LeavesOutEventsThatAreNone) {
  const std::string whole = golden_text("three_ranks.json");
  const std::size_t calls = read(whole).calls.size();
  for (const char* odd :
       {R"({"ph":"X","cat":5,"name":"a","pid":0,"tid":0,"ts":1,"dur":1})",
        R"({"ph":"X","cat":"call","name":null,"pid":0,"tid":0,"ts":1,"dur":1,"args":{"comm":"7b","seq":90}})",
        R"({"ph":"X","cat":"call","name":"all_reduce","pid":0,"tid":0,"dur":1,"args":{"comm":"7b","seq":90}})",
        R"({"ph":"X","cat":"call","name":"all_reduce","pid":0,"tid":0,"ts":1,"dur":1,"args":"x"})",
        R"({"ph":"X","cat":"wait","name":"wait","pid":0,"tid":0,"ts":1,"dur":1,"args":{"peer":"x"}})",
        R"({"ph":"X","cat":"step","name":"copy","pid":0,"tid":0,"ts":1,"dur":1,"args":{"seq":"x"}})",
        R"({"ph":"s","id":1,"tid":"x","ts":1})", "null", "5", R"("x")", "[1, {}]"}) {
    std::string text = whole;
    text.insert(text.find(R"({"ph":"X")"), std::string(odd) + ",\n");
    const TracedJob trace = read(text);
    EXPECT_THAT(trace.notes, Contains("1 event cannot be read, and is left out")) << odd;
    EXPECT_EQ(trace.calls.size(), calls) << odd;
    EXPECT_NEAR(mean_step(shares_by_step(trace)).mean.compute_us, 840, kNear) << odd;
  }
}

TEST(TuttiTrace, SaysInWordsWhatItsFactsShouldBe) {
  const auto expect = [](const std::string& facts, const std::string& words) {
    try {
      static_cast<void>(read(R"({"tutti":)" + facts + R"(,"traceEvents":[]})"));
      ADD_FAILURE() << facts;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("run.json is no trace that can be read: " + words));
    }
  };
  expect("null", "tutti should be an object");
  expect("[1]", "tutti should be an object");
  expect(R"({"format":"1","ranks":2})", "tutti.format should be a number");
  expect(R"({"ranks":"two"})", "tutti.ranks should be a number");
  expect(R"({"ranks":2,"rows":[1]})", "tutti.rows[0] should be a string");
  expect(R"({"ranks":2,"parts":[{"rank":0},null]})", "tutti.parts[1] should be an object");
  expect(R"({"ranks":2,"communicators":[{"id":"1"}]})", "tutti.communicators[0].ranks is missing");
}

TEST(TuttiTrace, NumbersStepsThatHaveTheSameNumberSeveralTimes) {
  std::string text = golden_text("three_ranks.json");
  for (std::size_t at = 0; (at = text.find(R"("args":{"step":3})", at)) != std::string::npos; ++at)
    text.replace(at, 17, R"("args":{"step":0})");
  const TracedJob trace = read(text);
  EXPECT_THAT(step_numbers(trace), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("steps have the same number several times")));
  ASSERT_TRUE(straggler_of(trace));
  EXPECT_EQ(straggler_of(trace)->rank, 2U);
}

TEST(TuttiTrace, SaysWhereSomeRanksPartsAreMissing) {
  std::string text = golden_text("three_ranks.json");
  EXPECT_THAT(read(text).notes, Not(Contains(HasSubstr("parts are missing"))));
  for (std::size_t at = 0; (at = text.find("\"all_in_us\"", at)) != std::string::npos;)
    text.replace(at, 11, "\"unknown\"");
  const std::size_t call = text.find(R"("cat":"call")");
  text.replace(call, 12, R"("cat":"gone")");
  EXPECT_THAT(read(text).notes, Contains(HasSubstr("of 1 call some ranks' parts are missing")));
}

TEST(TuttiTrace, SaysThatARingHadNoRoomForMoreNames) {
  const std::string text =
      R"({"tutti":{"format":1,"job":"1","ranks":2,"parts":[{"rank":0,"nameless":3},{"rank":1,"found":false,)"
      R"("recorded":false}]},"traceEvents":[]})";
  EXPECT_THAT(read(text).notes, ElementsAre(HasSubstr("rank 0 had no room for more names")));
}

// Where a ring had no room for more communicators nobody knows which of them a call was of: two are not one.
TEST(TuttiTrace, KeepsCallsOfNamelessCommunicatorsApart) {
  std::string text = golden_text("three_ranks.json");
  for (std::size_t at = 0; (at = text.find(R"("comm":"7b")", at)) != std::string::npos;)
    text.replace(at, 11, R"("comm":"0")");
  const TracedJob trace = read(text);
  std::size_t parts = 0;
  for (const TracedCall& call : trace.calls) {
    EXPECT_EQ(call.parts.size(), 1U);
    parts += call.message ? 0 : 1;
  }
  EXPECT_EQ(parts, 12U);
  EXPECT_THAT(trace.notes, Contains(HasSubstr("12 parts of calls have no communicator")));
}

}  // namespace
}  // namespace tutti::analysis
