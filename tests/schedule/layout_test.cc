// Segments and blocks cut every vector exactly, at cache lines, whatever the count.
#include "schedule/layout.h"

#include <gtest/gtest.h>

namespace tutti::schedule {
namespace {

constexpr std::uint64_t kCounts[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 511, 1000, 4097, 65536, 1000003, (1u << 20) - 1};
constexpr std::uint32_t kBlocks[] = {1, 2, 3, 4, 7, 8, 33, 64, 1000};
constexpr std::uint64_t kSegmentBytes[] = {0, 1, 63, 64, 65, 4096, 65536, 1 << 20, ~std::uint64_t{0}};

void expect_exact(const Layout& layout) {
  const std::uint64_t line = Layout::line_elements(layout.element_bytes);
  std::uint64_t covered = 0;
  ASSERT_GE(layout.segments, 1u);
  for (std::uint64_t segment = 0; segment < layout.segments; ++segment) {
    ASSERT_EQ(layout.begin_of_segment(segment), covered);
    ASSERT_LE(layout.size_of_segment(segment), layout.segment_count);
    std::uint64_t within = 0;
    for (std::uint64_t block = 0; block < layout.blocks; ++block) {
      const Range range = layout.block(segment, block);
      ASSERT_EQ(range.begin, within);
      if (range.count != 0) {
        ASSERT_EQ(range.begin % line, 0u) << "a block shares a cache line with its neighbour";
        ASSERT_EQ(range.begin, layout.block(0, block).begin)
            << "a block moves between segments, into another's scratch";
      }
      ASSERT_LE(range.count, layout.block(0, 0).count);
      within += range.count;
    }
    ASSERT_EQ(within, layout.size_of_segment(segment));
    covered += within;
  }
  ASSERT_EQ(covered, layout.count);
}

TEST(Layout, CutsEveryVectorExactly) {
  for (const std::uint64_t count : kCounts) {
    for (const std::uint32_t element_bytes : {1u, 2u, 4u, 8u, 16u}) {
      for (const std::uint32_t blocks : kBlocks) {
        for (const std::uint64_t segment_bytes : kSegmentBytes) {
          // Millions of segments say no more than thousands.
          if (segment_bytes != 0 && count * element_bytes / segment_bytes > 100'000) continue;
          SCOPED_TRACE(testing::Message()
                       << count << " x " << element_bytes << " bytes, " << blocks << " blocks, " << segment_bytes);
          expect_exact(Layout::make(count, element_bytes, blocks, segment_bytes));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Layout, KeepsTheSegmentBoundDownToOneLinePerBlock) {
  for (const std::uint32_t blocks : kBlocks) {
    for (const std::uint64_t segment_bytes : kSegmentBytes) {
      if (segment_bytes == 0 || segment_bytes > (1u << 20)) continue;
      const Layout layout = Layout::make(1000003, 4, blocks, segment_bytes);
      EXPECT_LE(layout.segment_count * 4, std::max<std::uint64_t>(segment_bytes, std::uint64_t{blocks} * kLineBytes));
    }
  }
}

TEST(Layout, RunsOfBlocksAreTheirSum) {
  const Layout layout = Layout::make(10007, 4, 7, 8192);
  for (std::uint64_t segment = 0; segment < layout.segments; ++segment) {
    for (std::uint64_t first = 0; first < 7; ++first) {
      for (std::uint64_t run = 1; first + run <= 7; ++run) {
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i < run; ++i) sum += layout.block(segment, first + i).count;
        EXPECT_EQ(layout.blocks_from(segment, first, run), (Range{layout.block(segment, first).begin, sum}));
      }
    }
  }
}

TEST(Layout, CutsEveryChunkExactly) {
  for (const std::uint64_t count : kCounts) {
    for (const std::uint32_t blocks : kBlocks) {
      for (const std::uint64_t segment_bytes : kSegmentBytes) {
        if (segment_bytes != 0 && count * 4 * blocks / segment_bytes > 10'000) continue;
        const Layout layout = Layout::make_chunks(count, 4, blocks, segment_bytes);
        ASSERT_GE(layout.segments, 1u);
        if (segment_bytes != 0 && layout.segments > 1) {
          ASSERT_LE(layout.plane_count() * 4, std::max<std::uint64_t>(segment_bytes, kLineBytes * blocks));
        }
        for (const std::uint32_t block : {0u, blocks / 2, blocks - 1}) {
          std::uint64_t at = block * count;
          for (std::uint64_t segment = 0; segment < layout.segments; ++segment) {
            const Range all = layout.place(Buffer::output, false, segment, block);
            ASSERT_EQ(all.begin, at);
            ASSERT_EQ(layout.place(Buffer::input, true, segment, block).begin, at - block * count);
            ASSERT_EQ(layout.place(Buffer::scratch, false, segment, block).begin, block * layout.segment_count);
            ASSERT_LE(all.count, layout.segment_count);
            at += all.count;
          }
          ASSERT_EQ(at, (block + 1) * count);
        }
      }
    }
  }
}

// Two ranks that know different chunks cut the one they share alike.
TEST(Layout, CutsAChunkAlikeWhateverTheOthersAre) {
  for (const std::uint64_t shared : kCounts) {
    for (const std::uint64_t segment_bytes : kSegmentBytes) {
      const std::uint64_t here[] = {shared, 5, 0}, there[] = {70'000, shared, 1};
      const std::uint64_t begins[] = {100, 0, 90};
      const Layout a = Layout::make_uneven({here, begins}, {}, 4, 3, segment_bytes);
      const Layout b = Layout::make_uneven({}, {there, begins}, 4, 3, segment_bytes);
      ASSERT_EQ(a.segments_of(shared), b.segments_of(shared)) << shared << ", " << segment_bytes;
      if (a.segments_of(shared) > 10'000) continue;
      std::uint64_t covered = 0;
      for (std::uint64_t segment = 0; segment < a.segments_of(shared); ++segment) {
        const Range sent = a.place(Buffer::input, false, segment, 0), taken = b.place(Buffer::output, true, segment, 1);
        ASSERT_EQ(sent.count, taken.count);
        ASSERT_EQ(sent.begin, 100 + covered);
        ASSERT_EQ(taken.begin, covered);
        covered += sent.count;
      }
      ASSERT_EQ(covered, shared);
    }
  }
}

TEST(Layout, TakesTheLargestVectorThereCanBe) {
  const std::uint64_t count = (std::uint64_t{1} << 60) - 1;
  const Layout layout = Layout::make(count, 8, 1000, 0);
  EXPECT_EQ(layout.blocks_from(0, 0, 1000), (Range{0, count}));
  const Layout cut = Layout::make(count, 8, 1000, std::uint64_t{1} << 30);
  EXPECT_EQ(cut.begin_of_segment(cut.segments - 1) + cut.size_of_segment(cut.segments - 1), count);
}

}  // namespace
}  // namespace tutti::schedule
