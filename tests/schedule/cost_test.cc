// Prices against the closed forms of the textbooks: latency, bandwidth, arithmetic, pipelining, shared cores.
#include "schedule/readers/cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "program_sets.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

double price(Verb verb, std::string_view name, int ranks, std::uint64_t count, const Rates& rates,
             const Offers& offers = shared_memory(4)) {
  const Algorithm* row = find_algorithm(verb, name);
  EXPECT_NE(row, nullptr) << name;
  return predict(programs_of(*row, ranks, offers), count, 1, rates);
}

double only(double Rates::*rate, Verb verb, std::string_view name, int ranks, std::uint64_t count) {
  Rates rates;
  rates.*rate = 1;
  rates.cores = ranks;
  return price(verb, name, ranks, count, rates);
}

struct Latency {
  Verb verb;
  std::string_view name;
  double of_2, of_4, of_8;  // messages one after the other
};

constexpr Latency kLatencies[] = {
    {Verb::all_reduce, "exchange", 1, 1, 1},
    {Verb::all_reduce, "recursive_doubling", 1, 2, 3},
    {Verb::all_reduce, "recursive_halving", 2, 4, 6},
    {Verb::all_reduce, "ring", 2, 6, 14},
    {Verb::broadcast, "binomial", 1, 2, 3},
    {Verb::reduce, "binomial", 1, 2, 3},
    {Verb::scatter, "binomial", 1, 2, 3},
    {Verb::scatter, "linear", 1, 1, 1},
    {Verb::gather, "binomial", 1, 2, 3},
    {Verb::all_gather, "bruck", 1, 2, 3},
    {Verb::all_gather, "ring", 1, 3, 7},
    {Verb::reduce_scatter, "recursive_halving", 1, 2, 3},
    {Verb::all_to_all, "bruck", 1, 2, 3},
    {Verb::scan, "recursive_doubling", 1, 2, 3},
    {Verb::scan, "chain", 1, 3, 7},
    {Verb::barrier, "dissemination", 1, 2, 3},
};

TEST(Cost, LatencyIsTheMessagesOnTheLongestPath) {
  for (const Latency& row : kLatencies) {
    const std::uint64_t count = row.verb == Verb::barrier ? 0 : 512;
    EXPECT_DOUBLE_EQ(only(&Rates::message, row.verb, row.name, 2, count), row.of_2) << row.name;
    EXPECT_DOUBLE_EQ(only(&Rates::message, row.verb, row.name, 4, count), row.of_4) << row.name;
    EXPECT_DOUBLE_EQ(only(&Rates::message, row.verb, row.name, 8, count), row.of_8) << row.name;
  }
}

// All that leaves a host goes through its adapter, one after the other, both ways at once.
TEST(Cost, RanksOfAHostShareItsWire) {
  constexpr std::uint64_t kBytes = 64 << 10;
  Rates rates;
  rates.wire = 1;
  rates.cores = 8;
  const auto on = [&](const std::vector<int>& by_rank, std::string_view name) {
    Offers offers = shared_memory(4);
    offers.across = offers.inside;
    offers.hosts = Hosts(by_rank);
    offers.channels = 2;
    return price(Verb::all_reduce, name, static_cast<int>(by_rank.size()), kBytes, rates, offers);
  };
  const double n = kBytes;
  EXPECT_DOUBLE_EQ(on({0, 0}, "recursive_doubling"), 0);
  EXPECT_DOUBLE_EQ(on({0, 1}, "recursive_doubling"), n);
  EXPECT_DOUBLE_EQ(on({0, 0, 1, 1}, "recursive_doubling"), 2 * n) << "both ranks send all of it";
  EXPECT_DOUBLE_EQ(on({0, 1, 0, 1}, "recursive_doubling"), 2 * n) << "first across, then inside";
  EXPECT_DOUBLE_EQ(on({0, 0, 1, 1}, "hierarchical"), n) << "each half of it crosses once";
}

TEST(Cost, DirectTakesTwoLooksAtFlags) {
  EXPECT_DOUBLE_EQ(only(&Rates::progress, Verb::all_reduce, "direct", 4, 512), 2);
  EXPECT_DOUBLE_EQ(only(&Rates::message, Verb::all_reduce, "direct", 4, 512), 0);
}

