// All of the product of verbs, types, operators, ranks, sizes, places and transports; minutes.
#include <gtest/gtest.h>

#include "verbs/product.h"

namespace tutti {
namespace {

using testing::Ranks;

class WholeProduct : public ::testing::TestWithParam<std::tuple<Ranks, int>> {};

TEST_P(WholeProduct, AgreesWithTheNaiveResult) {
  const auto [kind, ranks] = GetParam();
  testing::run_product(kind, ranks, [ranks = ranks](DType type) { return testing::product_of(type, ranks); });
}

INSTANTIATE_TEST_SUITE_P(Groups, WholeProduct,
                         ::testing::Combine(::testing::ValuesIn(testing::kAllRanks),
                                            ::testing::ValuesIn(testing::kRankCounts)),
                         [](const auto& test) {
                           return testing::name_of(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace tutti
