// Sizes, ranks, bandwidths, medians.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/bench/row.h"
#include "tools/bench/sizes.h"
#include "tutti/error.h"

namespace tutti::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string complaint(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(BenchSizes, AreReadAsPeopleWriteThem) {
  EXPECT_EQ(parse_bytes("8", "-b"), 8U);
  EXPECT_EQ(parse_bytes("64K", "-b"), 65536U);
  EXPECT_EQ(parse_bytes("64k", "-b"), 65536U);
  EXPECT_EQ(parse_bytes("64KB", "-b"), 65536U);
  EXPECT_EQ(parse_bytes("1.5M", "-b"), 1572864U);
  EXPECT_EQ(parse_bytes("2GiB", "-b"), 2147483648U);
  for (const char* text : {"", "K", "8X", "-8", "0", "0.3", "1e99", "8 K", "nan", "64MM"}) {
    EXPECT_THAT(complaint([&] { parse_bytes(text, "-e"); }), HasSubstr("-e needs a number of bytes")) << text;
  }
}

TEST(BenchSizes, GoUpByFactorOrStep) {
  EXPECT_THAT(sizes_of({8, 64, 0, 2}), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(sizes_of({8, 63, 0, 2}), ElementsAre(8, 16, 32));
  EXPECT_THAT(sizes_of({8, 40, 16, 2}), ElementsAre(8, 24, 40));
  EXPECT_THAT(sizes_of({1, 4, 0, 1.1}), ElementsAre(1, 2, 3, 4)) << "they always grow";
  EXPECT_THAT(sizes_of({8, 8, 0, 2}), ElementsAre(8));
  EXPECT_THAT(complaint([] { sizes_of({8, 4, 0, 2}); }), HasSubstr("nothing lies between"));
  EXPECT_THAT(complaint([] { sizes_of({8, 64, 0, 1}); }), HasSubstr("-f must be above 1"));
  EXPECT_THAT(complaint([] { sizes_of({8, 1 << 30, 1, 2}); }), HasSubstr("more than"));
}

TEST(BenchRanks, AreANumberAListOrARange) {
  EXPECT_THAT(parse_ranks("4", "-n"), ElementsAre(4));
  EXPECT_THAT(parse_ranks("2,4,8", "-n"), ElementsAre(2, 4, 8));
  EXPECT_THAT(parse_ranks("2..5", "-n"), ElementsAre(2, 3, 4, 5));
  for (const char* text : {"", "0", "65", "four", "2..", "..3", "2,x", "1.5", "-2"}) {
    EXPECT_THAT(complaint([&] { parse_ranks(text, "-n"); }), HasSubstr("-n needs ranks from 1 to 64")) << text;
  }
  EXPECT_THAT(complaint([] { parse_ranks("5..2", "-n"); }), HasSubstr("ends before it begins"));
}

TEST(BenchSizes, AreShownShort) {
  EXPECT_EQ(text_of_bytes(8), "8 B");
  EXPECT_EQ(text_of_bytes(4096), "4 KB");
  EXPECT_EQ(text_of_bytes(3 << 19), "1.5 MB");
  EXPECT_EQ(text_of_bytes(1ULL << 33), "8 GB");
}

Row row_of(Verb verb, int ranks, std::uint64_t bytes, double us) {
  Row row;
  row.cell.verb = verb;
  row.ranks = ranks;
  row.cell.count = count_for(verb, row.cell.type, ranks, bytes);
  row.timing.median_us = us;
  return row;
}

TEST(BenchBandwidth, IsThatOfNcclTests) {
  // 4 MB in 1 ms: 4.194304 GB/s.
  const auto busbw = [](Verb verb) { return row_of(verb, 4, 4 << 20, 1000).busbw(); };
  for (std::size_t i = 0; i < kVerbs; ++i) {
    const Verb verb = static_cast<Verb>(i);
    if (verb == Verb::barrier) continue;
    const Row row = row_of(verb, 4, 4 << 20, 1000);
    EXPECT_EQ(row.bytes(), 4U << 20) << name_of(verb);
    EXPECT_DOUBLE_EQ(row.algbw(), 4.194304) << name_of(verb);
  }
  EXPECT_DOUBLE_EQ(busbw(Verb::all_reduce), 4.194304 * 1.5);
  for (const Verb verb : {Verb::all_gather, Verb::reduce_scatter, Verb::all_to_all, Verb::gather, Verb::scatter}) {
    EXPECT_DOUBLE_EQ(busbw(verb), 4.194304 * 0.75) << name_of(verb);
  }
  for (const Verb verb : {Verb::broadcast, Verb::reduce, Verb::send_recv, Verb::scan, Verb::exclusive_scan}) {
    EXPECT_DOUBLE_EQ(busbw(verb), 4.194304) << name_of(verb);
  }
  EXPECT_EQ(row_of(Verb::barrier, 4, 8, 1).bytes(), 0U);
  EXPECT_EQ(row_of(Verb::barrier, 4, 8, 1).busbw(), 0);
}

TEST(BenchBandwidth, CountsAreOfTheVectorOrOfAChunk) {
  EXPECT_EQ(count_for(Verb::all_reduce, DType::float32, 4, 1024), 256U);
  EXPECT_EQ(count_for(Verb::all_gather, DType::float32, 4, 1024), 64U);
  EXPECT_EQ(count_for(Verb::all_gather, DType::float64, 4, 8), 1U) << "at least one element";
  EXPECT_EQ(count_for(Verb::barrier, DType::float32, 4, 1024), 0U);
}

TEST(BenchTiming, MedianMinimumAndSpread) {
  const Timing odd = timing_of({5, 1, 4, 2, 3});
  EXPECT_DOUBLE_EQ(odd.median_us, 3);
  EXPECT_DOUBLE_EQ(odd.min_us, 1);
  EXPECT_DOUBLE_EQ(odd.spread, 1.0 / 3) << "quartiles 2 and 4";
  EXPECT_EQ(odd.rounds, 5);
  EXPECT_DOUBLE_EQ(timing_of({1, 2, 3, 100}).median_us, 2.5) << "between the middle two";
  EXPECT_DOUBLE_EQ(timing_of({7}).spread, 0);
  EXPECT_DOUBLE_EQ(median_of({3, 1, 2}), 2);
}

}  // namespace
}  // namespace tutti::bench
