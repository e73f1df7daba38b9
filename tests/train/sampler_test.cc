// The sampler: every example once per epoch, the same order on any number of ranks and on every machine, tails, and
// going on in the middle of an epoch.
#include "tutti/train/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "check.h"

namespace tutti::train {
namespace {

using tutti::testing::error_of;
using Examples = std::vector<std::int64_t>;

std::vector<Sampler> samplers_of(const SamplerOptions& options, int ranks) {
  std::vector<Sampler> samplers;
  for (int rank = 0; rank < ranks; ++rank) samplers.emplace_back(options, rank, ranks);
  return samplers;
}

// The next batch of all ranks, put together.
Examples next_batch(std::vector<Sampler>& samplers) {
  Examples all;
  for (Sampler& sampler : samplers) {
    const Examples own = sampler.next();
    all.insert(all.end(), own.begin(), own.end());
    EXPECT_EQ(sampler.position(), samplers[0].position());
  }
  return all;
}

Examples sorted(Examples examples) {
  std::sort(examples.begin(), examples.end());
  return examples;
}

Examples count_up(std::int64_t n) {
  Examples numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(SamplerTest, TakesEveryExampleOncePerEpoch) {
  for (const std::int64_t examples : {1, 2, 3, 5, 16, 17, 100, 1000, 4097}) {
    for (const int ranks : {1, 2, 3, 8}) {
      auto samplers = samplers_of({.examples = examples, .batch = 10, .seed = 7, .tail = Tail::keep}, ranks);
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        Examples all;
        std::int64_t batches = 0;
        for (; samplers[0].position().epoch == epoch; ++batches) {
          const Examples batch = next_batch(samplers);
          all.insert(all.end(), batch.begin(), batch.end());
        }
        ASSERT_EQ(sorted(all), count_up(examples)) << examples << " on " << ranks << " ranks";
        ASSERT_EQ(batches, samplers[0].batches_per_epoch());
      }
    }
  }
}

TEST(SamplerTest, DealsTheSameBatchesToAnyNumberOfRanks) {
  for (const Tail tail : {Tail::pad, Tail::drop, Tail::keep}) {
    const SamplerOptions options{.examples = 103, .batch = 24, .seed = 3, .tail = tail};
    auto alone = samplers_of(options, 1);
    std::vector<Examples> expected;
    for (int i = 0; i < 15; ++i) expected.push_back(next_batch(alone));
    for (const int ranks : {2, 3, 5, 7, 24}) {
      auto samplers = samplers_of(options, ranks);
      for (const Examples& batch : expected) ASSERT_EQ(next_batch(samplers), batch) << ranks;
    }
  }
}

TEST(SamplerTest, SharesDifferByOneAtMost) {
  auto samplers = samplers_of({.examples = 1000, .batch = 11}, 4);
  std::vector<std::size_t> sizes;
  for (Sampler& sampler : samplers) sizes.push_back(sampler.next().size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{3, 3, 3, 2}));
}

TEST(SamplerTest, Tails) {
  const auto batches = [](Tail tail) {
    auto samplers = samplers_of({.examples = 10, .batch = 4, .shuffle = false, .tail = tail}, 2);
    std::vector<Examples> epoch;
    while (samplers[0].position().epoch == 0) epoch.push_back(next_batch(samplers));
    EXPECT_EQ(static_cast<std::int64_t>(epoch.size()), samplers[0].batches_per_epoch());
    return epoch;
  };
  const Examples first{0, 1, 2, 3}, second{4, 5, 6, 7};
  EXPECT_EQ(batches(Tail::pad), (std::vector<Examples>{first, second, {8, 9, 0, 1}}));
  EXPECT_EQ(batches(Tail::drop), (std::vector<Examples>{first, second}));
  EXPECT_EQ(batches(Tail::keep), (std::vector<Examples>{first, second, {8, 9}}));
  auto few = samplers_of({.examples = 3, .batch = 8, .shuffle = false}, 2);
  EXPECT_EQ(next_batch(few), (Examples{0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(SamplerTest, GoesOnInTheMiddleOfAnEpochOnAnotherNumberOfRanks) {
  for (const Tail tail : {Tail::pad, Tail::drop, Tail::keep}) {
    const SamplerOptions options{.examples = 103, .batch = 24, .seed = 3, .tail = tail};
    for (int done = 0; done < 12; ++done) {
      auto whole = samplers_of(options, 2);
      for (int i = 0; i < done; ++i) next_batch(whole);
      auto resumed = samplers_of(options, 3);
      for (Sampler& sampler : resumed) sampler.set_position(whole[0].position());
      for (int i = 0; i < 12; ++i) ASSERT_EQ(next_batch(resumed), next_batch(whole)) << done;
    }
  }
}

TEST(SamplerTest, EpochsAndSeedsHaveTheirOwnOrders) {
  const auto order = [](std::uint64_t seed, std::int64_t epoch) {
    const Sampler sampler({.examples = 1000, .batch = 1, .seed = seed}, 0, 1);
    Examples examples;
    for (std::int64_t place = 0; place < 1000; ++place) examples.push_back(sampler.example_at(epoch, place));
    EXPECT_EQ(sorted(examples), count_up(1000));
    return examples;
  };
  std::set<Examples> orders;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::int64_t epoch = 0; epoch < 10; ++epoch) orders.insert(order(seed, epoch));
  }
  EXPECT_EQ(orders.size(), 100);
}

// Each of 20 examples comes to each of 20 places about equally often: chi squared of 400 cells, 361 degrees of freedom.
TEST(SamplerTest, EveryPlaceIsAsLikelyAsAnother) {
  const Sampler sampler({.examples = 20, .batch = 1, .seed = 5}, 0, 1);
  constexpr int kEpochs = 8000;
  std::vector<int> times(400);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::int64_t place = 0; place < 20; ++place) {
      ++times[static_cast<std::size_t>(20 * place + sampler.example_at(epoch, place))];
    }
  }
  double chi_squared = 0;
  for (const int n : times) chi_squared += (n - kEpochs / 20.0) * (n - kEpochs / 20.0) / (kEpochs / 20.0);
  EXPECT_LT(chi_squared, 361 + 5 * 27);
  EXPECT_GT(chi_squared, 361 - 5 * 27);
}

// A checkpoint of today is read by the library of tomorrow, on any machine.
TEST(SamplerTest, TheOrderIsThatOfEveryMachine) {
  Sampler sampler({.examples = 1000000, .batch = 8, .seed = 42}, 0, 1);
  sampler.set_position({.epoch = 3, .taken = 500000});
  EXPECT_EQ(sampler.next(), (Examples{905911, 491759, 498471, 665285, 118458, 899000, 723315, 862996}));
}

TEST(SamplerTest, BadInputGetsASentence) {
  const auto expect = [](auto call, const char* part) {
    const std::string text = error_of(call).what();
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect([] { Sampler({.examples = 0, .batch = 4}, 0, 1); }, "there are 0 examples");
  expect([] { Sampler({.examples = 100, .batch = 3}, 0, 4); }, "a batch of 3 on 4 ranks");
  expect([] { Sampler({.examples = 100, .batch = 8}, 4, 4); }, "rank 4 of 4");
  expect([] { Sampler({.examples = 5, .batch = 8, .tail = Tail::drop}, 0, 4); }, "more than the 5 examples");
  Sampler sampler({.examples = 100, .batch = 8}, 0, 4);
  expect([&] { sampler.set_position({.epoch = 1, .taken = 101}); }, "example 101 of epoch 1; there are 100 examples");
  expect([&] { (void)sampler.example_at(0, 100); }, "no example at place 100");
}

}  // namespace
}  // namespace tutti::train
