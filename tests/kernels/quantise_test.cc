// Codes against the same rules one value at a time in float64, bit for bit: every type, block, length and instruction
// set; the bound on the error; values that are no ordinary numbers.
#include "kernels/quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/mix.h"
#include "kernels/targets.h"

namespace tutti::kernels_test {
namespace {

using kernels::CodeFormat;
using kernels::CodeRounding;
using kernels::CodeType;

constexpr CodeType kTypes[] = {CodeType::int8, CodeType::int4, CodeType::e4m3, CodeType::e5m2, CodeType::e3m0};
constexpr const char* kTypeNames[] = {"int8", "int4", "e4m3", "e5m2", "e3m0"};
constexpr std::size_t kBlocks[] = {32, 128, 4096};
constexpr std::size_t kCounts[] = {0, 1, 2, 7, 15, 31, 32, 33, 63, 95, 127, 128, 129, 1001, 4096, 5003};

// The magnitudes of a type by code, from its definition.
std::vector<double> magnitudes_of(CodeType type) {
  const auto floats = [](int exponent_bits, int fraction_bits, int count) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    std::vector<double> magnitudes;
    for (int code = 0; code < count; ++code) {
      const int exponent = code >> fraction_bits, fraction = code & ((1 << fraction_bits) - 1);
      const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
      magnitudes.push_back(std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits));
    }
    return magnitudes;
  };
  const auto whole = [](int most) {
    std::vector<double> magnitudes;
    for (int i = 0; i <= most; ++i) magnitudes.push_back(i);
    return magnitudes;
  };
  switch (type) {
    case CodeType::int8: return whole(127);
    case CodeType::int4: return whole(7);
    case CodeType::e4m3: return floats(4, 3, 0x7F);
    case CodeType::e5m2: return floats(5, 2, 0x7C);
    case CodeType::e3m0: return floats(3, 0, 8);
    case CodeType::sign:  // have tests of their own
    case CodeType::m8:
    case CodeType::v8: break;
  }
  return {};
}

bool is_whole(CodeType type) { return type == CodeType::int8 || type == CodeType::int4; }

std::uint32_t random_word(std::uint64_t seed, std::uint64_t block_position, std::size_t position) {
  auto h = static_cast<std::uint32_t>(position) * 0x9E3779B9U;
  h ^= static_cast<std::uint32_t>(mix(seed, block_position) >> 32);
  h = (h ^ (h >> 16)) * 0x7FEB352DU;
  h = (h ^ (h >> 15)) * 0x846CA68BU;
  return h ^ (h >> 16);
}

// Between which codes a magnitude lies; the upper one is the lower where that is the last.
std::size_t code_below(const std::vector<double>& magnitudes, double magnitude) {
  const auto above = std::upper_bound(magnitudes.begin(), magnitudes.end(), magnitude);
  return static_cast<std::size_t>(above - magnitudes.begin()) - 1;
}

std::size_t nearest_code(const std::vector<double>& magnitudes, double magnitude) {
  const std::size_t below = code_below(magnitudes, magnitude);
  if (below + 1 == magnitudes.size()) return below;
  const double down = magnitude - magnitudes[below], up = magnitudes[below + 1] - magnitude;
  if (down == up) return below % 2 == 0 ? below : below + 1;
  return down < up ? below : below + 1;
}

