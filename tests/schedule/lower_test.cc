// Lowering to byte streams: messages land in scratch, in no more of it than the program states and the transport has.
#include "schedule/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "program_sets.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

int planes_named(const Program& program) {
  int planes = 0;
  for (const Lane& lane : program.lanes) {
    for (const Step& step : lane.steps) {
      for (const auto* operands : {&step.destinations, &step.sources}) {
        for (const Operand& operand : *operands) {
          const bool scratch = operand.kind == Operand::Kind::own && operand.buffer == Buffer::scratch;
          if (scratch) planes = std::max(planes, operand.plane + 1);
        }
      }
    }
  }
  return planes;
}

TEST(Lower, StatesTheScratchThatSomeRankNeeds) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Offers& offers : {shared_memory(2), byte_streams(2)}) {
      if (needs_shared_memory(algorithm)) continue;
      for (int ranks = 1; ranks <= most_ranks(algorithm, 33); ++ranks) {
        if (!fits(algorithm, ranks)) continue;
        int named = 0;
        const std::vector<Lowered> programs = programs_of(algorithm, ranks, offers);
        for (const Lowered& lowered : programs) named = std::max(named, planes_named(lowered.program));
        for (const Lowered& lowered : programs) {
          EXPECT_EQ(lowered.program.scratch_planes, named) << algorithm.name << ", " << ranks << " ranks";
          EXPECT_EQ(lowered.program.landing_planes, 0);
        }
      }
    }
  }
}

// Rows for ranks in a grid say why they are not for a prime number of them, or where two ranks lack a second channel.
TEST(Lower, RefusesRanksThatMakeNoGrid) {
  const Algorithm& row = *find_algorithm(Verb::all_reduce, "torus");
  Offers one_channel = shared_memory(2);
  one_channel.channels = 1;
  EXPECT_EQ(why_not(row, {7, 0, 0}, one_channel), "needs ranks in rows and columns (7 is prime)");
  EXPECT_THROW(lower(row, {7, 0, 0}, one_channel), Error);
  EXPECT_EQ(why_not(row, {4, 0, 0}, one_channel), "sends on 2 channels of an edge, and there are 1");
  for (const int ranks : {1, 6, 8, 9, 64}) EXPECT_EQ(why_not(row, {ranks, 0, 0}, one_channel), "") << ranks;
  EXPECT_EQ(rows_of_grid(1), 1);
  EXPECT_EQ(rows_of_grid(12), 3);
  EXPECT_EQ(rows_of_grid(36), 6);
  EXPECT_EQ(rows_of_grid(97), 1);
}

// A segment of a ring has a block per rank, and each block may be a whole slot.
TEST(Lower, BoundsTheSegmentByWhatLandsInScratch) {
  Offers offers = byte_streams(1);
  offers.inside.slot_bytes = 256 << 10;
  offers.scratch_bytes = 4 << 20;
  const Lowered ring = programs_of(*find_algorithm(Verb::all_reduce, "ring"), 33, offers)[0];
  EXPECT_GT(ring.segment_bytes, 0u);
  EXPECT_LE(ring.segment_bytes * static_cast<std::uint64_t>(ring.program.scratch_planes), offers.scratch_bytes);
}

TEST(Lower, RefusesMoreScratchThanIsStatedOrCanBeNamed) {
  Program ring = find_algorithm(Verb::all_reduce, "ring")->generate({4, 0, 0});
  ring.landing_planes = 1;
  EXPECT_EQ(why_not(ring, byte_streams(1)), "lets messages land in more planes of scratch than it states");
  EXPECT_EQ(why_not(ring, shared_memory(1)), "");
  const Algorithm& exchange = *find_algorithm(Verb::all_reduce, "exchange");
  EXPECT_EQ(why_not(exchange.generate({257, 0, 0}), byte_streams(1)), "");
  EXPECT_EQ(why_not(exchange.generate({258, 0, 0}), byte_streams(1)),
            "needs 257 planes of scratch, and there are at most 256");
}

}  // namespace
}  // namespace tutti::schedule
