// Clusters as values: their text, what is wrong with a text and where, the ways between ranks, and the presets.
#include "topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "topology/json.h"
#include "topology/link_names.h"
#include "topology/presets.h"
#include "topology/router.h"
#include "topology/text.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTwoHosts = R"(# a comment
topology two
hosts 2
device gpu 4   # behind a statement
bridge nvswitch 1
nic nic 2
switch leaf 2
switch spine 2
link gpu nvswitch each 450 GB/s 0.5 us
link gpu nic each 63GB/s 1us
link nic leaf each 400 Gbit/s 2 us back 200 Gbit/s 3 us
link leaf spine all 50 GB/s 500 ns
)";

Topology two_hosts() { return parse_topology(kTwoHosts, "two"); }

std::vector<std::string> words_of(const Topology& topology, const Route& route) {
  std::vector<std::string> words;
  for (const std::int64_t link : route.links) words.push_back(topology.words_of(link));
  return words;
}

std::string error_of(const std::string& text) {
  try {
    parse_topology(text, "file");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

std::string json_error_of(const std::string& text) {
  try {
    topology_from_json(text, "file");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TopologyText, IsReadAndWritten) {
  const Topology topology = two_hosts();
  EXPECT_EQ(topology.ranks(), 8);
  EXPECT_EQ(topology.host_of(5), 1);
  EXPECT_DOUBLE_EQ(topology.links[2].up.bytes_per_s, 50e9);
  EXPECT_DOUBLE_EQ(topology.links[2].down.bytes_per_s, 25e9);
  EXPECT_DOUBLE_EQ(topology.links[2].down.latency_s, 3e-6);
  EXPECT_DOUBLE_EQ(topology.links[3].up.latency_s, 5e-7);
  EXPECT_EQ(parse_topology(to_text(topology), "again"), topology);
}

TEST(TopologyText, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(error_of("device gpu 8\nlink gpu nvswitch each 1 GB/s 1 us\n"),
            "file:2:10: there is no part 'nvswitch' above; there are gpu");
  EXPECT_THAT(error_of("device gpu 8\nbridge b 1\nlink gpu b each 450 GBps 1 us\n"),
              AllOf(HasSubstr("file:3:21: 'GBps' is no unit here"), HasSubstr("GB/s")));
  EXPECT_EQ(error_of("device gpu 8\nbridge b 1\nlink gpu b each 450 GB/s\n"),
            "file:3:25: here belongs a latency, such as 1.5 us");
  EXPECT_THAT(error_of("device gpu 0\n"), HasSubstr("file:1:12: '0' is not how many"));
  EXPECT_THAT(error_of("device gpu 8 9\n"), HasSubstr("file:1:14: '9' is too much here"));
  EXPECT_THAT(error_of("devise gpu 8\n"), HasSubstr("file:1:1: 'devise' is no statement; there are topology"));
  EXPECT_THAT(error_of("device gpu 2\nswitch s 1\nlink gpu s eech 1 GB/s 1 us\n"),
              HasSubstr("file:3:12: 'eech' is no"));
  EXPECT_THAT(error_of("device gpu 2\nbridge gpu 1\n"), HasSubstr("file:2:8: there is a part 'gpu' already"));
  EXPECT_EQ(error_of(""), "file: no part; begin with: device gpu 8");
}

TEST(TopologyText, RefusesWhatCannotBe) {
  const std::string parts = "hosts 2\ndevice gpu 2\nbridge b 4\nswitch s 2\n";
  EXPECT_THAT(error_of(parts + "link gpu b each 1 GB/s 1 us\n"), HasSubstr("'each' joins parts with as many or fewer"));
  EXPECT_THAT(error_of(parts + "link s b each 1 GB/s 1 us\n"),
              HasSubstr("links lead from parts that are named before"));
  EXPECT_THAT(error_of(parts + "link gpu b all 0 GB/s 1 us\n"), HasSubstr("a bandwidth is more than 0"));
  EXPECT_THAT(error_of(parts + "link gpu s mesh 1 GB/s 1 us\n"), HasSubstr("a mesh joins the ones of a part"));
  EXPECT_THAT(error_of(parts + "link gpu b block 1 GB/s 1 us\n"), HasSubstr("'block' joins hosts with switches"));
  EXPECT_THAT(error_of(parts + "link gpu b all 1 GB/s 1 us\n"),
              HasSubstr("no way leads from gpu 0 of host 0 to gpu 1 of host 1"));
  EXPECT_EQ(error_of("switch s 2\n"), "file:1:1: the first part is the device that ranks run on");
}

TEST(TopologyText, SaysWhereALinkIsThatCannotBe) {
  const std::string parts = "hosts 2\ndevice gpu 2\nbridge b 1\nswitch s 2\n";
  EXPECT_EQ(error_of(parts + "link gpu b each 0 GB/s 1 us\nlink b s each 1 GB/s 1 us\n"),
            "file:5:17: a bandwidth is more than 0, and finite");
  EXPECT_EQ(error_of(parts + "link gpu b each inf GB/s 1 us\n"), "file:5:17: a bandwidth is more than 0, and finite");
  EXPECT_EQ(error_of(parts + "link gpu b each 1 GB/s -1us\n"), "file:5:24: a latency is not negative, and finite");
  EXPECT_EQ(error_of(parts + "link gpu b each 1 GB/s 1 us back 1 GB/s inf us\n"),
            "file:5:41: a latency is not negative, and finite");
  EXPECT_EQ(error_of(parts + "  link s gpu each 1 GB/s 1 us\n"),
            "file:5:3: link s gpu: links lead from parts that are named before to parts behind them");
  EXPECT_EQ(error_of(parts + "link s s mesh 1 GB/s 1 us back 2 GB/s 1 us\n"),
            "file:5:1: link s s: a mesh has neither up nor down: there is one speed for both directions");
  EXPECT_EQ(error_of("device gpu 2\ndevice cpu 2\n"), "file:2:1: cpu: ranks run on one kind of device");
  const std::string good = to_json(two_hosts());
  const std::string bandwidth = "\"bytes_per_s\": 450000000000.0";
  std::string wrong = good;
  wrong.replace(wrong.find(bandwidth), bandwidth.size(), "\"bytes_per_s\": 0");
  EXPECT_THAT(json_error_of(wrong), HasSubstr("file:34:5: links[0]: link gpu nvswitch: a bandwidth is more than 0"));
  wrong = good;
  wrong.replace(wrong.find(bandwidth), bandwidth.size(), "\"bytes_per_s\": 1e400");
  EXPECT_THAT(json_error_of(wrong), ::testing::MatchesRegex("file:[0-9]+:[0-9]+: this number is larger than any .*"));
}

TEST(TopologyText, RefusesMoreRanksThanHaveNumbers) {
  EXPECT_THAT(error_of("hosts 65536\ndevice gpu 65536\nbridge b 1\nlink gpu b each 1 GB/s 1 us\n"),
              AllOf(HasSubstr("file:2:1: "), HasSubstr("4294967296 ranks, and there are at most 1073741824")));
  EXPECT_THAT(error_of("device gpu 1\nswitch s 1048576 per 1\nhosts 1048576\nlink gpu s block 1 GB/s 1 us\n"
                       "link s s mesh 1 GB/s 1 us\n"),
              HasSubstr("more links than can be numbered"));
}

TEST(TopologyText, LooksForAWayBetweenHostsInTheMiddle) {
  // Host 0 has leaf 0 and host 1 leaf 1 of their unit, and each leaf a spine of its own.
  EXPECT_THAT(error_of("hosts 3\ndevice gpu 1\nswitch leaf 2 per 2\nswitch spine 2\nlink gpu leaf block 1 GB/s 1 us\n"
                       "link leaf spine each 1 GB/s 1 us\n"),
              HasSubstr("no way leads from gpu 0 of host 0 to gpu 0 of host 1"));
}

constexpr const char* kUnits = R"(topology units
hosts 6
device gpu 2
nic nic 2
switch leaf 2 per 2
switch spine 2 per 4
switch core 1
link gpu nic each 10 GB/s 1 us
link nic leaf each 10 GB/s 1 us
link leaf spine all 20 GB/s 1 us
link spine core all 40 GB/s 1 us
)";

TEST(Units, HaveSwitchesOfTheirOwn) {
  const Topology topology = parse_topology(kUnits, "units");
  EXPECT_EQ(topology.total(topology.parts[2]), 6);
  EXPECT_EQ(topology.total(topology.parts[3]), 4);
  EXPECT_EQ(parse_topology(to_text(topology), "again"), topology);
  // Hosts 0 and 1 have leaves 0 and 1, hosts 2 and 3 leaves 2 and 3; hosts 4 and 5 are a unit above that as well.
  EXPECT_THAT(words_of(topology, topology.route(1, 3)),
              ElementsAre("gpu 1 of host 0 to nic 1 of host 0", "nic 1 of host 0 to leaf 1",
                          "leaf 1 to nic 1 of host 1", "nic 1 of host 1 to gpu 1 of host 1"));
  const Route inside = topology.route(0, 6);
  ASSERT_EQ(inside.links.size(), 6u);
  EXPECT_THAT(topology.words_of(inside.links[1]), HasSubstr("to leaf 0"));
  EXPECT_THAT(topology.words_of(inside.links[4]), HasSubstr("leaf 2 to nic 0 of host 3"));
  const Route across = topology.route(0, 11);
  ASSERT_EQ(across.links.size(), 8u);
  EXPECT_THAT(topology.words_of(across.links[3]), HasSubstr("to core 0"));
  EXPECT_THAT(topology.words_of(across.links[5]), HasSubstr("to leaf 5"));
}

TEST(Units, AreOfSwitchesAndLieInLargerOnes) {
  EXPECT_THAT(error_of("device gpu 8 per 2\n"), HasSubstr("file:1:14: only switches are counted per so many hosts"));
  EXPECT_THAT(error_of("hosts 4\ndevice gpu 1\nswitch a 1 per 2\nswitch b 1 per 3\n"
                       "link gpu a each 1 GB/s 1 us\nlink a b all 1 GB/s 1 us\n"),
              HasSubstr("switches of a unit of hosts lead to those of a unit that holds it"));
}

constexpr const char* kKinds = R"(topology kinds
hosts 2 fat 3 thin
device gpu 4 thin 2
bridge nvswitch 1 thin 0
bridge socket 1 fat 0
nic nic 4 thin 1
switch leaf 4
switch spine 2
link gpu nvswitch each 450 GB/s 1 us
link gpu socket each 20 GB/s 2 us
link gpu nic each 60 GB/s 1 us thin 30 GB/s 3 us back 15 GB/s 4 us
link nic leaf each 50 GB/s 1 us
link leaf spine all 100 GB/s 1 us
)";

Topology kinds_of_hosts() { return parse_topology(kKinds, "kinds"); }

TEST(HostKinds, HaveMoreAndFewerOfEachPart) {
  const Topology topology = kinds_of_hosts();
  EXPECT_EQ(topology.hosts, 5);
  EXPECT_EQ(topology.ranks(), 2 * 4 + 3 * 2);
  std::vector<int> hosts;
  for (int rank = 0; rank < topology.ranks(); ++rank) hosts.push_back(topology.host_of(rank));
  EXPECT_THAT(hosts, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4));
  for (int host = 0; host <= 5; ++host)
    EXPECT_EQ(topology.first_rank(host), std::ranges::lower_bound(hosts, host) - hosts.begin());
  EXPECT_EQ(topology.total(topology.parts[0]), 14);
  EXPECT_EQ(topology.total(topology.parts[1]), 2);  // nvswitch
  EXPECT_EQ(topology.total(topology.parts[3]), 2 * 4 + 3);
  EXPECT_EQ(parse_topology(to_text(topology), "again"), topology);
  EXPECT_EQ(topology_from_json(to_json(topology), "again"), topology);
}