// Up by chance: whole numbers by the upper half of the word, on the number with its sign, floats by the share of what
// lies between the codes.
std::size_t random_code(CodeType type, const std::vector<double>& magnitudes, double scaled, std::uint32_t word) {
  const double shift = ((word >> 16) + 0.5 - 32768) / 65536;
  if (is_whole(type)) {
    const double most = magnitudes.back(), rounded = std::nearbyint(std::clamp(scaled + shift, -most, most));
    return static_cast<std::size_t>(std::abs(rounded)) | (rounded < 0 ? std::size_t{1} << 20 : 0);
  }
  const double magnitude = std::abs(scaled);
  const std::size_t below = code_below(magnitudes, magnitude);
  if (below + 1 == magnitudes.size()) return below;
  const double gap = magnitudes[below + 1] - magnitudes[below], share = (magnitude - magnitudes[below]) / gap;
  const std::size_t first_normal = type == CodeType::e4m3 ? 8 : type == CodeType::e5m2 ? 4 : 1;
  if (below < first_normal) return std::nearbyint(share + shift) >= 1 ? below + 1 : below;
  const int dropped = type == CodeType::e4m3 ? 20 : type == CodeType::e5m2 ? 21 : 23;
  return share + std::ldexp(word >> (32 - dropped), -dropped) >= 1 ? below + 1 : below;
}

// Codes as bytes, one for each value, and the scale of their block.
struct ReferenceBlock {
  float scale = 0;
  std::vector<std::uint8_t> codes;
};

ReferenceBlock reference_block(CodeType type, const float* values, std::size_t count, const CodeRounding& rounding,
                               std::uint64_t position) {
  const std::vector<double> magnitudes = magnitudes_of(type);
  const auto largest = static_cast<float>(magnitudes.back());
  float most = 0;
  for (std::size_t i = 0; i < count; ++i) most = std::max(most, std::abs(values[i]));
  most = std::min(most, 0x1.fffff0p127F);
  ReferenceBlock block;
  const float inverse = most < kernels::kLeastMagnitude ? 0 : largest / most;
  block.scale = most < kernels::kLeastMagnitude ? 0 : most / largest;
  for (std::size_t i = 0; i < count; ++i) {
    const float scaled = values[i] * inverse;
    std::size_t code = nearest_code(magnitudes, std::abs(scaled));
    bool negative = std::signbit(scaled);
    if (rounding.stochastic) {
      code = random_code(type, magnitudes, scaled, random_word(rounding.seed, position, i));
      if (is_whole(type)) negative = (code >> 20) != 0;
      code &= 0xFFFFF;
    }
    const std::size_t bits = kernels::code_bits(type), mask = (std::size_t{1} << bits) - 1;
    if (is_whole(type)) {
      block.codes.push_back(static_cast<std::uint8_t>((negative ? 0 - code : code) & mask));
    } else {
      block.codes.push_back(static_cast<std::uint8_t>(code | (negative ? std::size_t{1} << (bits - 1) : 0)));
    }
  }
  return block;
}

std::vector<std::byte> reference_codes(const CodeFormat& format, const std::vector<float>& values,
                                       const CodeRounding& rounding = {}) {
  std::vector<std::byte> bytes;
  for (std::size_t begin = 0; begin < values.size(); begin += format.block) {
    const std::size_t count = std::min(format.block, values.size() - begin);
    const ReferenceBlock block =
        reference_block(format.type, values.data() + begin, count, rounding, rounding.first + begin);
    for (const std::byte byte : std::bit_cast<std::array<std::byte, 4>>(block.scale)) bytes.push_back(byte);
    for (std::size_t i = 0; i < count; ++i) {
      if (kernels::code_bits(format.type) == 8) {
        bytes.push_back(std::byte{block.codes[i]});
      } else if (i % 2 == 0) {
        bytes.push_back(std::byte{block.codes[i]});
      } else {
        bytes.back() |= std::byte{block.codes[i]} << 4;
      }
    }
  }
  return bytes;
}

// Numbers of many magnitudes, block by block, with zeros of both signs, ties and denormals among them.
std::vector<float> make_values(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix(mix(seed, i), 77), kind = word % 16;
    const auto unit = static_cast<float>(static_cast<double>(word >> 12) / (1ull << 52) * 2 - 1);
    const auto exponent = static_cast<int>(mix(seed, i / 64) % 40) - 20;
    values[i] = std::ldexp(unit, exponent);
    if (kind == 0) values[i] = 0;
    if (kind == 1) values[i] = -0.0F;
    if (kind == 2) values[i] = unit * 1e-41F;
    if (kind == 3) values[i] = std::ldexp(std::round(unit * 254) / 2, exponent);
    if (kind == 4) values[i] = std::ldexp(std::copysign(1.5F, unit), exponent - static_cast<int>(word >> 8) % 8);
  }
  return values;
}

