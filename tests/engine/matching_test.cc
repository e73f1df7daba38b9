// Which receive takes which message, without any transport.
#include "engine/messages/matching.h"

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

constexpr int kRanks = 4;

Envelope envelope(int source, int tag, std::uint64_t count = 1) {
  return {source, {1, 0, count, Statement::detail_of(0, false, static_cast<std::uint32_t>(tag))}};
}

std::unique_ptr<Unexpected> unexpected(int source, int tag, std::uint64_t count = 1) {
  auto made = std::make_unique<Unexpected>();
  static_cast<Envelope&>(*made) = envelope(source, tag, count);
  return made;
}

bool waits(const Matching& matching, const ReceivePattern& wanted) {
  const auto waiting = matching.waiting();
  return std::find(waiting.begin(), waiting.end(), &wanted) != waiting.end();
}

TEST(Matching, TheFirstPostedThatFitsTakesTheMessage) {
  Matching matching(kRanks);
  ReceivePattern other_source{2, 5}, other_tag{1, 6}, any_tag{1, kAnyTag}, exact{1, 5}, any{kAnySource, kAnyTag};
  for (ReceivePattern* wanted : {&other_source, &other_tag, &any_tag, &exact, &any}) {
    EXPECT_EQ(matching.post(*wanted).envelope, nullptr);
  }
  const Envelope message = envelope(1, 5);
  EXPECT_EQ(matching.find_taker(message), &any_tag);
  EXPECT_EQ(matching.find_taker(message), &exact);
  EXPECT_EQ(matching.find_taker(message), &any);
  EXPECT_EQ(matching.find_taker(message), nullptr);
  EXPECT_TRUE(waits(matching, other_source) && waits(matching, other_tag));
  EXPECT_EQ(matching.waiting().size(), 2u);
}

TEST(Matching, AHeadIsInTheWayOnlyOfReceivesThatLookBehindIt) {
  Matching matching(kRanks);
  const Envelope head = envelope(1, 5);
  EXPECT_EQ(matching.find_taker(head), nullptr);
  matching.hold(head);
  EXPECT_FALSE(matching.in_the_way(1)) << "nobody waits";
  ReceivePattern elsewhere{2, 5};
  matching.post(elsewhere);
  EXPECT_FALSE(matching.in_the_way(1)) << "nobody waits for rank 1";
  EXPECT_FALSE(matching.listens(1));
  ReceivePattern behind{1, 6};
  matching.post(behind);
  EXPECT_TRUE(matching.in_the_way(1));
  matching.keep(unexpected(1, 5));
  EXPECT_FALSE(matching.in_the_way(1)) << "kept";
  EXPECT_TRUE(matching.listens(1));
}

TEST(Matching, WhatIsWithdrawnWaitsNoMore) {
  Matching matching(kRanks);
  ReceivePattern probe{1, 5, true}, any{kAnySource, kAnyTag, true}, receive{1, 5};
  for (ReceivePattern* wanted : {&probe, &any, &receive}) matching.post(*wanted);
  matching.withdraw(any);
  EXPECT_FALSE(matching.listens_to_all());
  matching.withdraw(probe);
  matching.withdraw(probe);
  EXPECT_TRUE(matching.listens(1)) << "the receive still waits";
  EXPECT_EQ(matching.find_taker(envelope(1, 5)), &receive);
  matching.withdraw(receive);
  EXPECT_FALSE(matching.listens(1));
  EXPECT_TRUE(matching.waiting().empty());
}

TEST(Matching, AnySourceLooksBehindAllHeads) {
  Matching matching(kRanks);
  const Envelope first = envelope(1, 5), second = envelope(3, 5);
  matching.hold(first);
  matching.hold(second);
  ReceivePattern wanted{kAnySource, 6};
  EXPECT_EQ(matching.post(wanted).envelope, nullptr);
  EXPECT_TRUE(matching.in_the_way(1) && matching.in_the_way(3));
  EXPECT_FALSE(matching.in_the_way(2)) << "it has no head";
  EXPECT_TRUE(matching.listens(0) && matching.listens_to_all());
}

