// Every algorithm, proved: all rows x 1..33 ranks x odd counts x segments x in place or not x credits x roots.
#include "schedule/readers/verify.h"

#include <gtest/gtest.h>

#include <bit>
#include <ctime>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "program_sets.h"

namespace tutti::schedule {

// What a failing case is called.
void PrintTo(const Algorithm& algorithm, std::ostream* out) { *out << algorithm.name; }

namespace {

constexpr int kMostRanks = 33;

std::string words_of(const VerifyReport& report) {
  std::string text;
  for (const Problem& problem : report.problems) text += problem.message + "\n";
  return text;
}

std::uint64_t total_bytes(const VerifyReport& report) {
  std::uint64_t total = 0;
  for (const auto& [edge, bytes] : report.edge_bytes) total += bytes;
  return total;
}

std::vector<int> some_roots(const Algorithm& algorithm, int ranks) {
  if (!facts_of(algorithm.verb).rooted) return {0};
  std::vector<int> roots{0};
  for (const int root : {1, ranks / 2, ranks - 1}) {
    if (root > roots.back() && root < ranks) roots.push_back(root);
  }
  return roots;
}

std::string title_of(const Algorithm& algorithm) {
  return std::string(name_of(algorithm.verb)) + "_" + std::string(algorithm.name);
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {
 protected:
  void expect_proved(const std::vector<Lowered>& programs, const VerifyOptions& options) {
    const VerifyReport report = verify(programs, options);
    ASSERT_TRUE(report.ok()) << words_of(report) << programs.size() << " ranks, root " << programs[0].program.root
                             << ", " << options.count << " elements, " << options.segments << " segments, "
                             << options.credits << " credits" << (options.in_place ? ", in place" : "");
    // With few ranks another order may be the same: up to three of a chain, and any order of one.
    if (GetParam().canonical() || programs.size() >= 5) {
      ASSERT_EQ(report.canonical, GetParam().canonical()) << programs.size() << " ranks";
    }
  }

  void expect_all_proved(const Offers& offers) {
    const Algorithm& algorithm = GetParam();
    for (int ranks = 1; ranks <= most_ranks(algorithm, kMostRanks); ++ranks) {
      if (!fits(algorithm, ranks)) continue;
      for (const int root : some_roots(algorithm, ranks)) {
        const std::vector<Lowered> programs = programs_of(algorithm, ranks, offers, root);
        for (const std::uint64_t count : {0u, 1u, 7u, 1000003u}) {
          for (std::uint32_t segments = 1; segments <= (count > 7 ? 4 : 1); ++segments) {
            for (const bool in_place : {false, true}) {
              if (in_place && !runs_in_place(algorithm)) continue;
              expect_proved(programs, {count, 4, segments, 0, in_place});
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
};

TEST_P(EveryAlgorithm, IsProvedOverSharedMemory) {
  expect_all_proved(shared_memory(2));
  expect_all_proved(shared_memory(4));
}

TEST_P(EveryAlgorithm, IsProvedOverByteStreams) {
  if (needs_shared_memory(GetParam())) {
    EXPECT_FALSE(why_not(GetParam(), {2, 0, 0}, byte_streams(1)).empty());
    return;
  }
  expect_all_proved(byte_streams(1));
  expect_all_proved(byte_streams(2));
}

TEST_P(EveryAlgorithm, NeedsOneCreditUnlessItForwards) {
  if (GetParam().credits == 1) return expect_all_proved(shared_memory(1));
  for (int ranks = 3; ranks <= kMostRanks; ++ranks) {
    // Of a grid the rings along its sides wait, but for two ranks, which only exchange what they have.
    const int side = GetParam().grid ? rows_of_grid(ranks) : 1;
    if (!fits(GetParam(), ranks) || ranks / side == 2) continue;
    const VerifyReport report = verify(programs_of(GetParam(), ranks, shared_memory(1)), {1000, 4, 1, 0, false});
    ASSERT_FALSE(report.problems.empty());
    ASSERT_TRUE(side > 1 || report.problems.size() == 1u);
    const std::string& message = report.problems[0].message;
    EXPECT_EQ(report.problems[0].kind, Problem::Kind::deadlock);
    EXPECT_TRUE(message.find(": a circle of " + std::to_string(ranks / side)) != std::string::npos ||
                (side > 1 && message.find(": a circle of " + std::to_string(side)) != std::string::npos))
        << words_of(report);
  }
}

TEST_P(EveryAlgorithm, IsRefusedInPlaceWhereItsRowSaysSo) {
  if (runs_in_place(GetParam())) return;
  for (int ranks = 4; ranks <= kMostRanks; ++ranks) {
    EXPECT_FALSE(verify(programs_of(GetParam(), ranks, shared_memory(2)), {1000, 4, 1, 0, true}).ok()) << ranks;
  }
}

// A lane of its own for every edge, and no lane that waits for another: what v-verbs need.
TEST_P(EveryAlgorithm, HasOneLanePerEdgeWhereItsRowSaysSo) {
  for (const int ranks : {2, 3, 8}) {
    if (ranks > most_ranks(GetParam(), kMostRanks) || !fits(GetParam(), ranks)) continue;
    bool one_each = true;
    for (const Lowered& lowered : programs_of(GetParam(), ranks, shared_memory(2))) {
      for (const Lane& lane : lowered.program.lanes) {
        std::set<int> blocks;
        for (const Step& step : lane.steps) {
          one_each = one_each && step.waits.empty();
          for (const auto* operands : {&step.destinations, &step.sources}) {
            for (const Operand& operand : *operands) {
              if (!is_slot(operand)) blocks.insert(operand.blocks.at(0, lowered.program.rank, ranks));
              one_each = one_each && (is_slot(operand) || (is_user_memory(operand) && operand.blocks.count == 1));
            }
          }
        }
        one_each = one_each && blocks.size() == 1;
      }
    }
    if (GetParam().per_edge) {
      EXPECT_TRUE(one_each) << ranks << " ranks";
    }
  }
}

// Every rank must cut the vector alike, whatever its own messages and scratch are.
TEST_P(EveryAlgorithm, IsProvedWithBoundedSlotsAndScratch) {
  for (Offers offers : {shared_memory(2), byte_streams(2)}) {
    if (needs_shared_memory(GetParam()) && !offers.inside.windows_to_user) continue;
    offers.inside.slot_bytes = 32768;
    offers.scratch_bytes = 1 << 20;
    for (const int ranks : {2, 3, 5, 8, 13, 33}) {
      if (ranks > most_ranks(GetParam(), kMostRanks) || !fits(GetParam(), ranks)) continue;
      const std::uint64_t count = facts_of(GetParam().verb).cut == Cut::vector ? 1000003 : 100003;
      const VerifyReport report = verify(programs_of(GetParam(), ranks, offers), {count, 4, 1, 0, false});
      EXPECT_TRUE(report.ok()) << ranks << " ranks: " << words_of(report);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Verify, EveryAlgorithm, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& row) { return title_of(row.param); });

// Bytes all ranks send together: exact for every count.
struct Formula {
  const char* algorithm;
  Verb verb;
  std::uint64_t (*vectors)(std::uint64_t p);  // in lengths of the vector, or of a chunk
};

std::uint64_t core(std::uint64_t p) { return std::bit_floor(p); }
std::uint64_t lg(std::uint64_t p) { return static_cast<std::uint64_t>(std::bit_width(p)) - 1; }

constexpr Formula kFormulas[] = {
    {"ring", Verb::all_reduce, [](std::uint64_t p) { return 2 * (p - 1); }},
    {"recursive_doubling", Verb::all_reduce, [](std::uint64_t p) { return core(p) * lg(p) + 2 * (p - core(p)); }},
    {"recursive_halving", Verb::all_reduce, [](std::uint64_t p) { return 2 * (core(p) - 1) + 2 * (p - core(p)); }},
    {"double_binary_tree", Verb::all_reduce, [](std::uint64_t p) { return 2 * (p - 1); }},
    {"exchange", Verb::all_reduce, [](std::uint64_t p) { return p * (p - 1); }},
    {"direct", Verb::all_reduce, [](std::uint64_t p) { return 2 * (p - 1); }},
    {"staged", Verb::all_reduce, [](std::uint64_t p) { return 2 * (p - 1); }},
    {"binomial", Verb::broadcast, [](std::uint64_t p) { return p - 1; }},
    {"direct", Verb::broadcast, [](std::uint64_t p) { return p - 1; }},
    {"staged", Verb::broadcast, [](std::uint64_t p) { return p - 1; }},
    {"binomial", Verb::reduce, [](std::uint64_t p) { return p - 1; }},
    {"linear", Verb::scatter, [](std::uint64_t p) { return p - 1; }},
    {"direct", Verb::scatter, [](std::uint64_t p) { return p - 1; }},
    {"linear", Verb::gather, [](std::uint64_t p) { return p - 1; }},
    {"direct", Verb::gather, [](std::uint64_t p) { return p - 1; }},
    // Those that stand aside send their chunk, and receive all others at once.
    {"recursive_multiplying", Verb::all_gather, [](std::uint64_t p) { return (core(p) - 1) * p + (p - core(p)) * p; }},
    {"bruck", Verb::all_gather, [](std::uint64_t p) { return p * (p - 1); }},
    {"ring", Verb::all_gather, [](std::uint64_t p) { return p * (p - 1); }},
    {"direct", Verb::all_gather, [](std::uint64_t p) { return p * (p - 1); }},
    {"staged", Verb::all_gather, [](std::uint64_t p) { return p * (p - 1); }},
    {"pairwise", Verb::reduce_scatter, [](std::uint64_t p) { return p * (p - 1); }},
    {"torus", Verb::all_reduce, [](std::uint64_t p) { return 2 * (p - 1); }},
    {"torus", Verb::all_gather, [](std::uint64_t p) { return p * (p - 1); }},
    {"torus", Verb::reduce_scatter, [](std::uint64_t p) { return p * (p - 1); }},
    {"ring", Verb::reduce_scatter, [](std::uint64_t p) { return p * (p - 1); }},
    {"direct", Verb::reduce_scatter, [](std::uint64_t p) { return p * (p - 1); }},
    {"staged", Verb::reduce_scatter, [](std::uint64_t p) { return p * (p - 1); }},
    // Of p chunks: each member halves what it has, and each pair sends all there and one chunk back.
    {"recursive_halving", Verb::reduce_scatter,
     [](std::uint64_t p) { return p * (core(p) - 1) + (p - core(p)) * (p + 1); }},
    {"linear", Verb::all_to_all, [](std::uint64_t p) { return p * (p - 1); }},
    {"spread_out", Verb::all_to_all, [](std::uint64_t p) { return p * (p - 1); }},
    {"direct", Verb::all_to_all, [](std::uint64_t p) { return p * (p - 1); }},
    {"staged", Verb::all_to_all, [](std::uint64_t p) { return p * (p - 1); }},
    // A chunk that goes j places moves once for every bit of j.
    {"bruck", Verb::all_to_all,
     [](std::uint64_t p) {
       std::uint64_t moves = 0;
       for (std::uint64_t j = 1; j < p; ++j) moves += static_cast<std::uint64_t>(std::popcount(j));
       return p * moves;
     }},
    {"chain", Verb::scan, [](std::uint64_t p) { return p - 1; }},
    {"chain", Verb::exclusive_scan, [](std::uint64_t p) { return p - 1; }},
    {"flags", Verb::barrier, [](std::uint64_t) { return std::uint64_t{0}; }},
    {"dissemination", Verb::barrier, [](std::uint64_t) { return std::uint64_t{0}; }},
};

TEST(VerifyTraffic, EqualsTheFormulas) {
  for (const Formula& row : kFormulas) {
    const Algorithm& algorithm = *find_algorithm(row.verb, row.algorithm);
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      if (!fits(algorithm, ranks)) continue;
      for (const std::uint64_t count : {0u, 7u, 100003u}) {
        const VerifyReport report = verify(programs_of(algorithm, ranks, shared_memory(2)), {count, 4, 3, 0, false});
        EXPECT_EQ(total_bytes(report), row.vectors(static_cast<std::uint64_t>(ranks)) * count * 4)
            << name_of(row.verb) << " by " << row.algorithm << ", " << ranks << " ranks";
      }
    }
  }
}

// Where blocks divide the vector evenly every rank carries the same: 2 (p-1)/p n for ring and halving.
TEST(VerifyTraffic, IsEvenlySpread) {
  for (const int ranks : {2, 4, 8, 16, 32}) {
    const auto p = static_cast<std::uint64_t>(ranks);
    const std::uint64_t count = p * 16 * 5;
    for (const char* name : {"ring", "recursive_halving"}) {
      const VerifyReport report = verify(programs_of(*find_algorithm(Verb::all_reduce, name), ranks, shared_memory(2)),
                                         {count, 4, 1, 0, false});
      std::vector<std::uint64_t> sent(p);
      for (const auto& [edge, bytes] : report.edge_bytes) sent[static_cast<std::size_t>(edge.first)] += bytes;
      for (const std::uint64_t bytes : sent)
        EXPECT_EQ(bytes, 2 * (p - 1) * count * 4 / p) << name << ", " << ranks << " ranks";
      if (std::string_view(name) == "ring") {
        for (const auto& [edge, bytes] : report.edge_bytes) EXPECT_EQ(edge.second, (edge.first + 1) % ranks);
      }
    }
  }
}

// The two trees share no edge, so that one channel does, and nobody passes both halves on.
TEST(VerifyTraffic, OfADoubleBinaryTreeTakesNoEdgeTwice) {
  const Algorithm& row = *find_algorithm(Verb::all_reduce, "double_binary_tree");
  Offers one_channel = shared_memory(1);
  one_channel.channels = 1;
  for (int ranks = 4; ranks <= 64; ++ranks) {
    const VerifyReport report = verify(programs_of(row, ranks, one_channel), {1024, 4, 1, 0, false});
    ASSERT_TRUE(report.ok()) << ranks << " ranks: " << words_of(report);
    std::vector<std::uint64_t> sent(static_cast<std::size_t>(ranks));
    for (const auto& [edge, bytes] : report.edge_bytes) {
      EXPECT_EQ(bytes, 2048u) << ranks << " ranks: " << edge.first << " to " << edge.second;
      sent[static_cast<std::size_t>(edge.first)] += bytes;
    }
    for (const std::uint64_t bytes : sent) EXPECT_LE(bytes, 2 * 4096u) << ranks << " ranks";
  }
}

TEST(VerifySpeed, ThirtyThreeRanksStaged) {
  const std::vector<Lowered> programs = programs_of(*find_algorithm(Verb::all_reduce, "staged"), 33, shared_memory(2));
  const std::clock_t start = std::clock();  // of the processor, which may have others to serve
  EXPECT_TRUE(verify(programs, {1000003, 4, 4, 0, false}).ok());
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC) << "30 times what it takes in release: something became quadratic";
}

}  // namespace
}  // namespace tutti::schedule