constexpr std::byte kUntouched{0xA5};

std::vector<std::byte> quantised(const CodeFormat& format, const std::vector<float>& values,
                                 const CodeRounding& rounding = {}) {
  std::vector<std::byte> codes(kernels::code_bytes(format, values.size()) + 64, kUntouched);
  EXPECT_EQ(kernels::quantise(format, values.data(), values.size(), codes.data(), rounding), values.size());
  const std::size_t bytes = kernels::code_bytes(format, values.size());
  EXPECT_TRUE(std::all_of(codes.begin() + static_cast<std::ptrdiff_t>(bytes), codes.end(),
                          [](std::byte byte) { return byte == kUntouched; }));
  codes.resize(bytes);
  return codes;
}

std::vector<float> dequantised(const CodeFormat& format, const std::vector<std::byte>& codes, std::size_t count,
                               bool past_caches = false) {
  std::vector<float> values(count + 16, 7.0F);
  kernels::dequantise(format, codes.data(), count, values.data(), past_caches);
  EXPECT_TRUE(std::all_of(values.begin() + static_cast<std::ptrdiff_t>(count), values.end(),
                          [](float value) { return value == 7.0F; }));
  values.resize(count);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

template <class Body>
void on_every_target(const Body& body) {
  for (std::size_t target = 0; target < kernels::target_count(); ++target) {
    kernels::use_target(target);
    SCOPED_TRACE(kernels::target_name(target));
    body();
  }
  kernels::use_target(0);
}

class QuantiseTest : public testing::TestWithParam<CodeType> {};

TEST_P(QuantiseTest, GivesTheBitsOfTheReference) {
  for (const std::size_t block : kBlocks) {
    for (const std::size_t count : kCounts) {
      const CodeFormat format{GetParam(), block};
      const std::vector<float> values = make_values(count, count + block);
      const std::vector<std::byte> expected = reference_codes(format, values);
      ASSERT_EQ(expected.size(), kernels::code_bytes(format, count));
      SCOPED_TRACE(std::to_string(block) + " " + std::to_string(count));
      on_every_target([&] { ASSERT_EQ(quantised(format, values), expected); });
    }
  }
}

TEST_P(QuantiseTest, RoundsByChanceWithTheBitsOfTheReference) {
  for (const std::size_t block : kBlocks) {
    for (const std::size_t count : {33, 129, 5003}) {
      const CodeFormat format{GetParam(), block};
      const CodeRounding rounding{.stochastic = true, .seed = 5 + block, .first = 1ull << 40};
      const std::vector<float> values = make_values(count, count + block);
      const std::vector<std::byte> expected = reference_codes(format, values, rounding);
      SCOPED_TRACE(std::to_string(block) + " " + std::to_string(count));
      on_every_target([&] { ASSERT_EQ(quantised(format, values, rounding), expected); });
    }
  }
}

TEST_P(QuantiseTest, IsOffByHalfAStepAtMost) {
  const std::vector<double> magnitudes = magnitudes_of(GetParam());
  for (const std::size_t block : kBlocks) {
    const CodeFormat format{GetParam(), block};
    const std::vector<float> values = make_values(20000, block);
    const std::vector<float> back = dequantised(format, quantised(format, values), values.size());
    for (std::size_t begin = 0; begin < values.size(); begin += block) {
      const std::size_t end = std::min(begin + block, values.size());
      double most = 0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(static_cast<double>(values[i])));
      const double scale = most / magnitudes.back();
      for (std::size_t i = begin; i < end; ++i) {
        const double magnitude = std::min(std::abs(values[i]) / scale, magnitudes.back());
        const std::size_t below = std::min(code_below(magnitudes, magnitude), magnitudes.size() - 2);
        const double half = (magnitudes[below + 1] - magnitudes[below]) / 2 * scale;
        const double slack = std::abs(static_cast<double>(values[i])) * 4 * FLT_EPSILON;
        ASSERT_LE(std::abs(static_cast<double>(back[i]) - values[i]), half + slack) << i << " of " << values[i];
      }
    }
  }
}

