// What a watch makes of frames that no watch sends: the neighbour that sent them is hung up on, and named.
#include <gtest/gtest.h>

#include "rendezvous/recorder.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {
namespace {

constexpr int kSize = 5;
constexpr ConnectionId kNeighbour1 = 1, kNeighbour2 = 2;

News news_of(News::Kind kind, int origin, std::uint64_t number, int rank = -1) {
  News news;
  news.kind = kind;
  news.origin = origin;
  news.number = number;
  news.rank = rank;
  return news;
}

class ControlFrames : public ::testing::Test {
 protected:
  Watch::Options options() const { return {0, kSize, Time(0), {{1, kNeighbour1}, {2, kNeighbour2}}}; }

  // Rank 1 says it; whether it is believed to speak as a watch does.
  bool understood(const Bytes& bytes) {
    Recorder network;
    Watch watch(network, options(), Time(0));
    watch.enter(kEverybody, {0, 1, 2, 3, 4});
    watch.received(kNeighbour1, bytes, Time(1));
    const bool hung_up = network.closed.contains(kNeighbour1);
    const auto failure = watch.failure(kEverybody);
    if (hung_up) {
      EXPECT_TRUE(failure && failure->rank == 1 && failure->died);
      EXPECT_FALSE(network.closed.contains(kNeighbour2));
    }
    if (failure) {
      EXPECT_TRUE(failure->rank >= 0 && failure->rank < kSize);
      EXPECT_TRUE(failure->blamed >= -1 && failure->blamed < kSize);
    }
    return !hung_up;
  }
};

TEST_F(ControlFrames, NewsNameRanksOfTheJob) {
  using Kind = News::Kind;
  EXPECT_TRUE(understood(frame_of(news_of(Kind::abort, 1, 1))));
  EXPECT_TRUE(understood(frame_of(news_of(Kind::abort, 4, 1, 0))));
  EXPECT_TRUE(understood(frame_of(news_of(Kind::loss, 1, 1, 3))));
  EXPECT_FALSE(understood(frame_of(news_of(Kind::loss, 1, 1, -1))));
  EXPECT_FALSE(understood(frame_of(news_of(Kind::goodbye, 1, 1, -1))));
  for (const int rank : {-2, kSize, 1 << 30, -(1 << 30)}) {
    EXPECT_FALSE(understood(frame_of(news_of(Kind::abort, 1, 1, rank)))) << rank;
    EXPECT_FALSE(understood(frame_of(news_of(Kind::loss, 1, 1, rank)))) << rank;
    for (const Kind kind : {Kind::goodbye, Kind::loss, Kind::abort, Kind::leave, Kind::statement})
      EXPECT_FALSE(understood(frame_of(news_of(kind, rank, 1, 2)))) << rank;
  }
}

TEST_F(ControlFrames, NumbersAreTheOriginsToCount) {
  EXPECT_FALSE(understood(frame_of(news_of(News::Kind::goodbye, 3, 0, 3)))) << "the first is 1";
  EXPECT_FALSE(understood(frame_of(news_of(News::Kind::goodbye, 0, 1, 0)))) << "rank 0 itself has told nothing yet";
  EXPECT_TRUE(understood(frame_of(news_of(News::Kind::goodbye, 3, ~std::uint64_t{0}, 3))));
}

TEST_F(ControlFrames, EveryFieldIsChecked) {
  constexpr std::size_t kHead = 5, kOrigin = 4 + 8;
  Bytes loss = frame_of(news_of(News::Kind::loss, 1, 1, 2));
  loss[kHead + kOrigin + 4] = std::byte{0xff};
  EXPECT_FALSE(understood(loss)) << "a loss that is none";
  for (const std::size_t at : {kHead + kOrigin + 12, kHead + kOrigin + 13}) {
    Bytes odd = frame_of(news_of(News::Kind::abort, 1, 1, 2));
    odd[at] = std::byte{0xff};
    EXPECT_FALSE(understood(odd)) << at;
  }
  EXPECT_FALSE(understood(frame_of(4, Writer().i32(1)))) << "news that are too short";
  EXPECT_FALSE(understood(frame_of(1, Writer().u8(0)))) << "a beat with something in it";
  EXPECT_FALSE(understood(frame_of(2, Writer().i32(1).u64(1).i32(1).u8(0)))) << "a goodbye with something behind it";
  EXPECT_FALSE(understood(frame_of(77, Writer().i32(1).u64(1)))) << "a kind that is none";
  EXPECT_FALSE(understood(Writer().u32(1 << 20).u8(1).bytes())) << "a frame without end";
  News far = news_of(News::Kind::statement, 1, 1);
  far.channel = kMostChannels;
  EXPECT_FALSE(understood(frame_of(far))) << "a statement on a channel that cannot be";
}

TEST_F(ControlFrames, AllKindsSurviveTheWire) {
  News news = news_of(News::Kind::statement, 3, 7, 2);
  news.group = 1ull << 60;
  news.loss = Loss::silent;
  news.cause = ErrorCode::mismatch;
  news.left = true;
  news.channel = 9;
  news.statement = {4, 5, 6, 7};
  for (const News::Kind kind :
       {News::Kind::goodbye, News::Kind::loss, News::Kind::abort, News::Kind::leave, News::Kind::statement}) {
    news.kind = kind;
    const Bytes bytes = frame_of(news);
    FrameReader reader(kMostControlBytes);
    reader.add(bytes);
    const auto again = decode_news(*reader.next(), kSize);
    ASSERT_TRUE(again);
    EXPECT_EQ(frame_of(*again), bytes);
  }
}

TEST_F(ControlFrames, StrangersAreNotRead) {
  Recorder network;
  Watch watch(network, options(), Time(0));
  watch.enter(kEverybody, {0, 1, 2, 3, 4});
  watch.received(99, frame_of(news_of(News::Kind::loss, 2, 1, 2)), Time(1));
  EXPECT_TRUE(network.closed.contains(99));
  EXPECT_FALSE(watch.failure(kEverybody));
}

}  // namespace
}  // namespace tutti::rendezvous
