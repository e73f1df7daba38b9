// meet() among real processes over real sockets.
#include "rendezvous/meeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <optional>

#include "rendezvous/forked_ranks.h"

namespace tutti::rendezvous {
namespace {

enum class Place { unix_name, v4, v6 };

Endpoint fresh(Place place) {
  if (place == Place::unix_name) return fresh_unix_endpoint();
  return fresh_tcp_endpoint(place == Place::v4 ? "127.0.0.1" : "::1");
}

class Meeting : public ::testing::TestWithParam<std::tuple<Place, TransportKind>> {};

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
        const bool shares = wanted != TransportKind::tcp;
        require(met.memory_ranks.size() == (shares ? 4u : 1u), "who shares memory");
        require((met.control == nullptr) == shares, "a control plane where there are sockets");
        require((met.links == nullptr) == shares, "a source of data links there, too");
        for (std::size_t i = 0; i < met.memory_ranks.size(); ++i)
          require(met.life[i].valid() == (met.memory_ranks[i] != met.rank), "a descriptor for each other life");
        exchange_everywhere(met, 2);
      });
  expect_all_ok(ends);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Meeting,
                         ::testing::Combine(::testing::Values(Place::unix_name, Place::v4, Place::v6),
                                            ::testing::Values(TransportKind::automatic, TransportKind::tcp)));

// nullopt for what is no socket.
std::optional<int> priority_of(int descriptor) {
  int priority = 0;
  socklen_t bytes = sizeof priority;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PRIORITY, &priority, &bytes) != 0) return std::nullopt;
  return priority;
}

// A slow link is full of data: what keeps ranks from being taken for dead overtakes it.
TEST(MeetingLinks, ControlGoesBeforeData) {
  constexpr int kSize = 3;
  expect_all_ok(meet_forked(
      kSize, fresh_tcp_endpoint("127.0.0.1"), [](MeetingOptions& options) { options.wanted = TransportKind::tcp; },
      [](Met& met) {
        const auto all = link_everywhere(met, 1);
        for (const auto& links : all) {
          for (const DataLink& link : links) require(priority_of(link.socket.get()) == 0, "data is as all traffic is");
        }
        int urgent = 0;
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
          if (priority_of(std::stoi(entry.path().filename())) == 6) ++urgent;  // interactive: linux/pkt_sched.h
        }
        require(urgent == kSize - 1, std::to_string(urgent) + " links of the control plane go first");
        exchange_everywhere(met, all);  // nobody leaves before all have counted
      }));
}

TEST(MeetingAlone, NeedsNoLobby) {
  MeetingOptions options;
  const Met met = meet(options);
  EXPECT_EQ(met.memory_ranks, std::vector<int>{0});
  EXPECT_EQ(met.control, nullptr);
}

}  // namespace
}  // namespace tutti::rendezvous
