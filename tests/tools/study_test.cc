// Studies: who is named as the one that all wait for, by lot and in real jobs; what bandwidth and scaling tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "shell.h"
#include "tools/serial_share.h"
#include "tools/straggler.h"
#include "tools/visits.h"

namespace tutti::tools {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kRanks = 6, kSteps = 25;
constexpr double kWork = 1000;

// Ranks that work for a millisecond, a tenth more or less, with a hiccup now and then.
std::vector<std::vector<double>> arrivals_of(unsigned seed, std::size_t slow, double factor, std::size_t from = 0) {
  std::mt19937 chance(seed);
  std::normal_distribution<double> noise(0, kWork / 10);
  std::uniform_real_distribution<double> lot(0, 1);
  std::vector<std::vector<double>> arrivals(kSteps, std::vector<double>(kRanks));
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const bool is_slow = rank == slow && step >= from;
      arrivals[step][rank] = kWork * (is_slow ? factor : 1) + noise(chance) + (lot(chance) < 0.05 ? kWork : 0);
    }
  }
  return arrivals;
}

TEST(Straggler, IsNamedWhereThereIsOne) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const std::size_t slow = seed % kRanks;
    const std::optional<Straggler> found = find_straggler(arrivals_of(seed, slow, 2), 2 * kWork);
    ASSERT_TRUE(found) << seed;
    EXPECT_EQ(found->rank, slow) << seed;
    EXPECT_NEAR(found->late_us, kWork, kWork / 3) << seed;
  }
}

TEST(Straggler, IsNobodyWhereAllAreAlike) {
  for (unsigned seed = 0; seed < 200; ++seed) EXPECT_FALSE(find_straggler(arrivals_of(seed, 0, 1), kWork)) << seed;
}

TEST(Straggler, OfTwoRanksIsTheOneThatComesLater) {
  std::vector<std::vector<double>> arrivals;
  for (int step = 0; step < 10; ++step) arrivals.push_back({0.0, 900.0 + step});
  const std::optional<Straggler> found = find_straggler(arrivals, 2000);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1U);
  EXPECT_NEAR(found->late_us, 900, 10);
}

TEST(Straggler, IsToldSinceWhen) {
  std::vector<std::vector<double>> arrivals = arrivals_of(3, 2, 4, 5);
  const std::optional<Straggler> found = find_straggler(arrivals, 3 * kWork);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2U);
  EXPECT_EQ(found->since, 5U);
}

// However it ends: the last step is one like others.
TEST(Straggler, IsToldSinceWhenAlsoWhereItIsNotLastInTheEnd) {
  std::vector<std::vector<double>> arrivals(20, std::vector<double>{0, 0, 900});
  for (const std::size_t step : {0U, 1U, 2U, 11U, 19U}) arrivals[step] = {300, 0, 0};
  const std::optional<Straggler> found = find_straggler(arrivals, 1000);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2U);
  EXPECT_EQ(found->since, 3U);
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto by_lot = find_straggler(arrivals_of(seed, 1, 1.3), kWork);
    EXPECT_TRUE(!by_lot || by_lot->since < kSteps) << seed;
  }
}

TEST(Visits, DropAllThatTheFirstOnesMeasured) {
  struct Measured {
    double time = 0, share = 0;
  };
  double visits = 0;
  const auto seen = Visits(2, 1, 3, "test").run([&](std::size_t point) {
    ++visits;
    return Measured{visits, 10 * visits + static_cast<double>(point)};
  });
  ASSERT_EQ(seen.size(), 2U);
  for (const std::vector<Measured>& of_point : seen) {
    ASSERT_EQ(of_point.size(), 1U);
    EXPECT_GT(of_point.front().time, 2);
    EXPECT_GT(of_point.front().share, 30);
  }
}