TEST(HostKinds, HaveWaysAndSpeedsOfTheirOwn) {
  const Topology topology = kinds_of_hosts();
  EXPECT_THAT(words_of(topology, topology.route(8, 9)),
              ElementsAre("gpu 0 of host 2 to socket 0 of host 2", "socket 0 of host 2 to gpu 1 of host 2"));
  const Route out = topology.route(13, 4);  // the second of the last thin host shares its only nic, on rail 0
  EXPECT_THAT(words_of(topology, out), ElementsAre("gpu 1 of host 4 to nic 0 of host 4", "nic 0 of host 4 to leaf 0",
                                                   "leaf 0 to nic 0 of host 1", "nic 0 of host 1 to gpu 0 of host 1"));
  EXPECT_DOUBLE_EQ(out.latency_s, 3e-6 + 1e-6 + 1e-6 + 1e-6);
  EXPECT_DOUBLE_EQ(topology.speed_of(out.links[0]).bytes_per_s, 30e9);
  EXPECT_DOUBLE_EQ(topology.speed_of(out.links[3]).bytes_per_s, 60e9);
  const Route back = topology.route(4, 13);
  EXPECT_DOUBLE_EQ(back.latency_s, 1e-6 + 1e-6 + 1e-6 + 4e-6);
  EXPECT_DOUBLE_EQ(topology.speed_of(back.links[3]).bytes_per_s, 15e9);
  for (const std::int64_t link : out.links)
    EXPECT_THAT(find_links(topology, topology.words_of(link)), ElementsAre(link));
  EXPECT_THROW(find_links(topology, "nic 1 of host 4 to leaf 1"), Error);
  EXPECT_THROW(find_links(topology, "gpu 0 of host 4 to nvswitch 0 of host 4"), Error);
}