TEST_P(QuantiseTest, DecodesEveryCodeOnEveryTarget) {
  const std::vector<double> magnitudes = magnitudes_of(GetParam());
  const CodeFormat format{GetParam(), 4096};
  std::vector<float> exact;
  for (const double magnitude : magnitudes) {
    exact.push_back(static_cast<float>(3 * magnitude));
    exact.push_back(static_cast<float>(-3 * magnitude));
  }
  on_every_target([&] {
    const std::vector<std::byte> codes = quantised(format, exact);
    for (const bool past_caches : {false, true}) {
      const std::vector<float> back = dequantised(format, codes, exact.size(), past_caches);
      for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_EQ(back[i], exact[i]) << i;
    }
  });
}

TEST_P(QuantiseTest, AddsAndTakesAwayOnEveryTarget) {
  for (const std::size_t count : kCounts) {
    const CodeFormat format{GetParam(), 128};
    const std::vector<float> values = make_values(count, 3), others = make_values(count, 4);
    const std::vector<std::byte> codes = quantised(format, values);
    const std::vector<float> back = dequantised(format, codes, count);
    std::vector<float> expected_sum(others), expected_rest(others);
    for (std::size_t i = 0; i < count; ++i) expected_sum[i] += back[i], expected_rest[i] -= back[i];
    SCOPED_TRACE(count);
    on_every_target([&] {
      std::vector<float> sum = others, rest(count), in_place = others;
      kernels::dequantise_add(format, codes.data(), count, sum.data());
      ASSERT_TRUE(same_bits(sum, expected_sum));
      kernels::dequantise_rest(format, codes.data(), count, others.data(), rest.data());
      ASSERT_TRUE(same_bits(rest, expected_rest));
      kernels::dequantise_rest(format, codes.data(), count, in_place.data(), in_place.data());
      ASSERT_TRUE(same_bits(in_place, expected_rest));
    });
  }
}

// Values begin at any float, codes at any byte.
TEST_P(QuantiseTest, TakesAnyAlignment) {
  const CodeFormat format{GetParam(), 32};
  const std::vector<float> values = make_values(333, 9);
  const std::vector<std::byte> expected = reference_codes(format, values);
  const std::vector<float> back = dequantised(format, expected, values.size());
  on_every_target([&] {
    for (const std::size_t shift : {1, 3, 5}) {
      std::vector<float> moved(values.size() + shift), decoded(values.size() + shift);
      std::copy(values.begin(), values.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
      std::vector<std::byte> codes(expected.size() + shift);
      kernels::quantise(format, moved.data() + shift, values.size(), codes.data() + shift);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), codes.begin() + static_cast<std::ptrdiff_t>(shift)));
      kernels::dequantise(format, codes.data() + shift, values.size(), decoded.data() + shift, true);
      ASSERT_TRUE(std::equal(back.begin(), back.end(), decoded.begin() + static_cast<std::ptrdiff_t>(shift)));
    }
  });
}

