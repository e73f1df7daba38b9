// Lowering to byte streams: messages land in scratch, in no more of it than the program states and the transport has.
#include "schedule/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "program_sets.h"

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
