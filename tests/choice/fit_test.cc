// The fit of rates: from calls that were made up with known ones. What they depend on is found again, a few calls that
// something disturbed change little, and what they do not depend on stays as it was.
#include "choice/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>

#include "choice/size_table.h"
#include "schedule/algorithms/table.h"

namespace tutti::choice {
namespace {

using topology::Rates;

constexpr std::uint64_t kSizes[] = {8, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20};

Offers memory_offers() {
  Offers offers;
  offers.inside = {true, true, true, false, 4, 32 << 10};
  offers.scratch_bytes = 1 << 20;
  offers.segment_bytes = kSegmentBytes;
  return offers;
}

Offers stream_offers() {
  Offers offers;
  offers.segment_bytes = kSegmentBytes;
  return offers;
}

// Another machine than the usual one, in every way.
Rates other_than(Rates rates) {
  rates.step *= 1.7;
  rates.line *= 1.5;
  rates.message *= 2.2;
  rates.progress *= 0.6;
  rates.enter *= 3;
  rates.call *= 1.4;
  rates.copy *= 0.7;
  rates.peer *= 1.9;
  rates.push *= 0.6;
  rates.stream *= 2;
  rates.store *= 0.5;
  rates.reduce *= 1.5;
  rates.far = 1.8;
  rates.cache_bytes = 1 << 20;
  return rates;
}

// Every candidate at every size, as `tutti tune` would find it on a machine of these rates.
class Measured {
 public:
  Measured(int ranks, const Offers& offers, const Rates& truth) {
    for (const schedule::Algorithm& row : schedule::algorithms()) {
      const bool runs = (!row.scratch_windows || offers.inside.windows_to_scratch) &&
                        (!row.user_windows || offers.inside.windows_to_user) &&
                        !(row.only_messages && offers.inside.windows_to_scratch) && !row.single_copy &&
                        !row.hierarchical && schedule::fits(row, ranks) && row.generate({ranks, 0, 0}).channels == 1;
      if (!row.is_for_even() || row.verb == Verb::send_recv || !runs) continue;
      pricers_.emplace_back(row, ranks, offers);
      for (const std::uint64_t bytes : kSizes) {
        calls.push_back({&row, &pricers_.back(), bytes, pricers_.back().at(bytes, truth)});
        if (row.verb == Verb::barrier) break;
      }
    }
  }

  // Every time is off by a random factor of about 1 + `part`.
  void shake(double part) {
    std::normal_distribution<double> off(0, part);
    for (TimedCall& call : calls) call.seconds *= std::exp(off(random_));
  }
  // Something else ran on the machine: every `step`-th call took `factor` times as long.
  void disturb(std::size_t step, double factor) {
    for (std::size_t i = step / 2; i < calls.size(); i += step) calls[i].seconds *= factor;
  }

  std::vector<TimedCall> calls;

