// The meeting in a simulated network: thousands of seeds, each another order of events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "effort.h"
#include "rendezvous/sim_cluster.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using tutti::testing::tries;

// A layout that depends on the seed only.
ClusterOptions any_layout(std::uint64_t seed) {
  std::mt19937_64 random(seed * 7919 + 1);
  ClusterOptions options;
  options.size = 2 + static_cast<int>(random() % 5);
  const int hosts = 1 + static_cast<int>(random() % 3);
  for (int rank = 0; rank < options.size; ++rank)
    options.hosts.push_back(static_cast<int>(random() % static_cast<unsigned>(hosts)));
  options.wanted = random() % 3 == 0 ? TransportKind::tcp : TransportKind::automatic;
  options.channels = 1 + static_cast<int>(random() % 3);
  options.with_token = random() % 2 == 0;
  return options;
}

// Each link ends at the rank it is meant for, and that rank takes it for the same.
void expect_links_match(const Cluster& cluster) {
  for (const auto& rank : cluster.ranks) {
    for (const auto& [link, connection] : rank->joiner->links()) {
      const auto [node, other] = cluster.world.other_end(connection);
      const Rank& peer = *cluster.ranks[static_cast<std::size_t>(link.peer)];
      ASSERT_EQ(node, peer.node);
      const auto& theirs = peer.joiner->links();
      const auto found = std::find_if(theirs.begin(), theirs.end(), [&, other = other](const auto& standing) {
        return standing.connection == other;
      });
      ASSERT_NE(found, theirs.end());
      EXPECT_EQ(found->link.peer, rank->number);
      EXPECT_EQ(found->link.purpose, link.purpose);
      EXPECT_EQ(found->link.channel, link.channel);
    }
  }
}

std::string words_of(const Rank& rank) { return rank.joiner->verdict().text; }

TEST(SimMeeting, AllMeetWhateverTheOrderOfEvents) {
  for (std::uint64_t seed = 0; seed < tries(2000); ++seed) {
    Cluster cluster(seed, any_layout(seed));
    cluster.start_all();
    cluster.run_until_met();
    ASSERT_TRUE(cluster.all_met()) << "seed " << seed;
    expect_links_match(cluster);
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed;
    ASSERT_LT(cluster.world.now(), seconds(2)) << "seed " << seed;
    // Nobody takes anybody for dead when nobody is.
    cluster.run_for(seconds(5));
    for (const auto& rank : cluster.ranks) ASSERT_FALSE(rank->failed()) << "seed " << seed;
  }
}

TEST(SimMeeting, TheLobbyMayComeLast) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Cluster cluster(seed, any_layout(seed));
    for (int rank = 0; rank < cluster.options.size; ++rank) cluster.start(cluster.joining(rank));
    cluster.run_for(seconds(7));
    cluster.start_lobby();
    cluster.run_until_met();
    ASSERT_TRUE(cluster.all_met()) << "seed " << seed;
  }
}

TEST(SimMeeting, AtALaunchersLobbyTheRanksMayMeetAgain) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    ClusterOptions options = any_layout(seed);
    options.again = true;
    Cluster cluster(seed, options);
    cluster.start_all();
    cluster.run_until_met();
    for (int rank = 0; rank < options.size; ++rank) cluster.start(cluster.joining(rank));
    cluster.run_until_met();
    ASSERT_TRUE(cluster.all_met()) << "seed " << seed;
    // Not, however, once one of them has ended.
    cluster.kill(1);
    cluster.run_for(seconds(1));
    Rank& late = cluster.start(cluster.joining(0));
    cluster.run_until_met();
    EXPECT_EQ(words_of(late), "rank 1 was killed by signal 9 before all ranks had met");
  }
}

TEST(SimMeeting, MissingRanksAreNamedAtTheDeadline) {
  ClusterOptions options;
  options.size = 9;
  Cluster cluster(1, options);
  cluster.start_lobby();
  for (const int rank : {0, 1, 3, 4}) cluster.start(cluster.joining(rank));
  cluster.run_until_met();
  for (const auto& rank : cluster.ranks) {
    EXPECT_EQ(rank->joiner->verdict().code, ErrorCode::timeout);
    EXPECT_EQ(rank->named(), 2);
    EXPECT_THAT(words_of(*rank),
                AllOf(HasSubstr("ranks 2, 5-8 have not joined within 60 s"), HasSubstr("joined: ranks 0-1, 3-4")));
  }
}

TEST(SimMeeting, ARankWhoseTimeIsOverFirstLearnsWhoIsMissing) {
  Cluster cluster(2, {});
  cluster.start_lobby();
  JoinerOptions hasty = cluster.joining(0);
  hasty.deadline = seconds(5);
  cluster.start(hasty);
  cluster.start(cluster.joining(1));
  cluster.run_until_met();
  for (const auto& rank : cluster.ranks) EXPECT_THAT(words_of(*rank), HasSubstr("ranks 2-3 have not joined within 5"));
}

TEST(SimMeeting, WithoutALobbyTheErrorSaysWhereItWasSought) {
  Cluster cluster(3, {});
  cluster.start(cluster.joining(2));
  cluster.run_until_met();
  EXPECT_THAT(words_of(*cluster.ranks[0]), AllOf(HasSubstr("rank 2 cannot meet the others"), HasSubstr(kLobbyAt),
                                                 HasSubstr("connection refused"), HasSubstr("TUTTI_RENDEZVOUS")));
}

