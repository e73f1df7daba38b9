// meet() among real processes over real sockets.
#include "rendezvous/meeting.h"

#include <gtest/gtest.h>

#include "rendezvous/forked_ranks.h"

namespace tutti::rendezvous {
namespace {

enum class Place { unix_name, v4, v6 };

Endpoint fresh(Place place) {
  if (place == Place::unix_name) return fresh_unix_endpoint();
  return fresh_tcp_endpoint(place == Place::v4 ? "127.0.0.1" : "::1");
}

class Meeting : public ::testing::TestWithParam<std::tuple<Place, Wanted>> {};

TEST_P(Meeting, LinksAllRanks) {
  const auto [place, wanted] = GetParam();
  constexpr int kSize = 4;
  const auto ends = meet_forked(
      kSize, fresh(place),
      [&](MeetingOptions& options) {
        options.wanted = wanted;
        options.channels = 2;
      },
      [&](Met& met) {
        require(met.size == kSize && met.members.size() == kSize, "all are known");
        const bool shares = wanted != Wanted::tcp;
        require(met.memory_ranks.size() == (shares ? 4u : 1u), "who shares memory");
        require((met.control == nullptr) == shares, "a control plane where there are sockets");
        for (int peer = 0; peer < kSize; ++peer) {
          const bool linked = !shares && peer != met.rank;
          require(met.data[static_cast<std::size_t>(peer)].size() == (linked ? 2u : 0u), "data links");
        }
        for (std::size_t i = 0; i < met.memory_ranks.size(); ++i)
          require(met.life[i].valid() == (met.memory_ranks[i] != met.rank), "a descriptor for each other life");
        exchange_everywhere(met);
      });
  expect_all_ok(ends);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Meeting,
                         ::testing::Combine(::testing::Values(Place::unix_name, Place::v4, Place::v6),
                                            ::testing::Values(Wanted::automatic, Wanted::tcp)));

TEST(MeetingAlone, NeedsNoLobby) {
  MeetingOptions options;
  const Met met = meet(options);
  EXPECT_EQ(met.memory_ranks, std::vector<int>{0});
  EXPECT_EQ(met.control, nullptr);
}

}  // namespace
}  // namespace tutti::rendezvous
