// Where keys of a parameter server lie, and the sentence of a worker's clock, against figures worked out by hand.
#include "strategy/server_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::strategy {
namespace {

using ::testing::ElementsAre;
using train::Phrase;
using train::Spoken;

const KeyShape kLarge{"w", 1, 5000, false}, kSmall{"b", 1, 10, false}, kTable{"e", 7, 64, true};

TEST(ServerKeys, LargeOnesAreCutAtBlocksAndSmallOnesLieWhereLeastIs) {
  const KeyCuts cuts = cut_keys(std::vector{kLarge, kSmall, kSmall}, 2);
  EXPECT_THAT(cuts[0], ElementsAre(KeyPart{0, 2048}, KeyPart{2048, 2952}));
  EXPECT_THAT(cuts[1], ElementsAre(KeyPart{0, 10}, KeyPart{0, 0}));
  EXPECT_THAT(cuts[2], ElementsAre(KeyPart{0, 10}, KeyPart{0, 0}));
}

TEST(ServerKeys, RowsOfTablesAreDealtOut) {
  EXPECT_THAT(cut_keys(std::vector{kTable}, 3)[0], ElementsAre(KeyPart{0, 3}, KeyPart{0, 2}, KeyPart{0, 2}));
  EXPECT_EQ(server_of_row(5, 3), 2);
  EXPECT_EQ(row_at_server(5, 3), 1);
}

TEST(ServerKeys, EveryElementHasOneServer) {
  for (int servers = 1; servers <= 9; ++servers) {
    for (const std::size_t elements : {0, 1, 1023, 1024, 9215, 9216, 9217, 100'000}) {
      const KeyCuts cuts = cut_keys(std::vector<KeyShape>{{"w", 1, elements, false}}, servers);
      std::size_t next = 0;
      for (const KeyPart& part : cuts[0]) {
        if (part.count == 0) continue;
        EXPECT_EQ(part.first, next);
        next += part.count;
      }
      EXPECT_EQ(next, elements) << servers;
    }
  }
}

TEST(ServerKeys, AClockIsCommandsRowsAndMessages) {
  const std::vector<KeyShape> keys{{"w", 1, 3 * kMessageFloats, false}, {"e", 100'000, 64, true}};
  const KeyCuts cuts = cut_keys(keys, 2);
  const std::vector<KeyCall> calls{{true, 0, {}}, {false, 1, {4097, 0}}};
  const train::Sentence said = sentence_of(keys, cuts, calls, 2);
  EXPECT_EQ(said[0], (Phrase{Verb::send_recv, "push of \"w\" to server 0, the command", 32, 1, 3}));
  // Each half of w: one whole message, and half of one. Rows of e: one message of 4096, and one.
  const std::uint64_t messages = 2 * 3 + 4 + 2 * 2;
  EXPECT_EQ(spoken(said, Verb::send_recv),
            (Spoken{messages, 4 * 3 * kMessageFloats + 4 * 4097 * 64 + 8 * 4097 + 7 * kCommandBytes}));
}

TEST(ServerKeys, ARowMayBeLongerThanAMessage) {
  EXPECT_EQ(messages_for(3, kMessageFloats + 1), 3U);
  EXPECT_EQ(messages_for(0, 64), 0U);
  EXPECT_EQ(messages_for(4097, 64), 2U);
}

}  // namespace
}  // namespace tutti::strategy