TEST(Matching, UnexpectedMessagesComeFirstAndInOrder) {
  Matching matching(kRanks);
  matching.keep(unexpected(1, 5, 10));
  matching.keep(unexpected(1, 6, 11));
  matching.keep(unexpected(1, 5, 12));
  const Envelope head = envelope(1, 5, 13);
  matching.hold(head);
  for (const std::uint64_t count : {10u, 12u}) {
    ReceivePattern wanted{1, 5};
    const Matching::Found found = matching.post(wanted);
    ASSERT_NE(found.unexpected, nullptr);
    EXPECT_EQ(found.unexpected->statement.count, count);
  }
  ReceivePattern third{1, 5};
  const Matching::Found found = matching.post(third);
  EXPECT_EQ(found.envelope, &head);
  EXPECT_EQ(found.unexpected, nullptr);
  ReceivePattern fourth{1, 5}, other{1, kAnyTag};
  EXPECT_EQ(matching.post(fourth).envelope, nullptr) << "the head was taken";
  const Matching::Found last = matching.post(other);
  ASSERT_NE(last.unexpected, nullptr);
  EXPECT_EQ(last.unexpected->statement.count, 11u);
  EXPECT_EQ(matching.waiting().size(), 1u);
}

TEST(Matching, AProbeIsAnsweredAndTakesNothing) {
  Matching matching(kRanks);
  ReceivePattern earlier{1, 5}, probe{1, 5, true}, later{1, 5};
  for (ReceivePattern* wanted : {&earlier, &probe, &later}) matching.post(*wanted);
  const Envelope message = envelope(1, 5);
  EXPECT_EQ(matching.find_taker(message), &earlier) << "a probe does not see what an earlier receive takes";
  EXPECT_EQ(matching.find_taker(message), &probe);
  EXPECT_EQ(matching.find_taker(message), &later) << "a probe leaves the message";

  matching.keep(unexpected(2, 7));
  const Envelope head = envelope(3, 8);
  matching.hold(head);
  for (int round = 0; round < 2; ++round) {
    ReceivePattern of_unexpected{2, kAnyTag, true}, of_head{3, 8, true};
    const Matching::Found found = matching.post(of_unexpected);
    ASSERT_NE(found.envelope, nullptr);
    EXPECT_EQ(found.envelope->tag(), 7);
    EXPECT_EQ(found.unexpected, nullptr);
    EXPECT_EQ(matching.post(of_head).envelope, &head);
  }
  EXPECT_TRUE(matching.waiting().empty());
}

TEST(Matching, AnySourceServesAllSourcesInTurn) {
  Matching matching(kRanks);
  for (int round = 0; round < 3; ++round) {
    for (int source = 0; source < kRanks; ++source) matching.keep(unexpected(source, 1));
  }
  std::vector<int> served;
  for (int i = 0; i < 3 * kRanks; ++i) {
    ReceivePattern wanted{kAnySource, 1};
    const Matching::Found found = matching.post(wanted);
    ASSERT_NE(found.envelope, nullptr);
    served.push_back(found.envelope->source);
  }
  EXPECT_EQ(served, (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  ReceivePattern wanted{kAnySource, 1};
  matching.post(wanted);
  matching.find_taker(envelope(2, 1));
  EXPECT_EQ(matching.first_source(), 3) << "the next look starts behind the one that was served";
}

TEST(Matching, SaysWhatLiesThereUntaken) {
  Matching matching(kRanks);
  ReceivePattern from_one{1, 9}, any{kAnySource, 9};
  EXPECT_EQ(matching.words_of_others(from_one), "");
  matching.keep(unexpected(1, 5));
  const Envelope head = envelope(2, 6);
  matching.hold(head);
  EXPECT_EQ(matching.words_of_others(from_one), "tag 5 from rank 1");
  EXPECT_EQ(matching.words_of_others(any), "tag 5 from rank 1, tag 6 from rank 2");
  for (int i = 0; i < 10; ++i) matching.keep(unexpected(1, 5));
  EXPECT_EQ(matching.words_of_others(from_one),
            "tag 5 from rank 1, tag 5 from rank 1, tag 5 from rank 1, tag 5 from rank 1 and 7 more");
}

}  // namespace
}  // namespace tutti::engine
