// Fragments of local updates: which parameters, when, and what that says.
#include "strategy/fragments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::strategy {
namespace {

using testing::ElementsAre;
using train::Spoken;

std::vector<std::size_t> cut(std::vector<std::size_t> elements, std::size_t fragments) {
  std::vector<TensorSize> sizes;
  for (const std::size_t each : elements) sizes.push_back({each, DType::float32});
  return cut_into_fragments(sizes, fragments);
}

TEST(Fragments, AreAboutEquallyLargeAndNeverWithoutAParameter) {
  EXPECT_THAT(cut({10, 10, 10, 10}, 2), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(cut({10, 10, 10, 10}, 1), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(cut({100, 1, 1, 1}, 2), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(cut({1, 1, 1, 100}, 2), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(cut({1, 1, 1, 100}, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(cut({0, 0, 0}, 3), ElementsAre(0, 1, 2));
  for (std::size_t fragments = 1; fragments <= 9; ++fragments) {
    const std::vector<std::size_t> of = cut({3, 500, 0, 7, 80, 80, 1, 2, 900}, fragments);
    EXPECT_TRUE(std::ranges::is_sorted(of));
    for (std::size_t fragment = 0; fragment < fragments; ++fragment)
      EXPECT_EQ(std::ranges::count(of, fragment) > 0, true) << fragment << " of " << fragments;
  }
}

TEST(Fragments, HaveTheirTurnOnceInEverySoManySteps) {
  const auto begins = [](std::int64_t every, std::size_t fragments) {
    std::vector<std::int64_t> steps;
    for (std::int64_t k = 0; k < 6; ++k) steps.push_back(begin_of_exchange(k, every, fragments));
    return steps;
  };
  EXPECT_THAT(begins(6, 3), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT(begins(7, 1), ElementsAre(7, 14, 21, 28, 35, 42));
  EXPECT_THAT(begins(5, 2), ElementsAre(3, 5, 8, 10, 13, 15));
  EXPECT_THAT(begins(1, 3), ElementsAre(1, 1, 1, 2, 2, 2));  // all of them in every step
}

TEST(Fragments, SayTheirBytesOnceInEverySoManySteps) {
  const train::Sentence plain = sentence_of({.every = 50, .replicas = 4, .fragments = {{4000}}});
  ASSERT_EQ(plain.size(), 1U);
  EXPECT_EQ(plain[0].every, 50);
  EXPECT_EQ(plain[0].ranks, 4);
  EXPECT_EQ(spoken(plain, Verb::all_reduce), (Spoken{1, 4000}));

  const train::Sentence more =
      sentence_of({.every = 50, .replicas = 4, .site_ranks = 2, .asynchronous = true, .fragments = {{4000}, {2000}}});
  EXPECT_EQ(spoken(more, Verb::all_reduce), (Spoken{3, 2 + 4000 + 2000}));
  EXPECT_EQ(spoken(more, Verb::all_gather), (Spoken{4, 2 * 4 * 8 + 2 * 2 * 8}));
  EXPECT_EQ(more[0].every, 1);

  const train::Sentence quantised = sentence_of({.every = 50, .replicas = 4, .fragments = {{600, true, 550}}});
  EXPECT_EQ(spoken(quantised, Verb::all_reduce), Spoken());
  EXPECT_EQ(spoken(quantised, Verb::all_to_all), (Spoken{1, 600}));
  EXPECT_EQ(spoken(quantised, Verb::all_gather), (Spoken{1, 550}));
}

}  // namespace
}  // namespace tutti::strategy