TEST(Visits, GoInAnotherOrderEveryRoundAndDropTheFirst) {
  constexpr std::size_t kPoints = 6;
  constexpr int kRounds = 4;
  const auto order_of = [](std::uint64_t seed, std::vector<std::vector<double>>* kept = nullptr) {
    std::vector<std::size_t> order;
    const auto seen = Visits(kPoints, kRounds, seed, "test").run([&](std::size_t point) {
      order.push_back(point);
      return static_cast<double>(order.size());
    });
    if (kept != nullptr) *kept = seen;
    return order;
  };
  std::vector<std::vector<double>> seen;
  const std::vector<std::size_t> order = order_of(7, &seen);
  EXPECT_EQ(order, order_of(7)) << "a seed is an order";
  EXPECT_NE(order, order_of(8));
  ASSERT_EQ(order.size(), kPoints * (kRounds + 1)) << "one round more, which warms up";
  std::set<std::vector<std::size_t>> rounds;
  for (std::size_t round = 0; round <= kRounds; ++round) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(round * kPoints);
    std::vector<std::size_t> points(begin, begin + kPoints);
    rounds.insert(points);
    std::ranges::sort(points);
    EXPECT_THAT(points, ElementsAre(0, 1, 2, 3, 4, 5)) << "every point in every round";
  }
  EXPECT_EQ(rounds.size(), kRounds + 1U) << "no order twice";
  ASSERT_EQ(seen.size(), kPoints);
  for (const std::vector<double>& of_point : seen) {
    EXPECT_EQ(of_point.size(), static_cast<std::size_t>(kRounds));
    for (const double number : of_point) EXPECT_GT(number, kPoints) << "none of the first round";
  }
}

TEST(SerialShare, IsTheOneThatTimesWereMadeOf) {
  const std::vector<int> ranks{1, 2, 4, 8};
  for (const double share : {0.0, 0.1, 0.5, 1.0}) {
    std::vector<double> seconds;
    for (const int n : ranks) seconds.push_back(3 * (share + (1 - share) / n));
    EXPECT_NEAR(serial_share(ranks, seconds), share, 1e-12);
  }
  EXPECT_EQ(serial_share({1}, {3}), 0) << "one point tells nothing";
}

TEST(SerialShare, IsNoMoreThanAllAndSlowerIsMoreThanTheSpread) {
  EXPECT_EQ(serial_share({1, 2}, {1, 1.01}), 1);
  EXPECT_EQ(words_of_serial_share(1, false), "serial share 100 %: more ranks do not make it quicker");
  EXPECT_EQ(words_of_serial_share(1, true), "serial share 100 %: more ranks make it slower");
  EXPECT_EQ(words_of_serial_share(0.5, false),
            "serial share 50.0 %: no number of ranks makes it more than 2.0 times as quick");
  EXPECT_EQ(words_of_serial_share(-0.1, false), "serial share none that shows");
}

json study(const std::string& arguments) {
  const auto ended = testing::shell(std::string(TUTTI_TOOL) + " study " + arguments + " --json -");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  return json::parse(ended.output);
}

