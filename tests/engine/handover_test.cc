// A rank that is killed after all were told to go and before it has its share of the memory: all others name it.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "engine/factory.h"
#include "rendezvous/forked_group.h"
#include "rendezvous/meeting.h"
#include "rendezvous/token.h"

namespace tutti::engine {
namespace {

using rendezvous::Met;

constexpr int kRanks = 4;

void await_end_of(const Met& met, int rank) {
  pollfd entry{met.life[static_cast<std::size_t>(rank)].get(), POLLIN, 0};
  if (::poll(&entry, 1, 60'000) != 1) throw std::runtime_error("rank " + std::to_string(rank) + " does not end");
}

// The rank that each of them blames, by rank; -2 where it has another error, or none. After they have met the victim
// ends, the others see it end, and `slow` sees rank 0 end, too, before it asks for memory.
std::vector<int> blamed(int victim, int slow) {
  const std::string lobby = "unix:@tutti-test-" + rendezvous::Token::random().hex().substr(0, 24);
  rendezvous::ForkedGroup group(kRanks, [&](int rank) {
    rendezvous::MeetingOptions meeting;
    meeting.rank = rank;
    meeting.size = kRanks;
    meeting.job = "a test";
    meeting.lobby = lobby;
    meeting.keep_lobby = rank == 0;
    meeting.wanted = TransportKind::shm;
    meeting.channels = Engine::kTracks + 1;
    meeting.deadline = Deadline::after(std::chrono::seconds(60));
    Met met = rendezvous::meet(meeting);
    if (rank == victim) ::raise(SIGKILL);
    await_end_of(met, victim);
    if (rank == slow) await_end_of(met, 0);
    try {
      make_engine(std::move(met), Options(), Log(), Deadline::after(std::chrono::seconds(60)));
    } catch (const Error& error) {
      throw std::runtime_error(error.code() == ErrorCode::peer_lost ? std::to_string(error.peer()) : error.what());
    }
  });
  std::vector<int> result;
  for (const rendezvous::ChildEnd& end : group.wait()) {
    const bool is_rank = end.message.size() == 1 && end.message[0] >= '0' && end.message[0] <= '9';
    if (end.signal == 0 && !is_rank) ADD_FAILURE() << "'" << end.message << "'";
    result.push_back(is_rank ? end.message[0] - '0' : -2);
  }
  return result;
}

TEST(HandOver, ADeadRankIsNamedByAll) {
  EXPECT_EQ(blamed(1, -1), (std::vector{1, -2, 1, 1}));
  EXPECT_EQ(blamed(2, -1), (std::vector{2, 2, -2, 2}));
  EXPECT_EQ(blamed(0, -1), (std::vector{-2, 0, 0, 0}));
}

TEST(HandOver, AlsoByARankThatComesWhenRankZeroHasGivenUp) {
  EXPECT_EQ(blamed(2, 3), (std::vector{2, 2, -2, 2}));
  EXPECT_EQ(blamed(1, 3), (std::vector{1, -2, 1, 1}));
}

}  // namespace
}  // namespace tutti::engine
