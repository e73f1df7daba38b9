// The bounded part of the product of verbs, types, operators, ranks, sizes, places and transports.
#include "verbs/product.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace tutti {
namespace {

using testing::Listed;
using testing::Ranks;

int group_of(Ranks kind, std::size_t ranks_index) {
  return static_cast<int>(static_cast<std::size_t>(kind) * std::size(testing::kRankCounts) + ranks_index);
}

class Product : public ::testing::TestWithParam<Ranks> {};

TEST_P(Product, AgreesWithTheNaiveResult) {
  for (std::size_t i = 0; i < std::size(testing::kRankCounts); ++i) {
    const int ranks = testing::kRankCounts[i];
    testing::run_product(GetParam(), ranks,
                         [&](DType type) { return testing::part_of_product(type, ranks, group_of(GetParam(), i)); });
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Product, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

// What the part leaves to chance: nothing that matters. Every case of a middling group is in it somewhere, and every
// pair of properties.
TEST(ProductPart, HasEveryCaseSomewhereAndEveryPairOfProperties) {
  using Key = std::tuple<int, int, int, int, int>;
  std::set<Key> cases;           // (verb, type, operator, size, place), anywhere
  std::set<Key> on_transports;   // (transport, verb, type, operator)
  std::set<Key> on_ranks;        // (ranks, verb, type)
  std::set<Key> sizes_on_ranks;  // (ranks, verb, size, place)
  std::set<Key> wanted, wanted_on_transports, wanted_on_ranks, wanted_sizes_on_ranks;
  for (const Ranks kind : testing::kAllRanks) {
    for (std::size_t i = 0; i < std::size(testing::kRankCounts); ++i) {
      const int ranks = testing::kRankCounts[i];
      for (std::size_t t = 0; t < kDTypes; ++t) {
        const auto note = [&](const std::vector<Listed>& list, std::set<Key>& a, std::set<Key>& b, std::set<Key>& c,
                              std::set<Key>& d) {
          for (const auto& [test, size] : list) {
            const int verb = static_cast<int>(test.verb), type = static_cast<int>(test.type);
            const int op = static_cast<int>(test.op), place = test.in_place ? 1 : 0;
            a.insert({verb, type, op, static_cast<int>(size), place});
            b.insert({static_cast<int>(kind), verb, type, op, 0});
            c.insert({ranks, verb, type, 0, 0});
            d.insert({ranks, verb, static_cast<int>(size), place, 0});
          }
        };
        const auto type = static_cast<DType>(t);
        note(testing::part_of_product(type, ranks, group_of(kind, i)), cases, on_transports, on_ranks, sizes_on_ranks);
        note(testing::product_of(type, ranks), wanted, wanted_on_transports, wanted_on_ranks, wanted_sizes_on_ranks);
      }
    }
  }
  EXPECT_EQ(cases, wanted);
  EXPECT_EQ(on_transports, wanted_on_transports);
  EXPECT_EQ(on_ranks, wanted_on_ranks);
  EXPECT_EQ(sizes_on_ranks, wanted_sizes_on_ranks);
}

}  // namespace
}  // namespace tutti