// One rank differs from the others by `change`; everybody is told the same.
std::string verdict_for(const std::function<void(JoinerOptions&)>& change, ClusterOptions options = {}) {
  Cluster cluster(4, std::move(options));
  cluster.start_lobby();
  for (int rank = 0; rank < cluster.options.size; ++rank) {
    JoinerOptions joining = cluster.joining(rank);
    if (rank == 2) change(joining);
    cluster.start(joining);
  }
  cluster.run_until_met();
  const std::string words = words_of(*cluster.ranks[2]);
  for (const auto& rank : cluster.ranks) EXPECT_EQ(words_of(*rank), words);
  EXPECT_LT(cluster.world.now(), seconds(2)) << "known at once, not at the deadline";
  return words;
}

TEST(SimMeeting, BadInputIsToldToAll) {
  EXPECT_THAT(verdict_for([](JoinerOptions& joining) { joining.join.size = 8; }),
              HasSubstr("rank 2 (pid 102 on host0) was started for 8 ranks, the lobby for 4"));
  EXPECT_THAT(verdict_for([](JoinerOptions& joining) { joining.rank = 1; }),
              AllOf(HasSubstr("two processes say that they are rank 1"), HasSubstr("pid 101 on host0"),
                    HasSubstr("pid 102 on host0")));
  EXPECT_THAT(verdict_for([](JoinerOptions& joining) { joining.rank = 4; }),
              HasSubstr("rank 4 (pid 102 on host0) is out of range: the job has 4 ranks, numbered from 0 to 3"));
  EXPECT_THAT(verdict_for([](JoinerOptions& joining) { joining.join.wanted = TransportKind::tcp; }),
              HasSubstr("rank 2 (pid 102 on host0) wants TUTTI_TRANSPORT=tcp, rank 0 TUTTI_TRANSPORT=auto"));
  EXPECT_THAT(verdict_for([](JoinerOptions& joining) { joining.join.channels = 3; }), HasSubstr("channels: 3"));
}

TEST(SimMeeting, HostsThatCannotWorkTogetherAreNamed) {
  ClusterOptions two_hosts;
  two_hosts.hosts = {0, 0, 1, 0};
  const auto nothing = [](JoinerOptions&) {};
  two_hosts.wanted = TransportKind::shm;
  EXPECT_THAT(verdict_for(nothing, two_hosts),
              AllOf(HasSubstr("rank 2 (pid 102 on host1)"), HasSubstr("host0"), HasSubstr("TUTTI_TRANSPORT=auto")));
  two_hosts.wanted = TransportKind::automatic;
  EXPECT_THAT(verdict_for([](JoinerOptions& joining) { joining.join.member.endpoint = "127.0.0.1:7"; }, two_hosts),
              AllOf(HasSubstr("rank 2 (pid 102 on host1)"), HasSubstr("loopback"), HasSubstr("TUTTI_INTERFACE")));
}

TEST(SimMeeting, WrongTokenOrJobIsSaidToThatRankAndMentionedToTheOthers) {
  for (const bool wrong_token : {true, false}) {
    Cluster cluster(5, {});
    cluster.start_lobby();
    for (int rank = 0; rank < 4; ++rank) {
      JoinerOptions joining = cluster.joining(rank);
      if (rank == 2 && wrong_token) joining.token = Token::from_hex(std::string(64, '6'));
      if (rank == 2 && !wrong_token) joining.job = "another";
      cluster.start(joining);
    }
    cluster.run_until_met();
    EXPECT_THAT(words_of(*cluster.ranks[2]), HasSubstr(wrong_token ? "TUTTI_TOKEN_FILE" : "another job"));
    EXPECT_LT(cluster.ranks[2]->failed_at, seconds(1));
    for (const int other : {0, 1, 3}) {
      EXPECT_THAT(words_of(*cluster.ranks[static_cast<std::size_t>(other)]),
                  AllOf(HasSubstr("rank 2 has not joined"), HasSubstr("1 connection was refused"),
                        HasSubstr(wrong_token ? "wrong token" : "another job")));
    }
  }
}

// Connects, says something (or nothing), and does not go away.
class Stranger final : public Machine {
 public:
  Stranger(World& world, std::vector<Endpoint> targets)
      : world_(world), node_(world.add_node()), targets_(std::move(targets)) {
    world_.run(node_, this);
  }
  void accepted(ConnectionId, std::string_view, Time) override {}
  void connected(ConnectionId connection, Time) override {
    const std::uint64_t draw = world_.random()();
    Bytes words(draw % 7 == 0 ? 5000 : draw % 200);
    world_.network(node_).random(words);
    if (draw % 5 == 0) words = Writer().raw(encode(Hello{})).bytes();  // Tutti, but of another job
    if (draw % 3 != 0) world_.network(node_).send(connection, words);
  }
  void received(ConnectionId, std::span<const std::byte>, Time) override {}
  void closed(ConnectionId, End, std::string_view, Time) override {}
  void tick(Time now) override {
    next_ = now + std::chrono::microseconds(50);
    world_.network(node_).connect(targets_[world_.random()() % targets_.size()]);
  }
  Time next_tick() const override { return next_; }

 private:
  World& world_;
  int node_;
  std::vector<Endpoint> targets_;
  Time next_{};
};

TEST(SimMeeting, StrangersDoNotDisturb) {
  for (std::uint64_t seed = 0; seed < tries(60); ++seed) {
    Cluster cluster(seed, any_layout(seed));
    std::vector<Endpoint> targets{kLobbyAt};
    for (int rank = 0; rank < cluster.options.size; ++rank)
      targets.push_back(cluster.joining(rank).join.member.endpoint);
    Stranger first(cluster.world, targets), second(cluster.world, targets);
    cluster.start_all();
    cluster.run_until_met();
    ASSERT_TRUE(cluster.all_met()) << "seed " << seed;
    ASSERT_LT(cluster.world.now(), seconds(10)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tutti::rendezvous
