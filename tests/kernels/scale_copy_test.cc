// Scaling by a factor, and copies to one and several destinations.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/reference.h"
#include "kernels/samples.h"
#include "kernels/targets.h"

namespace tutti::kernels_test {
namespace {

constexpr DType kTypes[] = {
#define X(name, bytes) DType::name,
    TUTTI_DTYPES(X)
#undef X
};

class ScaleTest : public testing::TestWithParam<DType> {};

TEST_P(ScaleTest, EveryFactorLengthAndTarget) {
  const DType type = GetParam();
  const std::vector<double> factors = {1.0, 0.5, -3.0, 1.0 / 3, 1e30, 0.0, 1e-40, 300.7, INFINITY, NAN, -1e300};
  for (const double factor : factors) {
    for (const std::size_t count : {0, 1, 3, 16, 31, 64, 65, 257, 1001}) {
      const Buffer source = make_samples(type, count, count + 1);
      const Buffer expected = reference_scale(type, source.data(), count, factor);
      for (std::size_t target = 0; target < kernels::target_count(); ++target) {
        kernels::use_target(target);
        Buffer result(source.size());
        kernels::find_scale(type)(result.data(), source.data(), count, factor);
        ASSERT_EQ(result, expected) << factor << " " << count << " " << kernels::target_name(target);
        result = source;
        kernels::find_scale(type)(result.data(), result.data(), count, factor);
        ASSERT_EQ(result, expected) << factor << " " << count << " in place, " << kernels::target_name(target);
      }
    }
  }
  kernels::use_target(0);
}

std::string type_name(const testing::TestParamInfo<DType>& info) { return std::string(name_of(info.param)); }
INSTANTIATE_TEST_SUITE_P(Types, ScaleTest, testing::ValuesIn(kTypes, kTypes + std::size(kTypes) - 1), type_name);

TEST(ScaleTableTest, BooleansHaveNone) {
  static_assert(kTypes[std::size(kTypes) - 1] == DType::boolean);
  EXPECT_EQ(kernels::find_scale(DType::boolean), nullptr);
}

TEST(CopyTest, EverySizeAndNumberOfDestinations) {
  const Buffer source = make_samples(DType::uint8, 50000, 1);
  for (const std::size_t destination_count : {1, 2, 5}) {
    for (std::size_t bytes = 0; bytes < source.size(); bytes += bytes < 300 ? 1 : 16381) {
      std::vector<Buffer> results(destination_count, Buffer(bytes + 2, std::byte{0x5A}));
      std::vector<void*> destinations;
      for (Buffer& b : results) destinations.push_back(b.data() + 1);
      kernels::copy(destinations.data(), destination_count, source.data(), bytes);
      for (const Buffer& b : results) {
        ASSERT_TRUE(std::equal(b.begin() + 1, b.end() - 1, source.begin()));
        ASSERT_EQ(b.front(), std::byte{0x5A});
        ASSERT_EQ(b.back(), std::byte{0x5A});
      }
    }
  }
}

TEST(CopyTest, LeavesTheSourceAlone) {
  Buffer source = make_samples(DType::uint8, 40000, 2);
  const Buffer before = source;
  Buffer other(source.size());
  void* const destinations[] = {source.data(), other.data()};
  kernels::copy(destinations, 2, source.data(), source.size());
  kernels::copy(destinations, 1, source.data(), source.size());
  EXPECT_EQ(source, before);
  EXPECT_EQ(other, before);
}

}  // namespace
}  // namespace tutti::kernels_test
