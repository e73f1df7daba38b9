// Groups over several hosts: edges inside a host keep their slots and single copies, edges across are byte streams, and
// what is lowered to both at once is proved like everything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "handmade.h"
#include "interpreter.h"
#include "program_sets.h"
#include "schedule/algorithms/build.h"
#include "schedule/readers/cost.h"
#include "schedule/readers/describe.h"
#include "schedule/readers/verify.h"

namespace tutti::schedule {

void PrintTo(const Algorithm& algorithm, std::ostream* out) { *out << algorithm.name; }

namespace {

using ::testing::HasSubstr;
using Kind = Problem::Kind;

std::string words_of(const Hosts& hosts) {
  std::string text = "ranks on hosts";
  for (const int host : hosts.by_rank()) text += " " + std::to_string(host);
  return text;
}

std::string words_of(const VerifyReport& report) {
  std::string text;
  for (const Problem& problem : report.problems) text += problem.message + "\n";
  return text;
}

std::vector<int> two_roots(const Algorithm& algorithm, int ranks) {
  return facts_of(algorithm.verb).rooted ? std::vector{0, ranks - 1} : std::vector{0};
}

class OverHosts : public ::testing::TestWithParam<Algorithm> {};

TEST_P(OverHosts, IsProvedWhateverRanksShareAHost) {
  const Algorithm& row = GetParam();
  for (int ranks = 2; ranks <= most_ranks(row, 9); ++ranks) {
    if (!fits(row, ranks)) continue;
    for (const Hosts& hosts : placements_of(ranks)) {
      SCOPED_TRACE(words_of(hosts));
      const Offers offers = mixed(hosts, row.credits);
      if (has_windows(row)) {
        EXPECT_THAT(why_not(row, {ranks, 0, 0, hosts}, offers), ::testing::StartsWith("needs "));
        continue;
      }
      for (const int root : two_roots(row, ranks)) {
        const std::vector<Lowered> programs = programs_of(row, ranks, offers, root);
        for (const bool in_place : {false, true}) {
          if (in_place && !runs_in_place(row)) continue;
          for (const std::uint32_t segments : {1u, 3u}) {
            const VerifyReport report = verify(programs, {10007, 4, segments, 0, in_place});
            ASSERT_TRUE(report.ok()) << words_of(report);
            ASSERT_TRUE(report.canonical || !is_canonical(row, hosts, ranks));
          }
        }
      }
    }
  }
}

// All ranks cut the vector alike: by the smaller slot, and by scratch for what lands on some rank.
TEST_P(OverHosts, IsProvedWithBoundedSlotsAndScratch) {
  const Algorithm& row = GetParam();
  if (has_windows(row)) return;
  for (const int ranks : {2, 5, 8}) {
    if (ranks > most_ranks(row, 8) || !fits(row, ranks)) continue;
    for (const Hosts& hosts : placements_of(ranks)) {
      Offers offers = mixed(hosts, 4);
      offers.inside.slot_bytes = 32 << 10;
      offers.across.slot_bytes = 256 << 10;
      offers.scratch_bytes = 1 << 20;
      const std::uint64_t count = facts_of(row.verb).cut == Cut::vector ? 1000003 : 100003;
      const VerifyReport report = verify(programs_of(row, ranks, offers), {count, 4, 1, 0, false});
      EXPECT_TRUE(report.ok()) << words_of(hosts) << ": " << words_of(report);
    }
  }
}

TEST_P(OverHosts, HasAPriceWhateverRanksShareAHost) {
  const Algorithm& row = GetParam();
  if (has_windows(row)) return;
  const topology::LinkRates rates(topology::usual_costs(2).memory);
  for (int ranks = 2; ranks <= most_ranks(row, 8); ++ranks) {
    if (!fits(row, ranks)) continue;
    for (const Hosts& hosts : placements_of(ranks)) {
      const double seconds = predict(programs_of(row, ranks, mixed(hosts, 4)), 10007, 4, rates);
      EXPECT_GT(seconds, 0) << words_of(hosts);
    }
  }
}

TEST_P(OverHosts, HasNoFaultAtRandomTimings) {
  const Algorithm& row = GetParam();
  if (has_windows(row)) return;
  for (const int ranks : {2, 3, 5}) {
    if (ranks > most_ranks(row, 5) || !fits(row, ranks)) continue;
    for (const Hosts& hosts : placements_of(ranks)) {
      const std::vector<Lowered> programs = programs_of(row, ranks, mixed(hosts, row.credits), ranks - 1);
      Trial trial{programs, ragged_layout(programs[0].program, 3), 0, false, is_canonical(row, hosts, ranks)};
      Interpreter interpreter(trial);
      for (std::uint64_t seed = 0; seed < 5; ++seed) EXPECT_EQ(interpreter.run(seed), "") << words_of(hosts);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Mixed, OverHosts, ::testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& row) {
                           return std::string(name_of(row.param.verb)) + "_" + std::string(row.param.name);
                         });

const Hosts kTwoAndTwo = Hosts::in_blocks(std::vector{2, 2});

std::vector<Lowered> ring_on_two_hosts() {
  return programs_of(*find_algorithm(Verb::all_reduce, "ring"), 4, mixed(kTwoAndTwo));
}

// Rank 0 hears from across and sends inside, rank 1 the other way round.
TEST(Mixed, OnlyMessagesAcrossLand) {
  const std::string text = describe(ring_on_two_hosts());
  EXPECT_THAT(text,
              HasSubstr("    1  copy    scratch[rank-1]          <-  ←rank-1  on ranks 0, 2\n"
                        "       reduce  scratch[rank-1]          <+  ←rank-1, input[rank-1]  on ranks 1, 3\n"
                        "    2  reduce  →rank+1                  <+  scratch[rank-1], input[rank-1]  on ranks 0, 2\n"
                        "       copy    →rank+1                  <-  scratch[rank-1]  on ranks 1, 3\n"));
  EXPECT_THAT(text, HasSubstr("hosts     ranks 0, 1 | 2, 3\n"));
  EXPECT_THAT(text, HasSubstr("2 credits per edge inside a host, 1 across\n"));
}

// Whatever else a step does: no slot across in a reduction, and every slot inside that the program had there.
TEST(Mixed, SlotsInsideStayOperands) {
  for (const Algorithm& row : algorithms()) {
    if (has_windows(row) || row.single_copy || row.verb == Verb::send_recv) continue;
    for (const Hosts& hosts : placements_of(6)) {
      const auto reduced_inside = [&](const Program& program) {
        int slots = 0;
        for (const Lane& lane : program.lanes) {
          for (const Step& step : lane.steps) {
            for (const Operand& source : step.sources) {
              if (step.op == StepOp::reduce && is_slot(source))
                slots += hosts.share(program.rank, source.rank.resolve(program.rank, 6)) ? 1 : 0;
            }
          }
        }
        return slots;
      };
      for (int rank = 0; rank < 6; ++rank) {
        const Placement placement{6, rank, 0, hosts};
        EXPECT_EQ(reduced_inside(lower(row, placement, mixed(hosts)).program), reduced_inside(row.generate(placement)))
            << name_of(row.verb) << " by " << row.name << ", " << words_of(hosts);
      }
    }
  }
}

TEST(Mixed, APairHasWhatItsOneEdgeHas) {
  const Offers offers = mixed(kTwoAndTwo);
  EXPECT_EQ(offers.among(std::vector{0, 1}), offers.pair(true));
  EXPECT_EQ(offers.among(std::vector{1, 2}), offers.pair(false));
  EXPECT_EQ(offers.among(std::vector{1, 2, 3}).hosts, Hosts(std::vector{7, 5, 5}));
  EXPECT_EQ(lower(*find_algorithm(Verb::send_recv, "message"), {2, 0, 0}, offers.pair(false)).offers.inside,
            offers.across);
  EXPECT_NE(why_not(*find_algorithm(Verb::send_recv, "single_copy"), {2, 0, 0}, offers.pair(false)), "");
}

TEST(Mixed, PublishedLanesKeepTheNumbersOfTheirSteps) {
  Program program = find_algorithm(Verb::all_reduce, "ring")->generate({4, 0, 0, kTwoAndTwo});
  program.lanes[0].published = true;
  EXPECT_EQ(why_not(program, mixed(kTwoAndTwo)), "publishes a lane in which messages would have to land first");
}

void expect_problem(const std::vector<Lowered>& programs, Kind kind, std::string_view words) {
  const VerifyReport report = verify(programs, {64, 4, 1, 0, false});
  const bool found = std::any_of(report.problems.begin(), report.problems.end(), [&](const Problem& problem) {
    return problem.kind == kind && problem.message.find(words) != std::string::npos;
  });
  EXPECT_TRUE(found) << words_of(report);
}

TEST(WrongOverHosts, ReachAcross) {
  std::vector<Lowered> staged = programs_of(*find_algorithm(Verb::all_reduce, "staged"), 3, shared_memory(2));
  for (Lowered& lowered : staged) lowered.offers = mixed(Hosts(std::vector{0, 0, 1}));
  expect_problem(staged, Kind::malformed,
                 "rank 0, lane 'reduce', step 0: a window onto scratch of rank 2, which the transport does not offer");
  expect_problem(staged, Kind::malformed, "waits for rank 2, whose flags are not in sight");
  const VerifyReport report = verify(staged, {64, 4, 1, 0, false});
  EXPECT_THAT(words_of(report),
              ::testing::Not(HasSubstr("rank 0, lane 'reduce', step 0: a window onto scratch of rank 1")));
}

TEST(WrongOverHosts, ReduceOutOfAStream) {
  std::vector<Lowered> ring = programs_of(*find_algorithm(Verb::all_reduce, "ring"), 4, shared_memory(2));
  for (Lowered& lowered : ring) lowered.offers = mixed(kTwoAndTwo);
  expect_problem(ring, Kind::malformed, "rank 0, lane 'ring', step 1: a message is an operand of a reduction");
  expect_problem(ring, Kind::malformed, "rank 1, lane 'ring', step 4: forwards a message without landing it");
}

TEST(WrongOverHosts, PlaceOnlySomeRanks) {
  std::vector<Lowered> ring = ring_on_two_hosts();
  for (Lowered& lowered : ring) lowered.offers.hosts = Hosts(std::vector{0, 1});
  expect_problem(ring, Kind::malformed, "rank 0: 2 of 4 ranks are on hosts");
}

TEST(WrongOverHosts, CountOnCreditsThatOnlyMemoryHas) {
  const auto ahead = [](std::uint32_t inside, std::uint32_t across, const Hosts& hosts) {
    std::vector<Lowered> programs;
    for (const int rank : {0, 1, 2}) {
      // Ranks 0 and 1 send each other two messages before they take one; rank 2 only is there.
      Program program = begin_program(Verb::all_gather, "ahead", {3, rank, 0, hosts}, 3, 1);
      const Operand own = own_block(Buffer::input), peer = Operand::slot(Index::absolute(1 - rank));
      const Operand landing = Operand::own(Buffer::scratch, block_at(0));
      program.scratch_planes = 1;
      if (rank != 2)
        program.lanes = {
            {"ahead",
             false,
             {copy_step({peer}, own), copy_step({peer}, own), copy_step({landing}, peer), copy_step({landing}, peer)}}};
      programs.push_back(lower(std::move(program), mixed(hosts, inside, across)));
    }
    const VerifyReport report = verify(programs, {16, 4, 1, 0, false});
    return std::any_of(report.problems.begin(), report.problems.end(),
                       [](const Problem& problem) { return problem.kind == Kind::deadlock; });
  };
  EXPECT_FALSE(ahead(2, 1, Hosts(std::vector{0, 0, 1})));
  EXPECT_TRUE(ahead(1, 2, Hosts(std::vector{0, 0, 1})));
  EXPECT_TRUE(ahead(2, 1, Hosts(std::vector{0, 1, 1})));
  EXPECT_FALSE(ahead(1, 2, Hosts(std::vector{0, 1, 1})));
}

// What is sent by a single copy is read when it is received; a stream has taken it when the step ends.
TEST(WrongOverHosts, WriteAgainWhatIsStillBeingCopied) {
  const auto races = [](const Hosts& hosts) {
    std::vector<Lowered> programs;
    for (const int rank : {0, 1, 2}) {
      Program program = begin_program(Verb::all_gather, "again", {3, rank, 0, hosts}, 3, 1);
      program.scratch_planes = 1;
      const Operand own = own_block(Buffer::input), held = Operand::own(Buffer::scratch, all_blocks(1));
      if (rank == 0) {
        const Operand peer = Operand::slot(Index::absolute(1));
        program.lanes = {{"give", false, {copy_step({held}, own), copy_step({peer}, held), copy_step({held}, own)}}};
      }
      if (rank == 1) program.lanes = {{"take", false, {copy_step({held}, Operand::slot(Index::absolute(0)))}}};
      programs.push_back(lower(std::move(program), single_copy_offers(mixed(hosts))));
    }
    const VerifyReport report = verify(programs, {16, 4, 1, 0, false});
    return std::any_of(report.problems.begin(), report.problems.end(),
                       [](const Problem& problem) { return problem.kind == Kind::race; });
  };
  EXPECT_TRUE(races(Hosts(std::vector{0, 0, 1})));
  EXPECT_FALSE(races(Hosts(std::vector{0, 1, 1})));
}

// Every link has the rates of its kind, and every host its cores.
TEST(MixedCost, LinksHaveTheRatesOfTheirKind) {
  Rates inside, across;
  inside.message = 1;
  across.message = 100;
  inside.cores = across.cores = 4;
  const auto price = [&](const Hosts& hosts) {
    return predict(programs_of(*find_algorithm(Verb::broadcast, "chain"), 4, mixed(hosts)), 1, 1, {inside, across});
  };
  EXPECT_DOUBLE_EQ(price(Hosts(std::vector{0, 0, 1, 1})), 1 + 100 + 1);
  EXPECT_DOUBLE_EQ(price(Hosts(std::vector{0, 1, 0, 1})), 300);
  EXPECT_DOUBLE_EQ(
      predict(programs_of(*find_algorithm(Verb::broadcast, "chain"), 4, shared_memory(2)), 1, 1, {inside, across}), 3)
      << "one host";
  inside.stream = 5;
  across.stream = 7;
  EXPECT_DOUBLE_EQ(price(Hosts(std::vector{0, 0, 1, 1})), 1 + 100 + 1 + 2 * 7) << "bytes of a stream, at both ends";
}

TEST(MixedCost, RanksTakeTurnsOnTheCoresOfTheirHost) {
  Rates rates;
  rates.step = 1;
  rates.cores = 2;
  const Algorithm& exchange = *find_algorithm(Verb::all_reduce, "exchange");
  const double apart = predict(programs_of(exchange, 4, mixed(kTwoAndTwo)), 1, 1, rates);
  rates.cores = 1;
  EXPECT_GT(predict(programs_of(exchange, 4, mixed(kTwoAndTwo)), 1, 1, rates), apart);
  rates.cores = 4;
  EXPECT_DOUBLE_EQ(predict(programs_of(exchange, 4, mixed(kTwoAndTwo)), 1, 1, rates), apart);
}

}  // namespace
}  // namespace tutti::schedule
