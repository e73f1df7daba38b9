// 16-bit floats more thoroughly: every value against a choice of partners, under every operator and instruction set.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/reference.h"
#include "kernels/samples.h"
#include "kernels/targets.h"

namespace tutti::kernels_test {
namespace {

constexpr std::size_t kAll = 65536;
constexpr std::size_t kPartners = 12;

std::uint16_t bits_at(const Buffer& buffer, std::size_t index) {
  std::uint16_t bits;
  std::memcpy(&bits, buffer.data() + 2 * index, 2);
  return bits;
}

Buffer every_value() {
  Buffer all(2 * kAll);
  for (std::size_t i = 0; i < kAll; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    std::memcpy(all.data() + 2 * i, &bits, 2);
  }
  return all;
}

Buffer same_value(std::uint16_t bits) {
  Buffer same(2 * kAll);
  for (std::size_t i = 0; i < kAll; ++i) std::memcpy(same.data() + 2 * i, &bits, 2);
  return same;
}

class HalfTest : public testing::TestWithParam<DType> {};

TEST_P(HalfTest, EveryValueAgainstPartners) {
  const Buffer all = every_value();
  const Buffer partners = make_samples(GetParam(), kPartners, 4711);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::minimum, ReduceOp::maximum}) {
    for (std::size_t p = 0; p < kPartners; ++p) {
      const Buffer partner = same_value(bits_at(partners, p));
      const bool first = p % 2 == 0;  // NaN and zeros make the order of operands visible
      const std::vector<const std::byte*> sources = {first ? partner.data() : all.data(),
                                                     first ? all.data() : partner.data()};
      const Buffer expected = reference_reduce(GetParam(), op, sources, kAll, 1);
      for (std::size_t target = 0; target < kernels::target_count(); ++target) {
        kernels::use_target(target);
        Buffer result(2 * kAll);
        void* const destination = result.data();
        const void* const pointers[] = {sources[0], sources[1]};
        kernels::find_reduce(GetParam(), op)(&destination, 1, pointers, 2, kAll, 1);
        ASSERT_EQ(result, expected) << name_of(op) << " " << kernels::target_name(target) << " "
                                    << bits_at(partners, p);
      }
    }
  }
  kernels::use_target(0);
}

// A test of the tests: would a kernel that truncates be caught?
TEST_P(HalfTest, SamplesTellRoundingsApart) {
  const Buffer a = make_samples(GetParam(), 100, 1), b = make_samples(GetParam(), 100, 2);
  const std::vector<const std::byte*> sources = {a.data(), b.data()};
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product}) {
    EXPECT_NE(reference_reduce(GetParam(), op, sources, 100, 1),
              reference_reduce(GetParam(), op, sources, 100, 1, Rounding::toward_zero));
  }
}

TEST_P(HalfTest, ReferenceRoundTrips) {
  const HalfFormat format = GetParam() == DType::float16 ? kFloat16 : kBFloat16;
  for (std::size_t i = 0; i < kAll; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double value = decode_half(format, bits);
    if (value != value) continue;
    ASSERT_EQ(encode_half(format, value), bits);
  }
}

std::string type_name(const testing::TestParamInfo<DType>& info) { return std::string(name_of(info.param)); }
INSTANTIATE_TEST_SUITE_P(Types, HalfTest, testing::Values(DType::float16, DType::bfloat16), type_name);

TEST(HalfReferenceTest, KnownRoundings) {
  EXPECT_EQ(encode_half(kFloat16, 1.0), 0x3C00);
  EXPECT_EQ(encode_half(kFloat16, 65504.0), 0x7BFF);
  EXPECT_EQ(encode_half(kFloat16, 65519.99), 0x7BFF);
  EXPECT_EQ(encode_half(kFloat16, 65520.0), 0x7C00);
  EXPECT_EQ(encode_half(kFloat16, 0x1p-25), 0x0000);
  EXPECT_EQ(encode_half(kFloat16, 0x1.8p-25), 0x0001);
  EXPECT_EQ(encode_half(kFloat16, -0x1p-24), 0x8001);
  EXPECT_EQ(encode_half(kBFloat16, 1.0), 0x3F80);
  EXPECT_EQ(encode_half(kBFloat16, 1.00390625), 0x3F80);  // halfway: to even
  EXPECT_EQ(encode_half(kBFloat16, 1.01171875), 0x3F82);  // halfway: to even
  EXPECT_EQ(encode_half(kBFloat16, 0x1p-133), 0x0001);
}

}  // namespace
}  // namespace tutti::kernels_test
