// What a call's time is made of: chains of steps by messages, by memory that is read, and on a rank itself.
#include "tools/trace/critical_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/formatted.h"
#include "golden_trace.h"
#include "tools/trace/calls.h"
#include "tools/trace/told.h"

namespace tutti::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// all in 2700 | rank 2: copy to 0, 2705-2745 | message | rank 0: reduce, 2750-2800 | message | rank 1: reduce,
// 2810-2940. What ranks 0 and 1 copied before that was done by 2722, long before their messages came.
TEST(CriticalPath, GoesFromRankToRankByMessages) {
  const TracedJob trace = three_ranks();
  const auto call = slowest_call(trace);
  ASSERT_TRUE(call);
  EXPECT_EQ(name_of(trace.calls[*call]), "7b#2");
  const std::vector<PathStep> path = critical_path(trace, *call);
  ASSERT_EQ(path.size(), 3U);
  const std::vector<int> ranks = {2, 0, 1};
  const std::vector<double> gaps = {5, 5, 10}, lengths = {40, 50, 130};
  for (std::size_t i = 0; i < path.size(); ++i) {
    EXPECT_EQ(trace.steps[path[i].step].rank, ranks[i]);
    EXPECT_NEAR(path[i].gap_us, gaps[i], kNear);
    EXPECT_NEAR(trace.steps[path[i].step].time.length_us(), lengths[i], kNear);
    EXPECT_EQ(path[i].by_message, i > 0);
  }
}

TEST(CriticalPath, StaysOnARankThatWasStillAtWork) {
  TracedJob trace = three_ranks();
  for (ScheduleStep& step : trace.steps)
    if (step.rank == 1 && step.number == 0) step.time.end_us = 2806;  // behind the end of the message's step, 2800
  const std::vector<PathStep> path = critical_path(trace, *slowest_call(trace));
  ASSERT_EQ(path.size(), 2U);
  EXPECT_EQ(trace.steps[path[0].step].rank, 1);
  EXPECT_FALSE(path[1].by_message);
  EXPECT_NEAR(path[1].gap_us, 4, kNear);
}

// While a step of rank 0 sends to rank 1, one of a call on another track comes and ends on the same row.
TEST(CriticalPath, KnowsASenderThatLastsBesideAnotherCall) {
  constexpr const char* kStep =
      R"({"ph":"X","cat":"step","name":"copy","pid":0,"tid":%d,"ts":%g,"dur":%g,"args":{"comm":"1a","seq":%d,"lane":0,)"
      R"("step":0,"segment":0,"%s":%d}},)";
  std::string text = R"({"tutti":{"format":1,"job":"1","ranks":2,"rows":["program","lane 0"],)"
                     R"("communicators":[{"id":"1a","ranks":[0,1]}]},"traceEvents":[)";
  for (const int seq : {0, 1})
    for (const int rank : {0, 1})
      text += formatted(R"({"ph":"X","cat":"call","name":"all_reduce","pid":0,"tid":%d,"ts":0,"dur":200,)"
                        R"("args":{"comm":"1a","seq":%d,"bytes":8,"async":true}},)",
                        rank, seq);
  text += formatted(kStep, 2, 10., 90., 0, "to", 1) + formatted(kStep, 2, 20., 10., 1, "to", 1) +
          formatted(kStep, 3, 50., 70., 0, "from", 0) + formatted(kStep, 3, 55., 5., 1, "from", 0);
  text += R"({"ph":"s","cat":"message","name":"message","id":1,"pid":0,"tid":2,"ts":10},)"
          R"({"ph":"f","bp":"e","cat":"message","name":"message","id":1,"pid":0,"tid":3,"ts":119.999}]})";
  const TracedJob trace = read(text);
  ASSERT_EQ(trace.steps.size(), 4U);
  EXPECT_EQ(trace.steps[2].sender, 0U);
  EXPECT_FALSE(trace.steps[3].sender);
  const std::vector<PathStep> path = critical_path(trace, 0);
  ASSERT_EQ(path.size(), 2U);
  EXPECT_EQ(trace.steps[path[0].step].rank, 0);
  EXPECT_TRUE(path[1].by_message);
}

