// The report of a communicator's calls, from marks that are made up; and of calls that are made.
#include "tutti/train/report.h"

#include <gtest/gtest.h>

#include <chrono>

#include "check.h"

namespace tutti::train {
namespace {

using testing::error_of;
using testing::require;

// Two marks that are 100 us apart, with two verbs between them.
struct Marks {
  Marks() {
    using std::chrono::microseconds;
    from.ranks = to.ranks = 3;
    from.counters.verbs[static_cast<std::size_t>(Verb::all_reduce)] = {5, 1000, microseconds(7), microseconds(9)};
    to.counters.verbs[static_cast<std::size_t>(Verb::all_reduce)] = {9, 5000, microseconds(27), microseconds(69)};
    to.counters.verbs[static_cast<std::size_t>(Verb::broadcast)] = {2, 10, microseconds(0), microseconds(4)};
    from.counters.busy = microseconds(9);
    to.counters.busy = microseconds(49);
    to.at = from.at + microseconds(100);
  }
  Mark from, to;
};

TEST(ReportOfCalls, TellsWhatAStepCalledAndWhereItsTimeWent) {
  const Marks marks;
  const Report told = report(marks.from, marks.to, 2);
  ASSERT_EQ(told.each_step.size(), 2U);
  EXPECT_EQ(told.each_step[0], (Phrase{Verb::all_reduce, "calls", 1000, 2, 3, 30, 10}));
  EXPECT_EQ(told.each_step[1], (Phrase{Verb::broadcast, "calls", 5, 1, 3, 2, 0}));
  EXPECT_FALSE(told.together);
  EXPECT_DOUBLE_EQ(told.times.total_us, 50);
  EXPECT_DOUBLE_EQ(told.times.waiting_us, 10);
  EXPECT_DOUBLE_EQ(told.times.computing_us, 40);
  EXPECT_DOUBLE_EQ(told.gamma_raw, 20.0 / 40);
  EXPECT_DOUBLE_EQ(told.gamma_exposed, 10.0 / 40);
}

TEST(ReportOfCalls, ThatDoNotComeOutEvenIsOfAllStepsTogether) {
  const Marks marks;
  const Report told = report(marks.from, marks.to, 4);
  EXPECT_TRUE(told.together);
  EXPECT_EQ(spoken(told.each_step, Verb::all_reduce), (Spoken{4, 4000}));
  EXPECT_EQ(spoken(told.each_step, Verb::broadcast), (Spoken{2, 10}));
  EXPECT_DOUBLE_EQ(told.times.total_us, 25);
}

// A program's own calls, in the words of strategies.
TEST(ReportOfCalls, TellsWhatAProgramCallsItself) {
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  testing::expect_all_ok(testing::run_ranks(testing::Ranks::threads, 2, [&](Communicator& comm) {
    std::vector<float> gradients(1000), values(2000);
    const Mark begin = mark(comm);
    for (int step = 0; step < 3; ++step) {
      Work first = comm.all_reduce_async(gradients);
      first.wait();
      comm.all_reduce(gradients);
      comm.all_gather(gradients, values);
    }
    const Mark end = mark(comm);
    const Report told = report(begin, end, 3);
    require(spoken(told.each_step, Verb::all_reduce) == Spoken{2, 8000}, "two all_reduces in a step");
    require(spoken(told.each_step, Verb::all_gather) == Spoken{1, 8000}, "and an all_gather");
    require(told.gamma_raw > 0 && told.gamma_exposed > 0, "measured");
    const std::string text = to_text(told);
    for (const char* part : {"calls of this rank, 2 ranks, after 3 steps\nevery step says\n  all_reduce", "ms, of them",
                             "exposed", "a step on average", "communication over computation"})
      require(contains(text, part), part + text);
    require(!contains(text, "model states") && !contains(text, "bucket"), "nothing that is not known");
    require(contains(to_text(report(begin, end, 2)), "all of them together say"), "not even");
    require(contains(to_json(told), "\"under_way_us\": "), "json");
    require(contains(error_of([&] { (void)report(begin, end, 0); }).what(), "0 steps"), "no steps");
    require(contains(error_of([&] { (void)report(end, begin); }).what(), "in order"), "the wrong way round");
  }));
}

}  // namespace
}  // namespace tutti::train