TEST_P(QuantiseTest, TellsTheFirstThatIsNotFiniteAndMakesItsBlockNaN) {
  const CodeFormat format{GetParam(), 32};
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {inf, -inf, nan, -nan}) {
    std::vector<float> values(150, 1.0F);
    values[70] = bad;
    values[149] = nan;
    on_every_target([&] {
      std::vector<std::byte> codes(kernels::code_bytes(format, values.size()));
      ASSERT_EQ(kernels::quantise(format, values.data(), values.size(), codes.data()), 70U);
      const std::vector<float> back = dequantised(format, codes, values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool is_bad = (i >= 64 && i < 96) || i >= 128;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), is_bad ? 0x7FC00000U : 0x3F800000U) << i;
      }
      std::vector<float> sum(values.size(), -nan);
      kernels::dequantise_add(format, codes.data(), values.size(), sum.data());
      for (const float value : sum) ASSERT_EQ(std::bit_cast<std::uint32_t>(value), 0x7FC00000U);
    });
  }
}

TEST_P(QuantiseTest, KeepsZerosAndTheLargestAndDropsBlocksThatAreTiny) {
  const CodeFormat format{GetParam(), 32};
  std::vector<float> values(128, 0.0F);
  for (std::size_t i = 32; i < 64; ++i) values[i] = i % 2 == 0 ? 1e-40F : -FLT_MIN;
  values[70] = FLT_MAX;
  values[71] = -FLT_MAX;
  values[100] = 0x1p-79F;
  on_every_target([&] {
    const std::vector<float> back = dequantised(format, quantised(format, values), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float expected = i < 64 ? 0 : values[i];
      ASSERT_NEAR(back[i] / 0x1p64F, expected / 0x1p64F, std::abs(expected) / 0x1p64F * 1e-6) << i;
      ASSERT_TRUE(std::isfinite(back[i])) << i;
    }
    ASSERT_GT(back[100], 0x1p-80F);
  });
}

TEST_P(QuantiseTest, ChanceHasTheValueAsItsMean) {
  const CodeFormat format{GetParam(), 4096};
  const double largest = magnitudes_of(GetParam()).back();
  for (const double share : {0.3711, -0.0123, 0.8, 0.0004}) {
    std::vector<float> values(1 << 18, static_cast<float>(share));
    for (std::size_t i = 0; i < values.size(); i += 4096) values[i] = 1;
    const std::vector<std::byte> codes = quantised(format, values, {.stochastic = true, .seed = 11});
    const std::vector<float> back = dequantised(format, codes, values.size());
    double sum = 0;
    std::vector<float> seen;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i % 4096 == 0) continue;
      sum += back[i];
      if (std::find(seen.begin(), seen.end(), back[i]) == seen.end()) seen.push_back(back[i]);
    }
    const double count = static_cast<double>(values.size() - values.size() / 4096);
    ASSERT_EQ(seen.size(), 2U) << "the codes around " << share << ", of " << largest;
    const double step = std::abs(seen[0] - seen[1]);
    EXPECT_NEAR(sum / count, share, step * 4 * 0.5 / std::sqrt(count) + step * 0x1p-16);
  }
}

TEST_P(QuantiseTest, ChanceDependsOnSeedAndPositionAlone) {
  const CodeFormat format{GetParam(), 64};
  const std::vector<float> values = make_values(1024, 8);
  const std::vector<std::byte> whole = quantised(format, values, {.stochastic = true, .seed = 3, .first = 640});
  const std::vector<float> rest(values.begin() + 320, values.end());
  const std::vector<std::byte> part = quantised(format, rest, {.stochastic = true, .seed = 3, .first = 960});
  EXPECT_TRUE(std::equal(part.begin(), part.end(),
                         whole.begin() + static_cast<std::ptrdiff_t>(kernels::code_bytes(format, 320))));
  EXPECT_NE(whole, quantised(format, values, {.stochastic = true, .seed = 4, .first = 640}));
  EXPECT_NE(whole, quantised(format, values, {.stochastic = true, .seed = 3, .first = 704}));
}