// Times of a file are rounded: a step that ends where another one begins may end a little behind it.
TEST(CriticalPath, TakesTimesForTheSameThatDifferByRounding) {
  TracedJob trace = three_ranks();
  const std::vector<PathStep> exact = critical_path(trace, *slowest_call(trace));
  ASSERT_EQ(exact.size(), 3U);
  for (ScheduleStep& step : trace.steps)
    if (step.rank == 1 && step.number == 0) step.time.end_us = 2800.0000004;  // the message's step ends at 2800
  EXPECT_TRUE(critical_path(trace, *slowest_call(trace)).back().by_message);
}

double length_of(const std::vector<PathStep>& path) {
  double length = 0;
  for (const PathStep& one : path) length += one.gap_us + one.length_us;
  return length;
}

// Steps that read each other's memory have no flows: rank 1 copies in until 130, rank 0 reduces from it at once, and
// had copied in before the last rank came, at 100.
TEST(CriticalPath, GoesToTheRankWhoseMemoryIsRead) {
  constexpr const char* kStep =
      R"({"ph":"X","cat":"step","name":"%s","pid":0,"tid":%d,"ts":%.4f,"dur":%.4f,"args":{"comm":"1a","seq":0,)"
      R"("lane":%d,"step":0,"segment":0%s}},)";
  std::string text = R"({"tutti":{"format":1,"job":"1","ranks":2,"rows":["program","lane 0","lane 1"],)"
                     R"("communicators":[{"id":"1a","ranks":[0,1]}]},"traceEvents":[)";
  for (const int rank : {0, 1})
    text += formatted(R"({"ph":"X","cat":"call","name":"all_reduce","pid":0,"tid":%d,"ts":%d,"dur":%d,)"
                      R"("args":{"comm":"1a","seq":0,"bytes":8,"all_in_us":100}},)",
                      rank, 100 * rank, 200 - 100 * rank);
  text += formatted(kStep, "copy", 2, 5., 20., 0, "") + formatted(kStep, "copy", 2, 25., 20., 0, "") +
          formatted(kStep, "copy", 3, 110., 20., 0, "") +
          formatted(kStep, "reduce", 4, 130.0002, 50., 1, R"(,"from":1)");
  text.back() = ']';
  text += '}';
  const TracedJob trace = read(text);
  ASSERT_EQ(trace.steps.size(), 4U);
  const std::vector<PathStep> path = critical_path(trace, 0);
  ASSERT_EQ(path.size(), 2U) << "without what was done before all had come";
  EXPECT_EQ(path[0].step, 2U);
  EXPECT_NEAR(path[0].gap_us, 10, kNear);
  EXPECT_EQ(path[1].step, 3U);
  EXPECT_EQ(path[1].gap_us, 0) << "what rounding makes";
  EXPECT_FALSE(path[1].by_message);
  EXPECT_NEAR(length_of(path), 80, 1e-3);
  EXPECT_THAT(to_text(trace, "run.json", std::nullopt), Not(HasSubstr("e-")));
}

// Of a step that began before the last rank came, what lies behind that counts.
TEST(CriticalPath, BeginsWhenAllRanksHaveCome) {
  TracedJob trace = three_ranks();
  const std::size_t call = *slowest_call(trace);
  const double whole = length_of(critical_path(trace, call));
  EXPECT_NEAR(whole, 2940 - 2700, kNear);
  for (CallPart& part : trace.calls[call].parts) part.ready_us = 2730;  // while rank 2 copies
  const std::vector<PathStep> path = critical_path(trace, call);
  ASSERT_EQ(path.size(), 3U);
  EXPECT_EQ(path[0].gap_us, 0);
  EXPECT_NEAR(path[0].length_us, 15, kNear);
  EXPECT_NEAR(length_of(path), whole - 30, kNear);
  for (CallPart& part : trace.calls[call].parts) part.ready_us = 2745;  // just when it has
  EXPECT_EQ(critical_path(trace, call).size(), 2U);
}

TEST(CriticalPath, OfACallWithoutStepsIsEmpty) { EXPECT_THAT(critical_path(three_ranks(), 0), IsEmpty()); }

}  // namespace
}  // namespace tutti::analysis
