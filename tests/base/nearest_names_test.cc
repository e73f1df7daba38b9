// Names that somebody may have meant.
#include "base/nearest_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string_view> kAlgorithms{
    "ring", "recursive_doubling", "recursive_halving", "staged", "direct", "exchange"};

TEST(NearestNames, AreAFewLettersApart) {
  EXPECT_THAT(nearest_names("rign", kAlgorithms), ElementsAre("ring"));
  EXPECT_THAT(nearest_names("recursive-halving", kAlgorithms), ElementsAre("recursive_halving"));
  EXPECT_THAT(nearest_names("stage", kAlgorithms), ElementsAre("staged"));
  EXPECT_THAT(nearest_names("bruck", kAlgorithms), IsEmpty());
  EXPECT_THAT(nearest_names("", kAlgorithms), IsEmpty());
}

TEST(NearestNames, AreWithinEachOther) {
  EXPECT_THAT(nearest_names("halving", kAlgorithms), ElementsAre("recursive_halving"));
  EXPECT_THAT(nearest_names("direct_memory", kAlgorithms), ElementsAre("direct"));
  EXPECT_THAT(nearest_names("recursive", {"recursive_a", "recursive_bbb", "recursive_bb", "recursive_cccc"}),
              ElementsAre("recursive_a", "recursive_bb", "recursive_bbb"));
}

TEST(NoneCalled, AsksAndListsAll) {
  EXPECT_EQ(none_called("algorithm", "rign", {"ring", "tree"}, " of all_reduce"),
            "no algorithm 'rign' of all_reduce; did you mean ring? there are: ring, tree");
  EXPECT_EQ(none_called("verb", "dance", {"scan"}), "no verb 'dance'; there are: scan");
  EXPECT_EQ(none_called("verb", "scam", {"scan", "scar", "scans", "gather"}),
            "no verb 'scam'; did you mean scan, scar or scans? there are: scan, scar, scans, gather");
}

}  // namespace
}  // namespace tutti
