// Conversions: all 16-bit values, and wider values at and around every point where rounding to 16 bits turns.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/reference.h"
#include "kernels/samples.h"
#include "kernels/targets.h"

namespace tutti::kernels_test {
namespace {

constexpr DType kFloats[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

template <class T>
Buffer to_buffer(const std::vector<T>& values) {
  Buffer buffer(values.size() * sizeof(T));
  std::memcpy(buffer.data(), values.data(), buffer.size());
  return buffer;
}

void check_conversion(DType from, DType to, const Buffer& source) {
  const std::size_t count = source.size() / size_of(from);
  const Buffer expected = reference_convert(from, to, source.data(), count);
  for (std::size_t target = 0; target < kernels::target_count(); ++target) {
    kernels::use_target(target);
    Buffer result(expected.size());
    kernels::find_convert(from, to)(result.data(), source.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = size_of(to);
      ASSERT_EQ(std::memcmp(result.data() + i * bytes, expected.data() + i * bytes, bytes), 0)
          << name_of(from) << " to " << name_of(to) << ", " << kernels::target_name(target) << ", element " << i;
    }
  }
  kernels::use_target(0);
}

TEST(ConvertTest, EveryHalf) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const DType to : kFloats) {
    ASSERT_NO_FATAL_FAILURE(check_conversion(DType::float16, to, to_buffer(all)));
    ASSERT_NO_FATAL_FAILURE(check_conversion(DType::bfloat16, to, to_buffer(all)));
  }
}

TEST(ConvertTest, EveryUpperHalfOfFloat32) {
  std::vector<std::uint32_t> values;
  std::mt19937 random(1);
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    for (const std::uint32_t lower :
         {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x3000u, 0x7FFFu, 0x8000u, 0x8001u, 0xF000u, 0xFFFFu}) {
      values.push_back(upper << 16 | lower);
    }
    values.push_back(upper << 16 | (random() & 0xFFFF));
  }
  for (const DType to : kFloats) ASSERT_NO_FATAL_FAILURE(check_conversion(DType::float32, to, to_buffer(values)));
}

// Halfway between each pair of neighbours and one float64 to either side, where rounding twice would show.
TEST(ConvertTest, Float64AroundEveryHalfwayPoint) {
  for (const HalfFormat format : {kFloat16, kBFloat16}) {
    std::vector<double> values;
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const double low = decode_half(format, static_cast<std::uint16_t>(i));
      const double high = decode_half(format, static_cast<std::uint16_t>(i + 1));
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const double halfway = low + (high - low) / 2;
      values.push_back(std::nextafter(halfway, -std::numeric_limits<double>::infinity()));
      values.push_back(halfway);
      values.push_back(std::nextafter(halfway, std::numeric_limits<double>::infinity()));
    }
    const Buffer source = to_buffer(values);
    for (const DType to : kFloats) ASSERT_NO_FATAL_FAILURE(check_conversion(DType::float64, to, source));
  }
}

TEST(ConvertTest, SamplesOfEveryLength) {
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      for (const std::size_t count : {0, 1, 2, 5, 15, 16, 17, 33, 63, 65, 100, 1023, 2049}) {
        ASSERT_NO_FATAL_FAILURE(check_conversion(from, to, make_samples(from, count, count)));
      }
    }
  }
}

TEST(ConvertTest, OnlyBetweenFloats) {
  EXPECT_EQ(kernels::find_convert(DType::int32, DType::float32), nullptr);
  EXPECT_EQ(kernels::find_convert(DType::float32, DType::complex64), nullptr);
  EXPECT_EQ(kernels::find_convert(DType::boolean, DType::boolean), nullptr);
}

}  // namespace
}  // namespace tutti::kernels_test