 private:
  std::deque<Pricer> pricers_;  // addresses last
  std::mt19937 random_{20};
};

void silent(double) {}

void expect_near(double found, double truth, double factor, const char* what) {
  EXPECT_LE(found, truth * factor) << what;
  EXPECT_GE(found, truth / factor) << what;
}

// What calls between ranks that share memory depend on.
void expect_memory_rates(const Rates& found, const Rates& truth, double factor) {
  expect_near(found.step, truth.step, factor, "step");
  expect_near(found.message, truth.message, factor, "message");
  expect_near(found.progress, truth.progress, factor, "progress");
  expect_near(found.enter, truth.enter, factor, "enter");
  expect_near(found.copy, truth.copy, factor, "copy");
  expect_near(found.peer, truth.peer, factor, "peer");
  expect_near(found.line, truth.line, factor, "line");
  expect_near(found.push, truth.push, factor, "push");
  expect_near(found.store, truth.store, factor, "store");
  expect_near(found.reduce, truth.reduce, factor, "reduce");
  expect_near(found.far, truth.far, factor, "far");
  EXPECT_GT(found.cache_bytes, 2.0 * (256 << 10)) << "a call touches its input and its output";
  EXPECT_LT(found.cache_bytes, 2.0 * (2 << 20));
}

TEST(Fit, FindsTheRatesOfSharedMemory) {
  const Rates start = topology::usual_costs(2).memory, truth = other_than(start);
  const Measured measured(2, memory_offers(), truth);
  EXPECT_GT(error_of(measured.calls, start), 1.2);
  const Rates found = fit(measured.calls, start, silent);
  expect_memory_rates(found, truth, 1.15);
  EXPECT_LT(error_of(measured.calls, found), 1.01);
  EXPECT_LT(regret_of(measured.calls, found), 1.005);
}

TEST(Fit, FindsTheRatesOfStreams) {
  const Rates start = topology::usual_costs(2).streams, truth = other_than(start);
  const Measured measured(2, stream_offers(), truth);
  const Rates found = fit(measured.calls, start, silent);
  expect_near(found.message, truth.message, 1.1, "message");
  expect_near(found.call, truth.call, 1.1, "call");
  expect_near(found.stream, truth.stream, 1.1, "stream");
  expect_near(found.copy, truth.copy, 1.3, "copy");
  expect_near(found.reduce, truth.reduce, 1.3, "reduce");
  expect_near(found.far, truth.far, 1.1, "far");
  EXPECT_LT(error_of(measured.calls, found), 1.01);
}

TEST(Fit, WhatNoCallDependsOnStaysAsItWas) {
  const Rates start = topology::usual_costs(2).memory;
  const Measured measured(2, memory_offers(), other_than(start));
  const Rates found = fit(measured.calls, start, silent);
  EXPECT_DOUBLE_EQ(found.call, start.call) << "no streams";
  EXPECT_DOUBLE_EQ(found.stream, start.stream);
  EXPECT_DOUBLE_EQ(found.turn, start.turn) << "every rank has a core";
  EXPECT_EQ(found.cores, start.cores);
}

TEST(Fit, NothingMeasuredChangesNothing) {
  const Rates start = topology::usual_costs(2).memory;
  EXPECT_EQ(fit({}, start, silent), start);
  EXPECT_EQ(error_of({}, start), 1);
  EXPECT_EQ(regret_of({}, start), 1);
}

TEST(Fit, StandsNoise) {
  const Rates start = topology::usual_costs(2).memory, truth = other_than(start);
  Measured measured(2, memory_offers(), truth);
  measured.shake(0.1);
  const Rates found = fit(measured.calls, start, silent);
  expect_memory_rates(found, truth, 1.6);
  EXPECT_LT(error_of(measured.calls, found), 1.01 * error_of(measured.calls, truth)) << "no worse than the truth";
}

TEST(Fit, AFewDisturbedCallsChangeLittle) {
  const Rates start = topology::usual_costs(2).memory, truth = other_than(start);
  const Measured quiet(2, memory_offers(), truth);
  for (const double factor : {20.0, 1000.0}) {
    Measured measured(2, memory_offers(), truth);
    measured.disturb(15, factor);
    const Rates found = fit(measured.calls, start, silent);
    expect_memory_rates(found, truth, 1.2);
    EXPECT_LT(error_of(quiet.calls, found), 1.02) << "of the calls as they would have been";
  }
}

TEST(Fit, RanksThatOutnumberTheCoresShowWhatATurnTakes) {
  Rates start = topology::usual_costs(2).memory, truth = start;
  truth.turn *= 2.5;
  const Measured measured(4, memory_offers(), truth);
  expect_near(fit(measured.calls, start, silent).turn, truth.turn, 1.1, "turn");
}

TEST(Fit, SaysHowFarItIs) {
  const Rates start = topology::usual_costs(2).memory;
  const Measured measured(2, memory_offers(), other_than(start));
  std::vector<double> heard;
  fit(measured.calls, start, [&](double part) { heard.push_back(part); });
  ASSERT_GT(heard.size(), 2U);
  EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
  EXPECT_GT(heard.front(), 0);
  EXPECT_DOUBLE_EQ(heard.back(), 1);
}

TEST(Fit, TheErrorIsAFactorInTheMean) {
  const Rates rates = topology::usual_costs(2).memory;
  Measured measured(2, memory_offers(), rates);
  EXPECT_DOUBLE_EQ(error_of(measured.calls, rates), 1);
  for (std::size_t i = 0; i < measured.calls.size(); ++i) measured.calls[i].seconds *= i % 2 == 0 ? 2 : 0.5;
  EXPECT_NEAR(error_of(measured.calls, rates), 2, 1e-9) << "twice too long is as bad as half";
  measured.calls.resize(2);
  measured.calls[0].seconds = measured.calls[0].pricer->at(measured.calls[0].bytes, rates) * 4;
  measured.calls[1].seconds = measured.calls[1].pricer->at(measured.calls[1].bytes, rates);
  EXPECT_NEAR(error_of(measured.calls, rates), 2, 1e-9) << "one four times too long, one right";
}

// What was timed is predicted as it was, and between two sizes lies the mean, however much the rates are off and
// wherever they see the caches end.
TEST(Prices, BetweenTimedSizesLieOnALine) {
  const schedule::Algorithm& row = *schedule::find_algorithm(Verb::broadcast, "chain");
  const Pricer pricer(row, 2, memory_offers());
  Prices prices(other_than(topology::usual_costs(2).memory));
  float* const factors = prices.factors[&row - schedule::algorithms().data()];
  for (std::size_t i = 0; i < topology::kSurveySizes; ++i) factors[i] = i % 2 == 0 ? 0.4f : 2.5f;
  const auto timed = [&](std::size_t i) { return pricer.at(topology::kSurveyBytes[i], prices.rates) * factors[i]; };
  for (std::size_t i = 0; i < topology::kSurveySizes; ++i) {
    const std::uint64_t here = topology::kSurveyBytes[i];
    EXPECT_DOUBLE_EQ(pricer.at(here, prices), timed(i));
    if (i + 1 == topology::kSurveySizes) break;
    const std::uint64_t next = topology::kSurveyBytes[i + 1];
    EXPECT_DOUBLE_EQ(pricer.at((here + next) / 2, prices), (timed(i) + timed(i + 1)) / 2);
  }
  EXPECT_DOUBLE_EQ(pricer.at(4, prices), timed(0));
  const std::size_t last = topology::kSurveySizes - 1;
  EXPECT_DOUBLE_EQ(pricer.at(64 << 20, prices), pricer.at(64 << 20, prices.rates) * factors[last]);
}

// Ranks must choose alike, and do not know whether others call in place: what would have to keep its input aside there
// is chosen only where it gains more than a quarter of what that takes.
TEST(Prices, WhatKeepsItsInputAsideInPlaceMustGainMoreThanAPartOfThat) {
  constexpr std::size_t kSize = 6;
  constexpr std::uint64_t kBytes = topology::kSurveyBytes[kSize];
  const schedule::Algorithm& spread_out = *schedule::find_algorithm(Verb::all_to_all, "spread_out");
  const schedule::Algorithm& single_copy = *schedule::find_algorithm(Verb::all_to_all, "single_copy");
  Offers offers = memory_offers();
  offers.inside.single_copy = true;
  Prices prices(topology::usual_costs(2).memory);
  prices.rates.inside.cache_bytes = 2 * kBytes;
  const double other = Pricer(spread_out, 2, offers).at(kBytes, prices);
  const double by_rates = Pricer(single_copy, 2, offers).at(kBytes, prices.rates);
  const double aside = static_cast<double>(kBytes) * prices.rates.inside.copy;
  const auto chosen_where_it_gains = [&](double seconds) {
    prices.factors[&single_copy - schedule::algorithms().data()][kSize] =
        static_cast<float>((other - seconds) / by_rates);
    const std::vector<const schedule::Algorithm*> rows{&spread_out, &single_copy};
    const std::vector<SizeRow> chosen = size_table(rows, nullptr, 2, offers, prices).rows;
    return std::find_if(chosen.begin(), chosen.end(), [](const SizeRow& row) { return kBytes <= row.bytes; })
        ->algorithm;
  };
  ASSERT_GT(other, aside);
  EXPECT_EQ(chosen_where_it_gains(0.2 * aside), &spread_out);
  EXPECT_EQ(chosen_where_it_gains(0.3 * aside), &single_copy);
}

TEST(Fit, RegretIsWhatTheChoiceCosts) {
  const Rates rates = topology::usual_costs(2).memory;
  const Offers offers = memory_offers();
  const auto* ring = schedule::find_algorithm(Verb::all_gather, "ring");
  const auto* staged = schedule::find_algorithm(Verb::all_gather, "staged");
  const auto* direct = schedule::find_algorithm(Verb::all_gather, "direct");
  const Pricer by_ring(*ring, 2, offers), by_staged(*staged, 2, offers), by_direct(*direct, 2, offers);
  const bool ring_chosen = by_ring.at(4096, rates) < by_staged.at(4096, rates);
  std::vector<TimedCall> calls{{ring, &by_ring, 4096, ring_chosen ? 3e-6 : 2e-6},
                               {staged, &by_staged, 4096, ring_chosen ? 2e-6 : 3e-6}};
  EXPECT_NEAR(regret_of(calls, rates), 1.5, 1e-9) << "3 us by the one that is predicted to be quicker, 2 by the other";
  calls.push_back({direct, &by_direct, 4096, 1e-9});
  EXPECT_NEAR(regret_of(calls, rates), 1.5, 1e-9) << "symmetric buffers are another matter";
  calls.push_back({ring, &by_ring, 8192, 1e-6});
  EXPECT_NEAR(regret_of(calls, rates), std::sqrt(1.5), 1e-9) << "the mean over sizes, and nothing is lost there";
}

}  // namespace
}  // namespace tutti::choice