TEST(Cost, BytesFromPeersAreThoseOfTheAlgorithm) {
  constexpr std::uint64_t kBytes = 64 * 1024;
  const double n = kBytes;
  EXPECT_DOUBLE_EQ(only(&Rates::peer, Verb::all_reduce, "ring", 4, kBytes), 2 * 0.75 * n);
  EXPECT_DOUBLE_EQ(only(&Rates::peer, Verb::all_reduce, "recursive_halving", 4, kBytes), 2 * 0.75 * n);
  EXPECT_DOUBLE_EQ(only(&Rates::peer, Verb::all_reduce, "recursive_doubling", 4, kBytes), 2 * n);
  EXPECT_DOUBLE_EQ(only(&Rates::peer, Verb::all_gather, "ring", 4, kBytes), 3 * n);
  EXPECT_DOUBLE_EQ(only(&Rates::peer, Verb::broadcast, "binomial", 8, kBytes), 3 * n);
  EXPECT_DOUBLE_EQ(only(&Rates::reduce, Verb::all_reduce, "recursive_halving", 4, kBytes), 0.75 * n);
  EXPECT_DOUBLE_EQ(only(&Rates::reduce, Verb::all_reduce, "direct", 4, kBytes), 0.75 * n);
}

TEST(Cost, StreamsPayACallAndEveryByteAtBothEnds) {
  Rates rates;
  rates.call = 1;
  rates.cores = 2;
  EXPECT_DOUBLE_EQ(price(Verb::send_recv, "message", 2, 100, rates, byte_streams(1)), 2);
  rates.call = 0;
  rates.stream = 1;
  EXPECT_DOUBLE_EQ(price(Verb::send_recv, "message", 2, 100, rates, byte_streams(1)), 200);
}

TEST(Cost, LongCallsGoOnAtTheirPace) {
  Offers offers = shared_memory(2);
  offers.segment_bytes = 4096;
  Rates rates;
  rates.copy = rates.peer = 1e-9;
  rates.message = 1e-6;
  rates.cores = 2;
  const double few = price(Verb::broadcast, "binomial", 2, 4096 * 12, rates, offers);
  const double many = price(Verb::broadcast, "binomial", 2, 4096 * 120, rates, offers);
  const double more = price(Verb::broadcast, "binomial", 2, 4096 * 240, rates, offers);
  EXPECT_GT(many, few * 5);
  EXPECT_NEAR(more - many, (many - few) / 108 * 120, (more - many) * 1e-9);
}

// Steps that end a segment may all come at the end of the call: how far a pipeline is says nothing about its pace.
TEST(Cost, LongDirectCallsTakeAsLongAsTheirBytes) {
  Offers offers = shared_memory(2);
  offers.segment_bytes = 4096;
  Rates rates;
  rates.copy = 1;
  rates.cores = 4;
  constexpr std::uint64_t kBytes = 4096 * 120;
  EXPECT_DOUBLE_EQ(price(Verb::all_reduce, "direct", 4, kBytes, rates, offers), kBytes / 4.0);
}

double repeated(Verb verb, std::string_view name, int ranks, std::uint64_t count, const Rates& rates,
                const Offers& offers = shared_memory(4)) {
  return predict_repeated(programs_of(*find_algorithm(verb, name), ranks, offers), count, 1, rates);
}

TEST(Cost, CallsInARowOverlapWhereNobodyWaitsForAll) {
  Rates rates;
  rates.message = 1;
  rates.copy = 1e-3;
  rates.cores = 8;
  constexpr std::uint64_t kBytes = 1024;
  const double copied = 1e-3 * kBytes;
  // A chain passes on what comes: the next call is on its way before the last rank has this one.
  EXPECT_DOUBLE_EQ(price(Verb::broadcast, "chain", 4, kBytes, rates), 3 + 4 * copied);
  EXPECT_DOUBLE_EQ(repeated(Verb::broadcast, "chain", 4, kBytes, rates), copied);
  // Who needs something of everybody can begin no earlier.
  EXPECT_DOUBLE_EQ(repeated(Verb::all_gather, "ring", 4, kBytes, rates),
                   price(Verb::all_gather, "ring", 4, kBytes, rates));
}

TEST(Cost, ScratchThatPeersLookIntoIsUsedAgainWhenAllHaveLeftIt) {
  Rates rates;
  rates.progress = 1;
  rates.cores = 4;
  EXPECT_DOUBLE_EQ(price(Verb::broadcast, "staged", 4, 512, rates), 1) << "the root has written";
  EXPECT_DOUBLE_EQ(repeated(Verb::broadcast, "staged", 4, 512, rates), 2) << "and the others have read";
}

TEST(Cost, AMessageThatStaysWithItsSenderHoldsItsCallUp) {
  Rates rates;
  rates.call = 1;
  rates.cores = 2;
  Offers offers = shared_memory(4);
  offers.inside.single_copy = true;
  const Algorithm* row = find_algorithm(Verb::send_recv, "single_copy");
  ASSERT_NE(row, nullptr);
  const std::vector<Lowered> programs = programs_of(*row, 2, single_copy_offers(offers));
  EXPECT_DOUBLE_EQ(predict_repeated(programs, 4096, 1, rates), 1) << "one copy, by the receiver";
  EXPECT_DOUBLE_EQ(predict_repeated(programs, kInlineMessageBytes, 1, rates), 0) << "short ones travel at once";
}

