// What drivers share: the lines, where buffers lie, and numbers that find mistakes.
#include <gtest/gtest.h>

#include <array>

#include "tools/bench/driver/values.h"

namespace tutti::bench {
namespace {

TEST(BenchProtocol, ACellSurvivesItsText) {
  Cell cell{Verb::reduce_scatter, DType::bfloat16, ReduceOp::maximum, 3, 12345, true, true, 7, "ring"};
  EXPECT_EQ(cell_of(text_of(cell)), cell);
  cell.algorithm = "";
  cell.in_place = cell.symmetric = false;
  EXPECT_EQ(cell_of(text_of(cell)), cell);
  for (const char* text :
       {"", "dance float32 sum 0 1 apart ordinary 1 -", "all_reduce float32 sum 0 x apart ordinary 1 -",
        "all_reduce float32 sum 0 1 apart ordinary 0 -"}) {
    EXPECT_THROW(cell_of(text), std::runtime_error) << text;
  }
}

Seat seat_of(Verb verb, int rank, bool in_place) {
  Cell cell;
  cell.verb = verb;
  cell.count = 40;
  cell.root = 1;
  cell.in_place = in_place;
  return {cell, rank, 3};
}

// Distance in elements, or -1 where a rank has not both buffers.
long distance(Verb verb, int rank) {
  const Seat seat = seat_of(verb, rank, true);
  std::vector<std::byte> memory(Layout(seat).bytes());
  const Buffers at = Layout(seat).copy(memory.data(), 0);
  if (at.input == nullptr || at.output == nullptr) return -1;
  return (at.output - at.input) / 4;
}

TEST(BenchLayout, InPlaceIsWhatTheLibraryMeansByIt) {
  EXPECT_EQ(distance(Verb::all_reduce, 2), 0);
  EXPECT_EQ(distance(Verb::broadcast, 2), 0);
  EXPECT_EQ(distance(Verb::all_to_all, 2), 0);
  EXPECT_EQ(distance(Verb::all_gather, 2), -80);
  EXPECT_EQ(distance(Verb::reduce_scatter, 2), 80);
  EXPECT_EQ(distance(Verb::gather, 1), -40);
  EXPECT_EQ(distance(Verb::scatter, 1), 40);
  EXPECT_EQ(distance(Verb::gather, 2), -1) << "no output elsewhere than at the root";
  EXPECT_EQ(distance(Verb::scatter, 2), -1);
  EXPECT_EQ(distance(Verb::reduce, 2), -1);
  EXPECT_EQ(distance(Verb::reduce, 1), 0);
}

TEST(BenchLayout, CopiesAndBuffersDoNotOverlap) {
  for (std::size_t i = 0; i < kVerbs; ++i) {
    Seat seat = seat_of(static_cast<Verb>(i), 1, false);
    seat.cell.copies = 3;
    const Layout layout(seat);
    std::vector<std::byte> memory(layout.bytes());
    std::byte* end = memory.data();
    for (std::uint32_t copy = 0; copy < 3; ++copy) {
      const Buffers at = layout.copy(memory.data(), copy);
      for (const auto& [begin, count] : {std::pair(at.input, seat.input_count()), {at.output, seat.output_count()}}) {
        if (begin == nullptr) continue;
        EXPECT_GE(begin, end) << name_of(seat.cell.verb);
        end = begin + count * 4;
      }
    }
    EXPECT_LE(end, memory.data() + memory.size()) << name_of(seat.cell.verb);
  }
}

// The verb done by hand, from the inputs of all ranks: what the expectation is held against.
TEST(BenchValues, TheExpectationIsTheVerb) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 40;
  Cell cell;
  cell.count = kCount;
  const auto in = [&](int rank, std::size_t i) { return static_cast<float>(value_of(cell, kRanks, rank, i)); };
  cell.verb = Verb::all_to_all;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::array<float, kRanks * kCount> out{};
    for (int from = 0; from < kRanks; ++from) {
      for (std::size_t i = 0; i < kCount; ++i) out[from * kCount + i] = in(from, rank * kCount + i);
    }
    EXPECT_EQ(wrong_in({cell, rank, kRanks}, reinterpret_cast<const std::byte*>(out.data())), 0U);
    std::swap(out[3], out[kCount + 3]);
    EXPECT_EQ(wrong_in({cell, rank, kRanks}, reinterpret_cast<const std::byte*>(out.data())), 2U);
  }
  cell.verb = Verb::exclusive_scan;
  std::array<float, kCount> out{};
  for (std::size_t i = 0; i < kCount; ++i) out[i] = in(0, i) + in(1, i);
  EXPECT_EQ(wrong_in({cell, 2, kRanks}, reinterpret_cast<const std::byte*>(out.data())), 0U);
  EXPECT_NE(wrong_in({cell, 1, kRanks}, reinterpret_cast<const std::byte*>(out.data())), 0U);
}

TEST(BenchValues, SumsStayExactInEveryType) {
  for (std::size_t t = 0; t < kDTypes; ++t) {
    Cell cell;
    cell.type = static_cast<DType>(t);
    const std::int64_t most = cell.type == DType::bfloat16 ? 256 : cell.type == DType::float16 ? 2048 : 1 << 24;
    for (std::uint64_t i = 0; i < kPeriod; ++i) {
      EXPECT_LE(folded(cell, 64, i, 0, 63), most) << name_of(cell.type);
      EXPECT_LE(size_of(cell.type) == 1 ? folded(cell, 32, i, 0, 31) : 0, 127) << name_of(cell.type);
    }
  }
}

TEST(BenchValues, SixteenBitFloatsAreWrittenAsTheyAre) {
  std::uint16_t bits = 0;
  encode(DType::float16, 3, reinterpret_cast<std::byte*>(&bits));
  EXPECT_EQ(bits, 0x4200);
  encode(DType::bfloat16, 3, reinterpret_cast<std::byte*>(&bits));
  EXPECT_EQ(bits, 0x4040);
  encode(DType::float16, 0, reinterpret_cast<std::byte*>(&bits));
  EXPECT_EQ(bits, 0);
}

}  // namespace
}  // namespace tutti::bench
