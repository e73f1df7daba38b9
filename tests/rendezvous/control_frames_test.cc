// What a watch makes of frames that no watch sends: the peer that sent them is hung up on, and named.
#include <gtest/gtest.h>

#include "rendezvous/recorder.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {
namespace {

constexpr int kSize = 3;
constexpr ConnectionId kPeer1 = 1, kPeer2 = 2;

class ControlFrames : public ::testing::Test {
 protected:
  Watch::Options options() const { return {0, kSize, Time(0), {{1, kPeer1}, {2, kPeer2}}}; }

  // Rank 1 says it; whether it is believed to speak as a watch does.
  bool understood(const Bytes& bytes) {
    Recorder network;
    Watch watch(network, options(), Time(0));
    watch.received(kPeer1, bytes, Time(1));
    const bool hung_up = network.closed.contains(kPeer1);
    EXPECT_FALSE(network.closed.contains(kPeer2));
    if (hung_up) {
      EXPECT_TRUE(watch.failure() && watch.failure()->rank == 1 && watch.failure()->died);
    }
    if (watch.failure()) {
      EXPECT_TRUE(watch.failure()->rank >= 0 && watch.failure()->rank < kSize);
      EXPECT_TRUE(watch.failure()->blamed >= -1 && watch.failure()->blamed < kSize);
    }
    return !hung_up;
  }
  static Failure failure(int rank, int blamed) { return {rank, blamed, false, Loss::ended, ErrorCode::aborted, false}; }
};

TEST_F(ControlFrames, VerdictsNameRanksOfTheGroup) {
  EXPECT_TRUE(understood(failure_frame(failure(1, -1))));
  EXPECT_TRUE(understood(failure_frame(failure(2, 0))));
  EXPECT_FALSE(understood(failure_frame(failure(-1, -1))));
  for (const int rank : {-2, kSize, 1 << 30, -(1 << 30)}) {
    EXPECT_FALSE(understood(failure_frame(failure(rank, -1)))) << rank;
    EXPECT_FALSE(understood(failure_frame(failure(1, rank)))) << rank;
  }
}

TEST_F(ControlFrames, EveryFieldIsChecked) {
  const Bytes good = failure_frame(failure(1, 2));
  constexpr std::size_t kHow = 5 + 8, kLoss = 5 + 9, kCause = 5 + 10;
  for (const std::size_t at : {kHow, kLoss, kCause}) {
    Bytes odd = good;
    odd[at] = std::byte{0xff};
    EXPECT_FALSE(understood(odd)) << at;
  }
  EXPECT_FALSE(understood(frame_of(3, Writer().i32(1)))) << "a verdict that is too short";
  EXPECT_FALSE(understood(frame_of(1, Writer().u8(0)))) << "a beat with something in it";
  EXPECT_FALSE(understood(frame_of(2, Writer().u8(0)))) << "a goodbye with something in it";
  EXPECT_FALSE(understood(frame_of(77))) << "a kind that is none";
  EXPECT_FALSE(understood(Writer().u32(1 << 20).u8(1).bytes())) << "a frame without end";
  const Writer far = Writer().u32(kMostChannels).u64(1).u64(0).u64(0).u64(0);
  EXPECT_FALSE(understood(frame_of(4, far))) << "a statement on a channel that cannot be";
}

TEST_F(ControlFrames, AStrangersAreNotRead) {
  Recorder network;
  Watch watch(network, options(), Time(0));
  watch.received(99, failure_frame(failure(2, -1)), Time(1));
  EXPECT_TRUE(network.closed.contains(99));
  EXPECT_FALSE(watch.failure());
}

}  // namespace
}  // namespace tutti::rendezvous
