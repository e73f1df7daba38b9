// The executor against the rule of when a step may fire (schedule/readers/firing.h): every row of the table, driven
// from one thread in seeded orders, beside a model that knows only the programs and the rule.
#include <gtest/gtest.h>

#include "effort.h"
#include "engine/executor.h"
#include "engine/held_run.h"
#include "schedule/algorithms/lower_row.h"

namespace tutti {
namespace {

using schedule::Algorithm;
using testing::HeldRun;
using testing::Lockstep;
using testing::ProgramCase;
using testing::Way;

struct Size {
  std::uint64_t segment_bytes;
  std::size_t count;
};
// One element, one segment, several segments, and more of them than an edge has places for.
constexpr Size kSizes[] = {{4096, 1}, {256u << 10, 1003}, {4096, 3001}, {512, 9001}};

// Every case of a row, in two orders; under sanitizers few of them, since there is only one thread.
template <class Use>
void for_each_case(int ranks, const Algorithm& row, bool in_place, Use&& use) {
  const std::vector<int> all = testing::roots_of(row, ranks);
  const std::span<const int> roots(all.data(), testing::kSanitized ? 1 : all.size());
  const std::span<const Size> sizes(kSizes, testing::kSanitized ? std::size(kSizes) - 1 : std::size(kSizes));
  for (const int root : roots) {
    for (const Size& size : sizes) {
      for (std::uint64_t seed = 1; seed <= (testing::kSanitized ? 1 : 2); ++seed) {
        use(size, ProgramCase{row, ranks, root, size.count, false}, seed);
        if (in_place) use(size, ProgramCase{row, ranks, root, size.count, true}, seed);
      }
    }
  }
}

class Firing : public ::testing::TestWithParam<std::tuple<Way, int>> {};

TEST_P(Firing, FollowsTheRule) {
  const auto [way, ranks] = GetParam();
  Lockstep group(ranks);
  std::uint64_t steps = 0, early = 0;
  for (const Algorithm& row : schedule::algorithms()) {
    if (!testing::runs_over(row, way, ranks)) continue;
    for_each_case(ranks, row, row.in_place, [&](const Size& size, const ProgramCase& c, std::uint64_t seed) {
      Offers offers = testing::offers_over(way, group.transport(0), size.segment_bytes);
      offers.inside.single_copy = false;  // not of programs that write again what they sent
      HeldRun run(group, c, offers);
      run.run(seed);
      steps += run.steps();
      early += run.model().early_messages();
    });
  }
  EXPECT_GT(steps, 0u);
  // Steps that were left half done are among them.
  if (way == Way::streams && ranks > 2 && !testing::kSanitized) {
    EXPECT_GT(early, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Firing,
                         ::testing::Combine(::testing::Values(Way::slots, Way::streams), ::testing::Range(1, 7)),
                         [](const auto& test) {
                           return testing::name_of(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

class SingleCopyFiring : public ::testing::TestWithParam<int> {};

TEST_P(SingleCopyFiring, FollowsTheRule) {
  Lockstep group(GetParam());
  Offers offers = group.transport(0).offers();
  if (!offers.inside.single_copy) GTEST_SKIP() << "ranks may not read each other's memory here";
  std::uint64_t steps = 0;
  for (const Algorithm& row : schedule::algorithms()) {
    if (!row.single_copy || !testing::runs_over(row, Way::slots, GetParam())) continue;
    for_each_case(GetParam(), row, runs_in_place(row), [&](const Size& size, const ProgramCase& c, std::uint64_t seed) {
      Offers lowered = schedule::offers_for(row, offers);
      lowered.segment_bytes = size.segment_bytes;
      HeldRun run(group, c, lowered);
      run.run(seed);
      steps += run.steps();
    });
  }
  EXPECT_GT(steps, 0u);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, SingleCopyFiring, ::testing::Range(1, 7), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti
