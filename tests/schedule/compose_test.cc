// Programs that are made of others: sets of blocks, levels inside levels, and what each stage may rely on.
#include "schedule/compose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program_sets.h"
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"
#include "schedule/readers/verify.h"

namespace tutti::schedule {
namespace {

std::vector<int> blocks_of(const BlockSet& set) {
  std::vector<int> blocks;
  for (int i = 0; i < set.count; ++i) blocks.push_back(set.at(i, 0, 100));
  return blocks;
}

TEST(SetOf, CountsBlocksWhereTheyCanBeCounted) {
  for (const std::vector<int>& blocks :
       {std::vector{3}, {3, 4, 5}, {0, 4, 8}, {8, 4, 0}, {0, 1, 4, 5, 8, 9}, {0, 1, 4, 5, 8}, {2, 1}}) {
    EXPECT_TRUE(set_of(blocks).list.empty()) << ::testing::PrintToString(blocks);
    EXPECT_EQ(blocks_of(set_of(blocks)), blocks);
  }
  for (const std::vector<int>& blocks : {std::vector{0, 1, 3, 5}, {0, 2, 3}, {5, 0, 1}, {0, 1, 4, 6}}) {
    EXPECT_EQ(set_of(blocks).list, blocks);
    EXPECT_EQ(blocks_of(set_of(blocks)), blocks);
  }
}

// Whatever the blocks of a stage stand for, they come out as if every one had been written down.
TEST(StageBlocks, AreCountedAsTheirListIs) {
  constexpr int kBlocks = 12;
  const std::vector<StageBlocks::Counted> kinds = {{12, 0, 1, 1}, {12, 7, 1, 1},     {12, 0, 5, 5},
                                                   {12, 3, 8, 1}, {12, 0, 1, 4, 12}, {12, 2, 6, 4},
                                                   {12, 0, 2, 4}, {7, 1, 3, 3},      {7, 0, 1, 2, 7}};
  int counted = 0, nothing = 0;
  for (const StageBlocks::Counted& kind : kinds) {
    const StageBlocks blocks(kind);
    for (const int rank : {0, 5}) {
      Program part;
      part.ranks = part.blocks = kBlocks;
      part.rank = rank;
      for (int first = 0; first < kBlocks; ++first) {
        for (const int stride : {-3, 1, 2, 3, 4}) {
          for (const int run : {1, 2, 3}) {
            for (int count = 1; count <= 7; ++count) {
              for (const Index& index : {Index::absolute(first), Index::plus(first)}) {
                const BlockSet set{index, stride, count, run};
                const std::vector<std::int32_t> list = blocks.list_of(set, part);
                ASSERT_EQ(blocks.nothing_of(set, part), list.empty());
                ASSERT_EQ(blocks.of(set, part), set_of(list))
                    << "first " << first << ", stride " << stride << ", run " << run << ", count " << count;
                ++(list.empty() ? nothing : counted);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(counted, 1000);
  EXPECT_GT(nothing, 100);
}

// Hosts of two ranks, two to a rack: across the hosts runs what is hierarchical itself.
Program all_reduce_over_racks(const Placement& placement) {
  const auto across = [](const Placement& hosts) {
    Placement racks = hosts;
    std::vector<int> rack;
    for (int host = 0; host < hosts.ranks; ++host) rack.push_back(host / 2);
    racks.hosts = Hosts(rack);
    return hierarchical_all_reduce(racks);
  };
  const Levels levels(placement);
  const int width = across({levels.hosts()}).blocks;
  Composition composition(begin_program(Verb::all_reduce, "racks", placement, levels.columns() * width, 0), 2);
  Stage reduce = levels.inside("reduce inside", pairwise_reduce_scatter);
  reduce.blocks = Levels::runs(levels.columns(), width);
  reduce.widest = width;
  reduce.output = in_plane(0);
  reduce.last = false;
  composition.add(reduce);
  Stage sum = levels.across("sum across", across);
  sum.blocks = Levels::runs(width, 1, levels.local() * width);
  sum.input = in_plane(0);
  sum.output = in_plane(1);
  composition.add(sum);
  Stage gather = levels.inside("gather inside", ring_all_gather);
  gather.blocks = Levels::runs(levels.columns(), width);
  gather.widest = width;
  gather.input = in_plane(1);
  gather.output = kOutput;
  composition.add(gather);
  return composition.finish();
}

TEST(Composition, HasAsManyLevelsAsOneLikes) {
  for (const int hosts : {4, 8}) {
    const Hosts placed = Hosts::in_blocks(std::vector<int>(static_cast<std::size_t>(hosts), 2));
    const Offers offers = mixed(placed);
    std::vector<Lowered> programs;
    for (int rank = 0; rank < 2 * hosts; ++rank)
      programs.push_back(lower(all_reduce_over_racks({2 * hosts, rank, 0, placed}), offers));
    EXPECT_EQ(programs.front().program.channels, 2);
    for (const std::uint32_t segments : {1u, 4u}) {
      for (const bool in_place : {false, true}) {
        const VerifyReport report = verify(programs, {100003, 4, segments, 0, in_place});
        EXPECT_TRUE(report.ok()) << report.problems.front().message;
        EXPECT_TRUE(report.canonical);
      }
    }
  }
}

// Bytes that cross between hosts: each host's sum once in and once out, whatever the order of the ranks.
TEST(Composition, ASumCrossesBetweenHostsOnce) {
  constexpr std::uint64_t kCount = 3 * 16 * 1024;
  const std::vector<std::vector<int>> placements{
      {0, 0, 1, 1, 2, 2, 3, 3}, {0, 1, 2, 3, 0, 1, 2, 3}, {0, 0, 1, 1, 2, 2}, {0, 1, 2, 0, 1, 2}};
  for (const auto& by_rank : placements) {
    const Hosts hosts(by_rank);
    const std::uint64_t count = by_rank.size() / 2;  // of hosts
    const auto programs =
        programs_of(*find_algorithm(Verb::all_reduce, "hierarchical"), static_cast<int>(by_rank.size()), mixed(hosts));
    std::vector<std::uint64_t> out(count);
    for (const auto& [edge, bytes] : verify(programs, {kCount, 4, 1, 0, false}).edge_bytes) {
      if (!hosts.share(edge.first, edge.second)) out[static_cast<std::size_t>(hosts.of(edge.first))] += bytes;
    }
    EXPECT_THAT(out, ::testing::Each(kCount * 4 * 2 * (count - 1) / count));  // 2 (h-1)/h n
  }
}

// A stage begins with a segment when the one before is through with it.
TEST(Composition, StagesWaitForEachOther) {
  const Hosts hosts = Hosts::in_blocks(std::vector{2, 2});
  const auto programs = programs_of(*find_algorithm(Verb::all_reduce, "hierarchical"), 4, mixed(hosts));
  ASSERT_TRUE(verify(programs, {10007, 4, 5, 0, false}).ok());
  for (std::size_t lane = 1; lane < 3; ++lane) {
    auto broken = programs;
    std::vector<Wait>& waits = broken[0].program.lanes[lane].steps[0].waits;
    EXPECT_EQ(std::erase_if(waits, [](const Wait& wait) { return wait.segments_back == 0; }), 1);
    EXPECT_FALSE(verify(broken, {10007, 4, 5, 0, false}).ok()) << "lane " << lane;
  }
}

}  // namespace
}  // namespace tutti::schedule