TEST(Cost, MessagesOfSharedMemoryTakeLinesAndAreWrittenWhereThePeerLooks) {
  // Sent and received: a line at each end, and one more where the bytes lie elsewhere.
  EXPECT_DOUBLE_EQ(only(&Rates::line, Verb::broadcast, "binomial", 2, 8), 2);
  EXPECT_DOUBLE_EQ(only(&Rates::line, Verb::broadcast, "binomial", 2, 4096), 4);
  EXPECT_DOUBLE_EQ(only(&Rates::push, Verb::broadcast, "binomial", 2, 4096), 4096);
  EXPECT_DOUBLE_EQ(only(&Rates::push, Verb::all_reduce, "direct", 2, 4096), 0) << "no message, no scratch";
  EXPECT_DOUBLE_EQ(only(&Rates::peer, Verb::all_reduce, "direct", 2, 4096), 0) << "callers' own lines stay where read";
}

TEST(Cost, RanksThatMoveBytesAtTheSameTimeSlowEachOtherDown) {
  Rates rates;
  rates.copy = 1;
  rates.cores = 4;
  const double alone = price(Verb::all_gather, "ring", 4, 4096, rates);
  const double from_one = price(Verb::scatter, "linear", 4, 4096, rates);
  rates.crowd = 0.5;
  EXPECT_DOUBLE_EQ(price(Verb::all_gather, "ring", 4, 4096, rates), alone * (1 + 0.5 * 3)) << "all four at a time";
  EXPECT_LT(price(Verb::scatter, "linear", 4, 4096, rates), from_one * (1 + 0.5)) << "the root does most of it";
}

TEST(Cost, RanksThatShareACoreTakeTurns) {
  Rates rates;
  rates.copy = 1;
  rates.cores = 4;
  const double apart = price(Verb::all_reduce, "direct", 4, 4096, rates);
  rates.cores = 1;
  EXPECT_DOUBLE_EQ(price(Verb::all_reduce, "direct", 4, 4096, rates), 4 * apart);
  rates.turn = 1;
  EXPECT_GE(price(Verb::all_reduce, "direct", 4, 4096, rates), 4 * apart + 3);
}

// Rank 2 gathers: rank 0's message is there at once, rank 1's only after a long step of its own. What came first is
// written when both are here.
TEST(Cost, WhoHearsFirstWritesAfterTheLastSender) {
  Rates rates;
  rates.copy = 1;
  rates.cores = 3;
  std::vector<Lowered> programs = programs_of(*find_algorithm(Verb::gather, "linear"), 3, shared_memory(4), 2);
  ASSERT_TRUE(programs[2].program.hears_first);
  constexpr double kBytes = 1024;
  const Operand input = Operand::own(Buffer::input, {Index::absolute(1), 1, 1});
  programs[1].program.scratch_planes = 1;
  std::vector<Step>& late = programs[1].program.lanes[0].steps;
  const Operand aside = Operand::own(Buffer::scratch, {Index::absolute(1), 1, 1});
  late.insert(late.begin(), 10, Step{StepOp::copy, false, {aside}, {input}, {}});
  const auto price = [&] { return predict(programs, 1024, 1, rates); };
  // 10 steps and the message of rank 1, then three chunks at the root; else two of these would be done by then.
  EXPECT_DOUBLE_EQ(price(), (11 + 3) * kBytes);
  for (Lowered& lowered : programs) lowered.program.hears_first = false;
  EXPECT_DOUBLE_EQ(price(), (11 + 1) * kBytes);
}

TEST(Cost, EveryAlgorithmHasAPrice) {
  const Rates rates = topology::usual_costs(2).streams;
  for (const Algorithm& row : algorithms()) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      if (ranks > most_ranks(row, ranks) || (row.verb == Verb::send_recv && ranks == 1) || !fits(row, ranks)) continue;
      const Offers offers = needs_shared_memory(row) ? shared_memory(4) : byte_streams(4);
      const std::uint64_t count = row.verb == Verb::barrier ? 0 : 10'007;
      const double price = predict(programs_of(row, ranks, offers), count, 4, rates);
      EXPECT_TRUE(std::isfinite(price) && price >= 0) << row.name;
      EXPECT_EQ(price, predict(programs_of(row, ranks, offers), count, 4, rates)) << row.name;
    }
  }
}

TEST(Cost, ProgramsThatWaitForEverAreToldApart) {
  const Algorithm* row = find_algorithm(Verb::send_recv, "message");
  std::vector<Lowered> programs = programs_of(*row, 2, byte_streams(1));
  programs[0].program.lanes.front().steps.clear();  // nobody sends
  EXPECT_THROW(predict(programs, 10, 4, Rates{}), Error);
}

}  // namespace
}  // namespace tutti::schedule