TEST(StudyStraggler, TellsBothVerbsHealthyAndSlowed) {
  const json told = study("straggler -n 3 --slow 1:3x --steps 3 --work-ms 5 -b 4K --rounds 1");
  ASSERT_EQ(told["rows"].size(), 4U);
  for (const json& row : told["rows"]) {
    EXPECT_EQ(row["named"].size(), 1U);
    EXPECT_GE(row["step_us"]["median"], row["slowed"].is_null() ? 5000 : 15000) << "all wait for the last";
    EXPECT_GT(row["simulated_us"], row["slowed"].is_null() ? 5000 : 15000);
  }
  for (const std::size_t healthy : {0U, 2U}) {
    const double later =
        told["rows"][healthy + 1]["simulated_us"].get<double>() - told["rows"][healthy]["simulated_us"].get<double>();
    EXPECT_LE(later, 10'000.001) << "the slow rank starts so much later";
    EXPECT_GT(later, 0);
  }
  EXPECT_THAT(told["machine"].get<std::string>(), HasSubstr("; Tutti "));
}

TEST(StudyBandwidth, TellsWhatWasMeasuredAndExpected) {
  const json told = study("bandwidth all_gather --ranks 2,3 -b 4K -e 64K -f 16 --rounds 2");
  ASSERT_EQ(told["rows"].size(), 4U);
  for (const json& row : told["rows"]) {
    EXPECT_GT(row["us"]["median"], 0);
    EXPECT_LE(row["us"]["least"], row["us"]["most"]);
    EXPECT_GT(row["predicted_us"], 0);
    // busbw of all_gather: (n - 1) / n of all bytes in that time.
    const double ranks = row["ranks"], bytes = row["bytes"], us = row["us"]["median"];
    EXPECT_NEAR(row["busbw"].get<double>(), (ranks - 1) / ranks * bytes / us * 1e-3, 0.01 * row["busbw"].get<double>());
  }
}

TEST(StudyScaling, TellsStrongAndWeak) {
  const json told = study("scaling --ranks 1,2 -b 4K --work-ms 10 --steps 3 --rounds 1 --html scaling.html");
  ASSERT_EQ(told["rows"].size(), 4U);
  EXPECT_EQ(told["rows"][0]["efficiency"], 1.0);
  EXPECT_GE(told["rows"][0]["seconds"]["median"], 0.010) << "one rank computes all of it";
  EXPECT_GE(told["rows"][1]["seconds"]["median"], 0.005) << "strong: half of it each";
  EXPECT_GE(told["rows"][3]["seconds"]["median"], 0.010) << "weak: as much each";
  EXPECT_TRUE(told.contains("serial_share"));
  for (const json& row : told["rows"]) {
    const double first = told["rows"][row["scaling"] == "weak" ? 2 : 0]["seconds"]["median"];
    const double speedup =
        first / row["seconds"]["median"].get<double>() * (row["scaling"] == "weak" ? row["ranks"].get<double>() : 1);
    EXPECT_NEAR(row["speedup"].get<double>(), speedup, 1e-9);
    EXPECT_NEAR(row["efficiency"].get<double>(), speedup / row["ranks"].get<double>(), 1e-9);
    EXPECT_GT(row["gamma"].get<double>(), 0) << row.dump();
  }
  const auto page = testing::shell("cat scaling.html && rm scaling.html");
  EXPECT_THAT(page.output, AllOf(HasSubstr("<svg"), HasSubstr("efficiency"), HasSubstr("core")));
}

TEST(StudyScaling, RunsAProgramWithItsShareOfWork) {
  const auto ended = testing::shell(std::string(TUTTI_TOOL) +
                                    " study scaling --ranks 1,2 --per-rank 3 --rounds 1 -- sh -c 'echo work {}'");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("work 6"), HasSubstr("work 3"), HasSubstr("weak")));
  const auto shuffled = testing::shell(std::string(TUTTI_TOOL) +
                                       " study scaling --ranks 1,3,2 --per-rank 5 --rounds 1 -- sh -c 'echo work {}'");
  EXPECT_EQ(testing::count_of(shuffled.output, "work 15\n"), 2 * (1 + 3 + 2) + 2 * 3) << "strong, and weak of three";
}

TEST(Study, RefusesWithTheRemedy) {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const auto ended = testing::shell(std::string(TUTTI_TOOL) + " study " + arguments);
    EXPECT_EQ(ended.exit_code, 2) << arguments;
    EXPECT_THAT(ended.output, HasSubstr(words));
  };
  refused("straggler -n 4 --slow 9:2x", "ranks are 0 to 3");
  refused("straggler --slow 2", "such as 3:2x");
  refused("bandwidth all_redcue", "did you mean all_reduce");
  refused("bandwidth --ranks 1", "one rank moves nothing");
  refused("scaling --ranks 2,4", "begins with 1");
  refused("scaling --ranks 1,2 -- ./train --batch {}", "--per-rank");
  refused("scaling --ranks 1,2 --per-rank 32", "give it behind --");
  refused("scaling --ranks 1,2 --per-rank 0 -- ./train", "--per-rank");
  refused("scaling --verb send_recv", "a message is no call of all ranks");
  for (const char* option : {"--html", "--json"}) {
    for (const char* path : {"no-such-folder/a.html", "."})
      refused("straggler --work-ms 100000 " + std::string(option) + " " + path, "so nothing was measured");
  }
  const auto failed =
      testing::shell(std::string(TUTTI_TOOL) + " study scaling --ranks 1,2 --rounds 1 -- sh -c 'exit 3'");
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.output, HasSubstr("failed on"));
}

}  // namespace
}  // namespace tutti::tools