std::string type_name(const testing::TestParamInfo<CodeType>& info) {
  return kTypeNames[static_cast<std::size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Types, QuantiseTest, testing::ValuesIn(kTypes), type_name);

TEST(Signs, AreBitsAndTheMeanMagnitude) {
  for (const std::size_t block : kBlocks) {
    for (const std::size_t count : kCounts) {
      const CodeFormat format{CodeType::sign, block};
      const std::vector<float> values = make_values(count, count + block);
      std::vector<std::byte> expected;
      std::vector<float> expected_back;
      for (std::size_t begin = 0; begin < count; begin += block) {
        const std::size_t n = std::min(block, count - begin);
        float sums[16] = {};
        float most = 0;
        for (std::size_t i = 0; i < n; ++i) {
          sums[i % 16] += std::abs(values[begin + i]) * 0x1p-13F;
          most = std::max(most, std::abs(values[begin + i]));
        }
        for (std::size_t left = 16; left > 1; left /= 2)
          for (std::size_t i = 0; i < left / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
        const float scale = most < kernels::kLeastMagnitude ? 0 : sums[0] * (0x1p13F / static_cast<float>(n));
        const auto* const bytes = reinterpret_cast<const std::byte*>(&scale);
        expected.insert(expected.end(), bytes, bytes + sizeof scale);
        for (std::size_t i = 0; i < n; ++i) {
          if (i % 8 == 0) expected.push_back({});
          const bool up = values[begin + i] >= 0;
          if (up) expected.back() |= std::byte{1} << (i % 8);
          expected_back.push_back(up ? scale : -scale);
        }
      }
      ASSERT_EQ(expected.size(), kernels::code_bytes(format, count));
      SCOPED_TRACE(std::to_string(block) + " " + std::to_string(count));
      on_every_target([&] {
        ASSERT_EQ(quantised(format, values), expected);
        ASSERT_TRUE(same_bits(dequantised(format, expected, count), expected_back));
        std::vector<float> rest(count);
        kernels::dequantise_rest(format, expected.data(), count, values.data(), rest.data());
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(rest[i], values[i] - expected_back[i]);
      });
    }
  }
}

TEST(Signs, TellWhatIsNotFinite) {
  std::vector<float> values(100, 1.0F);
  values[70] = -std::numeric_limits<float>::infinity();
  const CodeFormat format{CodeType::sign, 32};
  on_every_target([&] {
    std::vector<std::byte> codes(kernels::code_bytes(format, values.size()));
    ASSERT_EQ(kernels::quantise(format, values.data(), values.size(), codes.data()), 70U);
    const std::vector<float> back = dequantised(format, codes, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(std::isnan(back[i]), i >= 64 && i < 96) << i;
  });
}

// What optimizers keep: floats of few bits, scaled by powers of two.
class StateCodes : public testing::TestWithParam<CodeType> {
 protected:
  bool has_sign() const { return GetParam() == CodeType::m8; }
  std::vector<float> values_for(std::size_t count, std::uint64_t seed) const {
    std::vector<float> values = make_values(count, seed);
    if (!has_sign())
      for (float& value : values) value = std::abs(value);
    return values;
  }
};

// One value at a time, in float64.
float reference_state(float value, float most, bool has_sign) {
  const int bias = has_sign ? 7 : 15;
  const double largest = has_sign ? 0x1.Ep8 : 0x1.Ep16;
  double scale = 1;
  if (most < kernels::kLeastMagnitude) return std::copysign(0.0F, value);
  while (largest * scale < most) scale *= 2;
  while (largest * scale / 2 >= most) scale /= 2;
  const double magnitude = std::abs(static_cast<double>(value)) / scale;
  const int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  const double unit = std::ldexp(1.0, exponent - 3);
  double rounded = std::nearbyint(magnitude / unit) * unit;
  if (!has_sign && static_cast<float>(magnitude) > 0) rounded = std::max(rounded, unit);
  return static_cast<float>(std::copysign(rounded * scale, static_cast<double>(value)));
}

TEST_P(StateCodes, GiveTheValuesOfTheReferenceAndThoseAgain) {
  for (const std::size_t count : kCounts) {
    const CodeFormat format{GetParam(), 256};
    const std::vector<float> values = values_for(count, count);
    std::vector<float> expected;
    for (std::size_t i = 0; i < count; ++i) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i / 256 * 256);
      const auto end = values.begin() + static_cast<std::ptrdiff_t>(std::min(count, i / 256 * 256 + 256));
      float most = 0;
      for (auto value = begin; value != end; ++value) most = std::max(most, std::abs(*value));
      expected.push_back(reference_state(values[i], most, has_sign()));
    }
    on_every_target([&] {
      const std::vector<float> back = dequantised(format, quantised(format, values), count);
      ASSERT_EQ(back, expected) << count;
      // By chance, too: values that have a code are not rounded.
      const CodeRounding rounding{.stochastic = true, .seed = 3};
      const std::vector<float> chosen = dequantised(format, quantised(format, values, rounding), count);
      ASSERT_EQ(dequantised(format, quantised(format, chosen), count), chosen);
      ASSERT_EQ(dequantised(format, quantised(format, chosen, rounding), count), chosen);
    });
  }
}

TEST_P(StateCodes, HaveTheSameChanceOnEveryTarget) {
  const CodeFormat format{GetParam(), 256};
  const std::vector<float> values = values_for(5003, 6);
  const CodeRounding rounding{.stochastic = true, .seed = 3, .first = 512};
  const std::vector<std::byte> expected = quantised(format, values, rounding);
  ASSERT_NE(expected, quantised(format, values));
  on_every_target([&] { ASSERT_EQ(quantised(format, values, rounding), expected); });
}

TEST_P(StateCodes, ChanceHasTheValueAsItsMean) {
  const CodeFormat format{GetParam(), 256};
  std::vector<float> values(1 << 16, 0.3711F);
  const std::vector<float> back =
      dequantised(format, quantised(format, values, {.stochastic = true, .seed = 11}), values.size());
  double sum = 0;
  for (const float value : back) {
    ASSERT_TRUE(value == 0.34375F || value == 0.375F) << value;  // 11/32 and 12/32
    sum += value;
  }
  EXPECT_NEAR(sum / static_cast<double>(values.size()), 0.3711, 0.03125 * 4 * 0.5 / 256);
}

INSTANTIATE_TEST_SUITE_P(Types, StateCodes, testing::Values(CodeType::m8, CodeType::v8),
                         [](const auto& of) { return of.param == CodeType::m8 ? "m8" : "v8"; });

// Steps are divided by its root.
TEST(StateCodesOfVariances, NeverBecomeZeroAboveIt) {
  const CodeFormat format{CodeType::v8, 256};
  std::vector<float> values(512, 1e-30F);
  values[0] = 1;
  values[7] = 0;
  for (std::size_t i = 256; i < 512; ++i) values[i] = 0;
  for (const bool stochastic : {false, true}) {
    on_every_target([&] {
      const std::vector<float> back =
          dequantised(format, quantised(format, values, {.stochastic = stochastic, .seed = 5}), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(back[i] > 0, values[i] > 0) << i;
    });
  }
}

TEST(CodeBytes, AreAScaleForEachBlockAndTheCodes) {
  EXPECT_EQ(kernels::code_bytes({CodeType::int8, 128}, 0), 0U);
  EXPECT_EQ(kernels::code_bytes({CodeType::int8, 128}, 1), 5U);
  EXPECT_EQ(kernels::code_bytes({CodeType::e4m3, 128}, 129), 137U);
  EXPECT_EQ(kernels::code_bytes({CodeType::int4, 32}, 33), 25U);
  EXPECT_EQ(kernels::code_bytes({CodeType::sign, 1024}, 1025), 8U + 129U);
  EXPECT_EQ(kernels::code_bytes({CodeType::e3m0, 128}, 1 << 20), (1U << 19) + (1U << 15));
}

}  // namespace
}  // namespace tutti::kernels_test
