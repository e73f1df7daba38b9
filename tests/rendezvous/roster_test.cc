// What follows from a roster: links, words, and endpoints taken apart.
#include "rendezvous/roster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "rendezvous/address.h"

namespace tutti::rendezvous {
namespace {

Roster roster_on(const std::vector<int>& hosts, TransportKind wanted, int channels) {
  Roster roster{wanted, channels, {}, {}};
  for (const int host : hosts) {
    Member member;
    member.host_id = make_host_id("boot" + std::to_string(host), "1", "2", 3);
    roster.members.push_back(member);
  }
  return roster;
}

int count(const std::vector<Link>& links, Purpose purpose) {
  return static_cast<int>(
      std::count_if(links.begin(), links.end(), [&](const Link& link) { return link.purpose == purpose; }));
}

TEST(Roster, OneHostNeedsOnlyMemoryLinks) {
  const Roster roster = roster_on({0, 0, 0}, TransportKind::automatic, 2);
  EXPECT_EQ(memory_ranks(roster, 1), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(links_of(roster, 0).size(), 2u);
  EXPECT_EQ(links_of(roster, 2).size(), 1u);
  EXPECT_EQ(count(links_of(roster, 2), Purpose::memory), 1);
}

TEST(Roster, TwoHostsHaveControlBetweenNeighbours) {
  const Roster roster = roster_on({0, 1, 0, 1}, TransportKind::automatic, 3);
  EXPECT_EQ(memory_ranks(roster, 3), (std::vector<int>{1, 3}));
  for (int rank = 0; rank < 4; ++rank) {
    const auto links = links_of(roster, rank);
    EXPECT_EQ(count(links, Purpose::control), 3);
    EXPECT_EQ(count(links, Purpose::data), 0);  // when they are wanted
    EXPECT_EQ(count(links, Purpose::memory), 1);
  }
}

TEST(Roster, TcpSharesNothing) {
  const Roster roster = roster_on({0, 0, 0}, TransportKind::tcp, 2);
  EXPECT_EQ(memory_ranks(roster, 1), std::vector<int>{1});
  EXPECT_EQ(count(links_of(roster, 1), Purpose::memory), 0);
  EXPECT_EQ(count(links_of(roster, 1), Purpose::control), 2);
}

TEST(Roster, MemoryIsSharedAsTheTableOfTransportsSays) {
  const std::vector<int> one_host{0, 0, 0}, two_hosts{0, 1, 0};
  for (std::size_t i = 0; i < kTransportKinds; ++i) {
    const auto kind = static_cast<TransportKind>(i);
    const HostMemory memory = host_memory_of(kind);
    const auto alone = std::vector<int>{0}, with_2 = std::vector<int>{0, 2}, all = std::vector<int>{0, 1, 2};
    EXPECT_EQ(memory_ranks(roster_on(one_host, kind, 2), 0), memory == HostMemory::always ? all : alone) << i;
    EXPECT_EQ(memory_ranks(roster_on(two_hosts, kind, 2), 0), memory == HostMemory::never ? alone : with_2) << i;
    EXPECT_EQ(memory_ranks(roster_on(two_hosts, kind, 2), 1), std::vector<int>{1}) << i;
  }
}

TEST(Roster, ControlLinksGrowWithTheLogarithm) {
  for (const auto& [size, links] : {std::pair(2, 1), std::pair(64, 11), std::pair(100, 12), std::pair(1024, 19)}) {
    const Roster roster = roster_on(std::vector<int>(static_cast<std::size_t>(size), 0), TransportKind::tcp, 1);
    for (const int rank : {0, size / 3, size - 1}) EXPECT_EQ(count(links_of(roster, rank), Purpose::control), links);
  }
}

// Each link has two ends, of which one connects.
TEST(Roster, BothEndsAgreeOnEveryLink) {
  for (const TransportKind wanted : {TransportKind::automatic, TransportKind::tcp}) {
    const Roster roster = roster_on({0, 1, 0, 1, 2, 0}, wanted, 2);
    for (int rank = 0; rank < 6; ++rank) {
      for (const Link& link : links_of(roster, rank)) {
        const auto theirs = links_of(roster, link.peer);
        EXPECT_EQ(std::count_if(theirs.begin(), theirs.end(),
                                [&](const Link& other) {
                                  return other.peer == rank && other.purpose == link.purpose &&
                                         other.channel == link.channel && other.connects != link.connects;
                                }),
                  1);
      }
    }
  }
}

TEST(Roster, SurvivesTheWire) {
  Roster roster = roster_on({0, 1}, TransportKind::tcp, 7);
  roster.session = Token::from_hex(std::string(64, 'e'));
  roster.members[0].pid = 1;
  roster.members[1] = {"name", "id", "[::1]:80", "unix:@x", 17, {6, 1}};
  FrameReader reader(most_from_lobby(2));
  reader.add(frame_of(roster));
  const auto again = decode_roster(*reader.next());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->session->hex(), roster.session->hex());
  EXPECT_EQ(again->channels, 7);
  EXPECT_EQ(again->wanted, TransportKind::tcp);
  EXPECT_EQ(again->members[1].endpoint, "[::1]:80");
  EXPECT_EQ(again->members[1].pid, 17);
  EXPECT_EQ(again->members[1].cores, (std::vector<std::uint64_t>{6, 1}));
}

// Each change alone makes what was right into something that no rank says.
TEST(Roster, FieldsThatCannotBeAreRefused) {
  const auto understood = [](const std::function<void(Join&)>& change) {
    Join join{2, TransportKind::shm, 4, {"name", "id", "[::1]:80", "unix:@x", 17, {6, 1}}, {"A=b"}};
    change(join);
    FrameReader reader(kMostFromMember);
    reader.add(frame_of(join));
    const auto again = decode_join(*reader.next());
    Roster roster{join.wanted, join.channels, {join.member}, {}};
    FrameReader second(kMostFromMember);
    second.add(frame_of(roster));
    EXPECT_EQ(decode_roster(*second.next()).has_value(), again.has_value());
    return again.has_value();
  };
  EXPECT_TRUE(understood([](Join&) {}));
  EXPECT_FALSE(understood([](Join& join) { join.wanted = static_cast<TransportKind>(kTransportKinds); }));
  EXPECT_FALSE(understood([](Join& join) { join.channels = 0; }));
  EXPECT_FALSE(understood([](Join& join) { join.channels = 1 << 20; }));
  EXPECT_FALSE(understood([](Join& join) { join.member.pid = -1; }));
  EXPECT_FALSE(understood([](Join& join) { join.member.endpoint = "nowhere"; }));
  EXPECT_FALSE(understood([](Join& join) { join.member.endpoint = "unix:@x"; }));
  EXPECT_FALSE(understood([](Join& join) { join.member.endpoint = "host:0"; }));
  EXPECT_FALSE(understood([](Join& join) { join.member.memory = "host:80"; }));
  EXPECT_FALSE(understood([](Join& join) { join.member.cores.resize(2000); }));
  EXPECT_FALSE(understood([](Join& join) { join.member.package = -2; }));
  EXPECT_FALSE(understood([](Join& join) { join.member.cache = -2; }));
}

TEST(Roster, WordsOfOthersDoNotMoveTheCursor) {
  FrameReader reader(kMostFromMember);
  reader.add(frame_of(Verdict{ErrorCode::system, 1, "a\033[2Jb\n"}));
  EXPECT_EQ(decode_verdict(*reader.next())->text, "a [2Jb ");
}

TEST(Roster, VerdictsHaveACodeAndARank) {
  for (const auto& [code, peer] : {std::pair<int, int>{200, 0}, {0, -2}}) {
    FrameReader reader(kMostFromMember);
    reader.add(frame_of(Verdict{static_cast<ErrorCode>(code), peer, "words"}));
    EXPECT_FALSE(decode_verdict(*reader.next())) << code << " " << peer;
  }
}

// Loopback is shared by process namespaces of one network namespace, and by nothing else.
TEST(Roster, LoopbackOnlyLeadsToItsOwnNetwork) {
  std::vector<Join> joins(2);
  joins[0].member = {"a", make_host_id("boot", "1", "1", 0), "127.0.0.1:5", "", 1};
  joins[1].member = {"b", make_host_id("boot", "1", "2", 0), "127.0.0.1:6", "", 2};
  EXPECT_FALSE(judge(joins));
  joins[1].member.host_id = make_host_id("boot", "2", "1", 0);
  EXPECT_TRUE(judge(joins));
  joins[0].member.endpoint = "10.0.0.1:5";
  joins[1].member.endpoint = "[::1]:6";
  ASSERT_TRUE(judge(joins));
  EXPECT_EQ(judge(joins)->peer, 1);
  joins[1].member.endpoint = "[fd00::1]:6";
  EXPECT_FALSE(judge(joins));
}

TEST(Address, KnowsItsThreeForms) {
  EXPECT_EQ(parse("node7:29400")->host, "node7");
  EXPECT_EQ(parse("node7:29400")->port, 29400);
  EXPECT_EQ(parse("[fd00::1]:80")->host, "fd00::1");
  EXPECT_TRUE(parse("unix:@name")->is_unix);
  for (const char* wrong : {"", "node7", ":80", "fd00::1:80", "node7:", "node7:x", "node7:65536", "node7:-1", "unix:@"})
    EXPECT_FALSE(parse(wrong)) << wrong;
  EXPECT_EQ(endpoint_of("fd00::1", 5), "[fd00::1]:5");
  EXPECT_TRUE(is_loopback("127.0.1.1:5"));
  EXPECT_TRUE(is_loopback("[::1]:5"));
  EXPECT_FALSE(is_loopback("10.0.0.1:5"));
  EXPECT_FALSE(is_loopback(""));
}

// Ranks of one machine that fall back to TCP are told why; ranks of different machines have no choice.
TEST(Roster, SaysWhyRanksOfOneMachineShareNoMemory) {
  const std::string here = make_host_id("boot", "1", "1", 0);
  EXPECT_EQ(why_apart(here, here), "");
  EXPECT_EQ(why_apart(here, make_host_id("other boot", "1", "1", 0)), "");
  EXPECT_EQ(why_apart(here, make_host_id("boot", "2", "1", 0)), "their network namespaces differ");
  EXPECT_EQ(why_apart(here, make_host_id("boot", "1", "2", 0)), "their process namespaces differ");
  EXPECT_EQ(why_apart(here, make_host_id("boot", "1", "1", 7)), "they belong to different users");
  const std::string alone = alone_on_host(here, 3, "memfd_create: no/such call");
  EXPECT_EQ(why_apart(here, alone), "rank 3: memfd_create: no/such call");
  EXPECT_EQ(why_apart(alone, here), "rank 3: memfd_create: no/such call");
  Roster roster;
  roster.members = {{"a", here, "", "", 1}, {"a", alone, "", "", 2}};
  EXPECT_FALSE(share_memory(roster, 0, 1));
}

TEST(Judging, SettingsThatDifferAreNamedWithTheirRank) {
  std::vector<Join> joins(3);
  for (Join& join : joins) {
    join.size = 3;
    join.member.pid = 1;
    join.settings = {"TUTTI_ALGORITHM=unset", "TUTTI_CHECK=quick"};
  }
  EXPECT_FALSE(judge(joins));
  joins[2].settings[1] = "TUTTI_CHECK=full";
  const auto verdict = judge(joins);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->peer, 2);
  EXPECT_EQ(verdict->code, ErrorCode::mismatch);
  EXPECT_NE(verdict->text.find("wants TUTTI_CHECK=full, rank 0 TUTTI_CHECK=quick"), std::string::npos) << verdict->text;
  FrameReader reader(1 << 16);
  reader.add(frame_of(joins[2]));
  const auto copy = decode_join(*reader.next());
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->settings, joins[2].settings);
}

TEST(Judging, RanksOfDifferentBuildsAreToldSo) {
  std::vector<Join> joins(3);
  for (Join& join : joins) join.settings = {kBuild + "17", "TUTTI_CHECK=quick"};
  EXPECT_FALSE(judge(joins));
  joins[1].settings[0] = kBuild + "18";
  joins[1].settings[1] = "TUTTI_CHECK=full";
  const auto verdict = judge(joins);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->peer, 1);
  EXPECT_EQ(verdict->code, ErrorCode::mismatch);
  EXPECT_NE(verdict->text.find("runs another build of Tutti than rank 0"), std::string::npos) << verdict->text;
  EXPECT_NE(verdict->text.find("install one build on all hosts"), std::string::npos) << verdict->text;
}

TEST(Words, GiveTimesInSeconds) {
  EXPECT_EQ(in_words(Time(std::chrono::milliseconds(1500))), "1.5 s");
  EXPECT_EQ(in_words(Time(std::chrono::seconds(60))), "60 s");
}

}  // namespace
}  // namespace tutti::rendezvous