TEST(HostKinds, ThatAreWrongAreToldWithTheirPlace) {
  EXPECT_EQ(error_of("hosts 2 fat 3\n"), "file:1:14: here belongs the name of a kind of hosts");
  EXPECT_EQ(error_of("hosts 2 fat 3 fat\n"), "file:1:15: there is a kind of hosts 'fat' already");
  EXPECT_EQ(error_of("device gpu 4\nhosts 2 fat\n"), "file:2:9: kinds of hosts are named above the first part");
  const std::string hosts = "hosts 2 fat 3 thin\n";
  EXPECT_EQ(error_of(hosts + "device gpu 4 slim 2\n"), "file:2:14: 'slim' is no kind of hosts; there are fat, thin");
  EXPECT_EQ(error_of(hosts + "device gpu 4 thin\n"), "file:2:18: here belongs how many");
  EXPECT_EQ(error_of(hosts + "device gpu 4 thin 0\n"), "file:2:19: '0' is not how many: a number from 1 to 1048576");
  EXPECT_EQ(error_of(hosts + "device gpu 4\nswitch s 1 thin 2\n"),
            "file:3:12: switches are in no host, of whatever kind");
  EXPECT_EQ(error_of(hosts + "device gpu 4\nswitch s 1\nlink gpu s all 1 GB/s 1 us thin\n"),
            "file:4:32: here belongs a bandwidth, such as 25 GB/s");
  EXPECT_THAT(error_of(hosts + "device gpu 4 thin 1\nbridge b 2\nlink gpu b each 1 GB/s 1 us\n"),
              HasSubstr("in a host of kind thin there are more"));
  // Who is on hosts of one kind only has no way to the others.
  EXPECT_THAT(error_of(hosts + "device gpu 2\nnic n 1 thin 0\nbridge b 1\nswitch s 1\nlink gpu b each 1 GB/s 1 us\n"
                               "link gpu n each 1 GB/s 1 us\nlink n s each 1 GB/s 1 us\n"),
              HasSubstr("no way leads from gpu 0 of host 0 to gpu 1 of host 4"));
  std::string json = to_json(kinds_of_hosts());
  const auto error_with = [&](const std::string& old_text, const std::string& new_text) {
    std::string changed = json;
    changed.replace(changed.find(old_text), old_text.size(), new_text);
    try {
      topology_from_json(changed, "file");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_with("\"thin\": 2", "\"slim\": 2"), "file:13:17: parts[0].in.slim: there is no such kind of hosts");
  EXPECT_EQ(error_with("\"thin\": 2", "\"thin\": -1"),
            "file:13:17: parts[0].in.thin: a number from 0 to 1048576 belongs here");
  EXPECT_EQ(error_with("\"hosts\": 5", "\"hosts\": 6"), "file: there are 6 hosts, and 5 by their kinds");
}

TEST(TopologyJson, IsReadAsItIsWritten) {
  for (const Preset& preset : presets()) {
    const Topology topology = find_preset(preset.name + ":40");
    EXPECT_EQ(topology_from_json(to_json(topology), "again"), topology) << preset.name;
  }
  EXPECT_EQ(topology_from_json(to_json(two_hosts()), "again"), two_hosts());
}

TEST(TopologyJson, SaysWhatIsWrongAndWhere) {
  const std::string good = to_json(two_hosts());
  const auto error_with = [&](const std::string& before, const std::string& after) {
    std::string text = good;
    const std::size_t at = text.find(before);
    EXPECT_NE(at, std::string::npos) << before;
    text.replace(at, before.size(), after);
    try {
      topology_from_json(text, "file");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_with("\"hosts\": 2,", "\"hosts\": ,"), "file:3:12: this is no JSON from here on");
  EXPECT_EQ(error_with("\"hosts\": 2", "\"hosts\": 0"), "file:3:12: hosts: a number from 1 to 1048576 belongs here");
  EXPECT_EQ(error_with("\"hosts\"", "\"host\""), "file: 'hosts' is missing");
  EXPECT_EQ(error_with("\"ranks\": 8", "\"ranks\": 9"), "file:4:12: ranks: there are 8, by the hosts and the devices");
  EXPECT_EQ(error_with("\"kind\": \"nic\"", "\"kind\": \"nik\""),
            "file:18:15: parts[2].kind: 'nik' is not device, bridge, nic or switch");
  EXPECT_EQ(error_with("\"upper\": \"leaf\"", "\"upper\": \"lead\""),
            "file:62:16: links[2].upper: there is no part 'lead'");
  EXPECT_EQ(error_with("\"count\": 4", "\"count\": 4, \"colour\": 1"),
            "file:10:29: parts[0].colour: nobody knows this key");
  EXPECT_EQ(error_with("\"bytes_per_s\": 450000000000.0", "\"bytes_per_s\": \"1\""),
            "file:39:24: links[0].up.bytes_per_s: a number belongs here");
  EXPECT_THAT(error_with("\"bytes_per_s\": 450000000000.0", "\"bytes_per_s\": 0"), HasSubstr("more than 0"));
}

TEST(Routes, StayInsideTheHostWhereTheyCan) {
  const Topology topology = two_hosts();
  const Route route = topology.route(1, 2);
  EXPECT_THAT(words_of(topology, route),
              ElementsAre("gpu 1 of host 0 to nvswitch 0 of host 0", "nvswitch 0 of host 0 to gpu 2 of host 0"));
  EXPECT_DOUBLE_EQ(route.latency_s, 1e-6);
  EXPECT_TRUE(topology.route(3, 3).links.empty());
}

// Where links take no time, all ways are as quick, and the shortest is meant.
TEST(Routes, OfEqualLatencyAreShort) {
  const Topology topology = parse_topology(
      "hosts 2\ndevice gpu 4\nnic nic 1\nswitch s 1\nlink gpu nic each 10 GB/s 0 us\nlink nic s each 10 GB/s 0 us\n",
      "flat");
  for (const auto& [from, to] : {std::pair(4, 5), std::pair(5, 7), std::pair(0, 3), std::pair(2, 1)})
    EXPECT_EQ(topology.route(from, to).links.size(), 2u) << from << " to " << to;
}

TEST(Routes, FollowTheRailAndCrossTheSpineOnlyBetweenRails) {
  const Topology topology = two_hosts();
  // gpus 0 and 1 have nic 0, and nic 0 of every host leaf 0.
  EXPECT_THAT(words_of(topology, topology.route(0, 5)),
              ElementsAre("gpu 0 of host 0 to nic 0 of host 0", "nic 0 of host 0 to leaf 0",
                          "leaf 0 to nic 0 of host 1", "nic 0 of host 1 to gpu 1 of host 1"));
  EXPECT_DOUBLE_EQ(topology.route(0, 5).latency_s, 1e-6 + 2e-6 + 3e-6 + 1e-6);
  const Route between = topology.route(0, 7);
  ASSERT_EQ(between.links.size(), 6u);
  EXPECT_THAT(topology.words_of(between.links[2]), HasSubstr("leaf 0 to spine"));
  EXPECT_THAT(topology.words_of(between.links[3]), HasSubstr("to leaf 1"));
  EXPECT_THROW(topology.route(0, 8), Error);
}

TEST(Routes, OfEqualLatencySpread) {
  Topology topology = two_hosts();
  topology.hosts = 64;
  std::map<std::int64_t, int> used;
  for (int host = 1; host < 64; ++host) ++used[topology.route(0, host * 4 + 3).links[2]];
  EXPECT_EQ(used.size(), 2u);
  for (const auto& [link, times] : used) EXPECT_GT(times, 15) << topology.words_of(link);
}

// By the receiver's host in turn: whoever sends to hosts side by side uses every way alike, and choices on the way up
// do not follow each other.
TEST(Routes, OfAFixedFabricTakeTurns) {
  Topology topology = parse_topology(R"(topology three-layers
hosts 64
routing fixed
device cpu 1
nic nic 1
switch leaf 1 per 16
switch middle 4 per 32
switch core 4
link cpu nic each 1 GB/s 1 us
link nic leaf each 1 GB/s 1 us
link leaf middle all 1 GB/s 1 us
link middle core all 1 GB/s 1 us
)",
                                     "file");
  const auto times_used = [&](int first, int hosts, std::size_t hop) {
    std::map<std::int64_t, int> used;
    for (int to = first; to < first + hosts; ++to) ++used[topology.route(0, to).links[hop]];
    std::vector<int> times;
    for (const auto& [link, count] : used) times.push_back(count);
    return times;
  };
  EXPECT_THAT(times_used(16, 16, 2), ElementsAre(4, 4, 4, 4));  // leaf to middle, and down again
  EXPECT_THAT(times_used(32, 16, 2), ElementsAre(4, 4, 4, 4));
  EXPECT_EQ(times_used(32, 16, 3), std::vector<int>(16, 1));  // every middle switch uses every core
  EXPECT_EQ(topology.route(0, 40).links[2], topology.route(5, 40).links[2]);
  topology.routing = Routing::ecmp;
  EXPECT_NE(times_used(32, 16, 3), std::vector<int>(16, 1));
}

TEST(Routing, HasAWordInBothForms) {
  Topology topology = parse_topology(std::string("routing fixed\n") + kTwoHosts, "two");
  EXPECT_EQ(topology.routing, Routing::fixed);
  EXPECT_EQ(two_hosts().routing, Routing::ecmp);
  EXPECT_EQ(parse_topology(to_text(topology), "again"), topology);
  EXPECT_EQ(topology_from_json(to_json(topology), "again"), topology);
  EXPECT_EQ(error_of("topology x\nrouting lot\n"), "file:2:9: 'lot' is no routing; there are ecmp and fixed");
  EXPECT_EQ(error_of("routing"), "file:1:8: here belongs ecmp or fixed");
}

TEST(Links, AreFoundByTheirWords) {
  for (const char* name : {"dgx-h100:3", "wan-4-sites:8", "l40s-pcie:2"}) {
    const Topology topology = find_preset(name);
    for (const int to : {1, topology.ranks() / 2, topology.ranks() - 1}) {
      for (const std::int64_t link : topology.route(0, to).links)
        EXPECT_THAT(find_links(topology, topology.words_of(link)), ElementsAre(link)) << topology.words_of(link);
    }
  }
  const Topology topology = two_hosts();
  const std::vector<std::int64_t> both = find_links(topology, "nic 1 of host 1 and leaf 1");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(topology.words_of(both[0]), "nic 1 of host 1 to leaf 1");
  EXPECT_EQ(topology.words_of(both[1]), "leaf 1 to nic 1 of host 1");
}

TEST(Links, ThatAreNoneAreRefusedInWords) {
  const Topology topology = two_hosts();
  const auto error_about = [&](const std::string& words) {
    try {
      find_links(topology, words);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_about("nix 1 of host 1 to leaf 1"), HasSubstr("'nix' is no part of"));
  EXPECT_THAT(error_about("nic 1 of host 2 to leaf 1"), HasSubstr("'2' is no number of a host: there are 0 to 1"));
  EXPECT_THAT(error_about("nic 9 of host 1 to leaf 1"), HasSubstr("'9' is no number of nic"));
  EXPECT_THAT(error_about("nic 1 to leaf 1"), HasSubstr("nic NUMBER of host NUMBER"));
  EXPECT_THAT(error_about("nic 0 of host 0 to leaf 1"), HasSubstr("joins nic 0 of host 0 and leaf 1"));
  EXPECT_THAT(error_about("leaf 1"), HasSubstr("one is named by its ends, such as '"));
}

TEST(Routes, LeadAroundLinksThatHaveFailed) {
  const Topology topology = two_hosts();
  const Route usual = topology.route(0, 7);
  Router router(topology, std::vector{usual.links[2]});
  const Route around = router.route(0, 7);
  EXPECT_EQ(around.links.size(), usual.links.size());
  EXPECT_NE(around.links[2], usual.links[2]);
  Router cut(topology, find_links(topology, "gpu 0 of host 0 to nic 0 of host 0"));
  EXPECT_NO_THROW(cut.route(0, 1));
  EXPECT_NO_THROW(cut.route(7, 0));
  EXPECT_THROW(cut.route(0, 7), Error);
}

// Every link of a route begins where the one before it has ended.
TEST(Routes, AreConnectedInEveryPreset) {
  for (const Preset& preset : presets()) {
    for (const int hosts : {1, 2, 5, 64}) {
      const Topology topology = find_preset(preset.name + ":" + std::to_string(hosts));
      ASSERT_EQ(topology.why_not(), "") << preset.name;
      const int last = topology.ranks() - 1;
      for (const auto& [from, to] : {std::pair(0, last), std::pair(last, 0), std::pair(0, 1), std::pair(last / 2, 1)}) {
        std::string here = topology.devices().name + " " + std::to_string(from % topology.devices_per_host()) +
                           " of host " + std::to_string(topology.host_of(from));
        for (const std::int64_t link : topology.route(from, to).links) {
          ASSERT_LT(link, topology.directed_links());
          const std::string words = topology.words_of(link);
          ASSERT_TRUE(words.starts_with(here + " to ")) << preset.name << ": " << words << " behind " << here;
          here = words.substr(here.size() + 4);
        }
        EXPECT_TRUE(here.starts_with(topology.devices().name + " ")) << here;
      }
    }
  }
}

TEST(Presets, HaveASummaryAndASource) {
  std::set<std::string> names;
  for (const Preset& preset : presets()) {
    EXPECT_TRUE(names.insert(preset.name).second);
    EXPECT_EQ(find_preset(preset.name).name, preset.name);
    EXPECT_GT(preset.summary().size(), 20u);
    EXPECT_THAT(preset.text, HasSubstr("stimates")) << preset.name;
  }
  EXPECT_EQ(find_preset("dgx-h100:32").ranks(), 256);
  EXPECT_DOUBLE_EQ(find_preset("dgx-h100").links[0].up.bytes_per_s, 450e9);
}

TEST(Presets, ThatDoNotExistAreAnsweredWithTheNearest) {
  const auto error_of_preset = [](const std::string& words) {
    try {
      find_preset(words);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of_preset("dgx-h10"),
              HasSubstr("no topology 'dgx-h10'; did you mean dgx-h100 or dgx-a100? there are: cpu-100gbe, "));
  EXPECT_THAT(error_of_preset("dgx-h100:"), HasSubstr("behind the colon belongs how many hosts"));
  EXPECT_THAT(error_of_preset("dgx-h100:0"), HasSubstr("behind the colon belongs how many hosts"));
  EXPECT_THAT(error_of_preset("dgx-h100:2x"), HasSubstr("behind the colon belongs how many hosts"));
}

}  // namespace
}  // namespace tutti::topology
