// The `tutti` command as a user meets it: what it prints, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

using tutti::testing::Ended;

Ended tutti(const std::string& arguments, const std::string& redirect = "2>&1") {
  return tutti::testing::shell(std::string(TUTTI_TOOL) + " " + arguments, redirect);
}

void expect_usage(const std::string& arguments, const std::string& complaint) {
  const Ended ended = tutti(arguments);
  EXPECT_EQ(ended.exit_code, 2) << arguments;
  EXPECT_THAT(ended.output, HasSubstr(complaint)) << arguments;
  EXPECT_THAT(ended.output, HasSubstr("--help")) << arguments;
  EXPECT_EQ(tutti(arguments, "2>/dev/null").output, "") << "a complaint belongs to stderr: " << arguments;
}

// A file with `text`, removed in the end.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("tutti-tools-test-" + std::to_string(::getpid()) + ".json")) {
    std::ofstream(path_) << text;
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Tool, HelpTeachesByExamples) {
  for (const char* arguments :
       {"", "--help", "bench --help", "cost --help", "env --help", "export --help", "run --help", "show --help",
        "token --help", "sim --help", "topo --help", "trace --help", "verify --help"}) {
    const Ended ended = tutti(arguments);
    EXPECT_EQ(ended.exit_code, 0) << arguments;
    EXPECT_THAT(ended.output, HasSubstr("Examples:\n  tutti ")) << arguments;
  }
}

TEST(Tool, SaysItsVersionAndWhatItWasBuiltWith) {
  const Ended ended = tutti("--version", "2>/dev/null");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.output.substr(0, ended.output.find('\n')), "tutti " TUTTI_PROJECT_VERSION);
  EXPECT_THAT(ended.output, HasSubstr("\n  compiler     " TUTTI_COMPILER "\n"));
  EXPECT_THAT(ended.output, ContainsRegex("\n  for          [^,\n]+, Linux\n"));
  for (const char* part : {"Highway [0-9]", "OpenSSL [0-9]", "nlohmann-json [0-9]", "fmt [0-9]", "CLI11 [0-9]", "PMIx"})
    EXPECT_THAT(ended.output, ContainsRegex(part));
  EXPECT_EQ(ended.output.back(), '\n');
  EXPECT_THAT(tutti("--help").output, HasSubstr("--version"));
}

TEST(Tool, OutputThatCannotBeWrittenIsAFailure) {
  for (const char* arguments : {"", "env", "list", "run --help", "--version"}) {
    const Ended ended = tutti(arguments, "2>&1 >/dev/full");
    EXPECT_EQ(ended.exit_code, 1) << arguments;
    EXPECT_THAT(ended.output, HasSubstr("No space left on device")) << arguments;
  }
}

TEST(Tool, WrongUsageNamesTheRemedy) {
  expect_usage("dance",
               "no command 'dance'; there are: bench, cost, demo, env, export, list, plan, run, show, sim, study, "
               "token, topo, trace, tune, verify, view");
  expect_usage("--dance", "no command '--dance'");
  expect_usage("show", "name a verb: all_reduce, broadcast, send_recv");
  expect_usage("show sing", "no verb 'sing'; there are: all_reduce");
  expect_usage("show all_reduce -a rong",
               "no algorithm 'rong' for all_reduce; did you mean ring? there are: direct, exchange");
  expect_usage("show broadcast -a ring", "no algorithm 'ring' for broadcast; there are: direct, binomial");
  expect_usage("show all_reduce -n 0", "-n must be 1 to 1024, not 0");
  expect_usage("show all_reduce -n -3", "-n must be 1 to 1024, not -3");
  expect_usage("show all_reduce -n four", "four");
  expect_usage("show all_reduce --credits 0", "--credits must be at least 1");
  expect_usage("show all_reduce --transport pigeon", "no transport 'pigeon'; there are: memory, stream");
  expect_usage("show all_reduce -a direct --transport stream", "which --transport stream does not have");
  expect_usage("show send_recv -n 3", "use -n 2");
  expect_usage("show broadcast --root 4", "--root must be one of the ranks 0 to 3");
  expect_usage("show all_reduce --dance", "--dance");
  expect_usage("list -n 0", "-n must be");
  expect_usage("verify all_reduce --segments 0", "--segments");
  expect_usage("verify all_reduce --count -1", "a number from 1 to 1e+15 belongs there, not '-1'");
  expect_usage("verify all_reduce --count 0", "a number from 1 to 1e+15 belongs there, not '0'");
  expect_usage("verify --file x -n 9", "a file says itself what its programs are: leave --ranks or --file away");
  expect_usage("run --hosts a,b -- ./x", "--hosts needs -n: the number of ranks of each host");
  expect_usage("verify --file /nowhere/to/be/found", "cannot read '/nowhere/to/be/found'");
  expect_usage("verify all_reduce --file x", "give either a verb or --file");
  expect_usage("verify --file /dev/zero", "'/dev/zero' has more than 256 MB, which is more than is read");
  expect_usage("verify --file - </dev/zero", "standard input has more than 256 MB");
  expect_usage("show all_to_all -a pairwise",
               "no algorithm 'pairwise' for all_to_all; there are: direct, bruck, spread_out");
  expect_usage("verify all_reduce -a torus -n 7",
               "all_reduce by torus needs ranks in rows and columns (7 is prime): try another -n");
  expect_usage("verify broadcast -a single_copy --transport stream",
               "may read each other's memory, which --transport stream");
}

TEST(Tool, ListsEveryVerb) {
  const Ended ended = tutti("list");
  EXPECT_EQ(ended.exit_code, 0);
  for (const char* word :
       {"all_reduce", "broadcast", "send_recv", "ring", "canonical", "its own", "symmetric buffers"}) {
    EXPECT_THAT(ended.output, HasSubstr(word));
  }
  EXPECT_THAT(tutti("list broadcast").output, AllOf(HasSubstr("binomial"), Not(HasSubstr("recursive_doubling"))));
  EXPECT_THAT(tutti("list all_gather -n 7").output, ContainsRegex("torus .* - +no grid"));
  EXPECT_THAT(tutti("list all_gather -n 6").output, ContainsRegex("torus .* 0.8333 n"));
  expect_usage("list broadcasd", "no verb 'broadcasd'; did you mean broadcast?");
}

TEST(Tool, ShowsTextAndPicture) {
  const Ended ended = tutti("show all_reduce --algorithm ring -n 4");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.output, HasSubstr("1  reduce  →rank+1                  <+  ←rank-1, input[rank-1]\n"));
  EXPECT_THAT(ended.output, HasSubstr("round 2  reduce  0→1 [3]"));
  EXPECT_THAT(ended.output, HasSubstr("done after 7 rounds"));
}

TEST(Tool, ShowsHowAStreamLandsItsMessages) {
  EXPECT_THAT(tutti("show all_reduce -a ring -n 4 --transport stream").output, HasSubstr("scratch[rank-1]"));
}

TEST(Tool, PlacesRanksOnHosts) {
  const Ended shown = tutti("show all_reduce -a ring -n 4 --hosts 2");
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("copy    scratch[rank-1]          <-  ←rank-1  on ranks 0, 2\n"));
  EXPECT_THAT(shown.output, HasSubstr("reduce  scratch[rank-1]          <+  ←rank-1, input[rank-1]  on ranks 1, 3\n"));
  EXPECT_THAT(shown.output, HasSubstr("hosts     ranks 0, 1 | 2, 3\n"));
  EXPECT_THAT(tutti("show all_reduce -a ring -n 7 --hosts 3").output, HasSubstr("ranks 0-2 | 3, 4 | 5, 6\n"));
  const json uneven = json::parse(tutti("show broadcast -a single_copy -n 4 --hosts 1,3 --json").output);
  EXPECT_EQ(uneven.at("offers").at("hosts"), json({0, 1, 1, 1}));
  EXPECT_FALSE(uneven.at("offers").at("across").at("single_copy").get<bool>());
  for (const char* arguments :
       {"all_reduce -a ring -n 7 --hosts 3 --segments 2", "reduce_scatter -n 5 -a pairwise --hosts 4,1",
        "all_gather -a single_copy -n 6 --hosts 1,2,3", "send_recv -a message --hosts 2"}) {
    const Ended ended = tutti(std::string("verify ") + arguments);
    EXPECT_EQ(ended.exit_code, 0) << arguments << "\n" << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("\nverified\n")) << arguments;
  }
  const auto expected_us = [](const std::string& arguments) {
    const std::string output = tutti("show all_reduce -a ring -n 4 --bytes 1048576 " + arguments).output;
    const std::size_t at = output.find("expected  ");
    return at == std::string::npos ? -1 : std::stod(output.substr(at + 10));
  };
  EXPECT_GT(expected_us(""), 0);
  EXPECT_GT(expected_us("--hosts 2"), 0);
  EXPECT_LT(expected_us("--hosts 2"), expected_us("--transport stream")) << "half of the links are memory";
  expect_usage("show all_reduce -a staged -n 4 --hosts 2",
               "all_reduce by staged needs windows onto peers' scratch, which ranks of different hosts do not have");
  expect_usage("show all_reduce -a ring -n 4 --hosts 5", "--hosts must be a number of hosts for 4 ranks");
  expect_usage("show all_reduce -a ring -n 4 --hosts 2,1", "--hosts must be");
  expect_usage("show all_reduce -a ring -n 4 --hosts two", "not 'two'");
  expect_usage("show all_reduce -a ring -n 4 --hosts 2 --transport stream", "leave --transport away");
}

TEST(Tool, VerifiesEveryAlgorithm) {
  for (const char* arguments : {"all_reduce -a direct", "all_reduce -a staged --segments 3", "all_reduce -a exchange",
                                "all_reduce -a recursive_doubling -n 7", "all_reduce -a recursive_halving -n 6",
                                "all_reduce -a ring -n 5 --segments 2", "broadcast --root 2", "send_recv",
                                "all_reduce -a ring -n 1", "all_reduce -a ring --transport stream --count 1"}) {
    const Ended ended = tutti(std::string("verify ") + arguments);
    EXPECT_EQ(ended.exit_code, 0) << arguments << "\n" << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("✓ progress")) << arguments;
    EXPECT_THAT(ended.output, HasSubstr("\nverified\n")) << arguments;
  }
}

// As the engine runs them: out of the sender's own memory, and in place only where that is not overwritten.
TEST(Tool, VerifiesSingleCopyAsTheEngineRunsIt) {
  const json shown = json::parse(tutti("show broadcast -a single_copy -n 3 --json").output);
  EXPECT_TRUE(shown.at("offers").at("inside").at("single_copy").get<bool>());
  EXPECT_FALSE(shown.at("offers").at("inside").at("operands_in_slots").get<bool>());
  for (const char* verb : {"broadcast", "reduce", "scatter", "gather", "all_gather", "reduce_scatter"}) {
    const Ended ended = tutti(std::string("verify -a single_copy ") + verb);
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("none, also in place")) << verb;
  }
  for (const char* verb : {"all_to_all", "scan", "exclusive_scan"}) {
    const Ended ended = tutti(std::string("verify -a single_copy ") + verb);
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("in place the input is kept aside first")) << verb;
  }
}

// Products of numbers in a file that wrap around to something small.
TEST(Tool, RefusesAFileThatAsksForMoreThanMemory) {
  std::string text = tutti("show all_reduce -a staged -n 2 --json").output;
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  replace("\"planes\":1", "\"planes\":1073741824");
  replace("\"depth\":2", "\"depth\":1073741824");
  replace("\"blocks\": 2", "\"blocks\": 16");
  const TextFile file(text);
  const Ended ended = tutti("verify --file " + file.path());
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("too large to be verified"));
}

TEST(Tool, TellsCanonicalOrderFromOthers) {
  EXPECT_THAT(tutti("verify all_reduce -a ring -n 4").output, HasSubstr("not canonical"));
  EXPECT_THAT(tutti("verify all_reduce -a staged -n 4").output, HasSubstr("canonical: same bits"));
  EXPECT_FALSE(json::parse(tutti("verify all_reduce -a ring -n 4 --json").output).at("canonical").get<bool>());
}

TEST(Tool, ReportsBytesPerEdge) {
  const json found = json::parse(tutti("verify all_reduce -a ring -n 4 --count 64 --json").output);
  EXPECT_TRUE(found.at("verified").get<bool>());
  ASSERT_EQ(found.at("edges").size(), 4U);
  EXPECT_EQ(found.at("edges")[0], (json{{"from", 0}, {"to", 1}, {"bytes", 6 * 16 * 4}}));
}

TEST(Tool, ComparesLinksWithTheLeastThereCanBe) {
  const std::string ring = tutti("verify all_reduce -a ring -n 4").output;
  EXPECT_THAT(ring, HasSubstr("links      4 links with 1.5 n each, the busiest from rank 0 to 1; 6 n in all"));
  EXPECT_THAT(ring,
              HasSubstr("1.5 n through the busiest rank, 0; no algorithm has less than 2 (p-1)/p n = 1.5 n: 1 x"));
  const std::string tree = tutti("verify all_reduce -a recursive_doubling -n 8").output;
  EXPECT_THAT(tree,
              HasSubstr("3 n through the busiest rank, 0; no algorithm has less than 2 (p-1)/p n = 1.75 n: 1.71"));
  const json found = json::parse(tutti("verify all_gather -a ring -n 4 --json").output);
  EXPECT_EQ(found.at("share_of_busiest_link"), 0.75);
  EXPECT_EQ(found.at("share_of_busiest_rank"), 0.75);
  EXPECT_EQ(found.at("least_share"), 0.75);
}

TEST(Tool, VerifiesThousandsOfRanksThatAreAlike) {
  const Ended ended = tutti("verify all_gather -a bruck -n 3000");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("✓ alike      rank 0 stands for all"));
  EXPECT_THAT(ended.output, HasSubstr("the programs of all 3000 compared"));
  EXPECT_THAT(ended.output, HasSubstr("\nverified\n"));
  const Ended some = tutti("verify all_reduce -a ring -n 10000");
  EXPECT_EQ(some.exit_code, 0) << some.output;
  EXPECT_THAT(some.output, ContainsRegex("alike.* [0-9]+ of 10000 programs compared"));
  EXPECT_THAT(some.output, HasSubstr("verified, if the programs that were not compared are alike: --every-rank"));
  // Ranks that are not alike are verified one by one, as far as that goes.
  expect_usage("verify all_reduce -a recursive_doubling -n 10000", "-n must be 1 to 1024");
  EXPECT_THAT(tutti("verify all_reduce -a ring -n 64").output, Not(HasSubstr("alike")));
}

TEST(Tool, WhatItShowsAsJsonItVerifies) {
  const TextFile file(tutti("show all_reduce -a recursive_halving -n 6 --json").output);
  const Ended ended = tutti("verify --file " + file.path());
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("all_reduce by recursive_halving: 6 ranks"));
  EXPECT_EQ(tutti("verify --file - < " + file.path()).exit_code, 0);
}

TEST(Tool, ABrokenProgramIsRefusedWithItsPlace) {
  json program = json::parse(tutti("show all_reduce -a ring -n 4 --json").output);
  program["programs"][0]["lanes"][0]["steps"][1]["from"][1]["blocks"]["first"]["plus"] = -2;
  const TextFile file(program.dump());
  const Ended ended = tutti("verify --count 64 --file " + file.path());
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("✗ results"));
  EXPECT_THAT(ended.output, HasSubstr("wrong result: "));
  EXPECT_THAT(ended.output, HasSubstr("not verified"));
  EXPECT_EQ(tutti("verify --json --file " + file.path()).exit_code, 1);
}

TEST(Tool, AMissingStepIsADeadlockOrUnmatched) {
  json program = json::parse(tutti("show all_reduce -a ring -n 4 --json").output);
  json other = program["programs"][0];
  program["programs"][0]["ranks"] = {0, 1, 2};
  other["ranks"] = {3};
  other["lanes"][0]["steps"].erase(0);
  program["programs"].push_back(other);
  const TextFile file(program.dump());
  const Ended ended = tutti("verify --file " + file.path());
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("✗"));
  EXPECT_THAT(ended.output, Not(HasSubstr("\nverified")));
}

TEST(Tool, EveryVerbIsShownAndVerified) {
  for (const char* verb : {"all_reduce", "broadcast", "reduce", "scatter", "gather", "all_gather", "reduce_scatter",
                           "all_to_all", "scan", "exclusive_scan", "barrier"}) {
    const std::string three = std::string(verb) + " -n 3 --root 2";
    EXPECT_EQ(tutti("show " + three).exit_code, 0) << verb;
    const Ended ended = tutti("verify " + three + " --segments 2");
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("\nverified"));
  }
  const Ended ended = tutti("verify all_to_all -a direct");
  EXPECT_THAT(ended.output, HasSubstr("not made for in place"));
}

TEST(Tool, AFileThatIsNoProgramIsWrongUsage) {
  expect_usage("verify --file " + TextFile("{\n  \"ranks\": 1e400}").path(), "at line 2, column 12 stands a number");
  const TextFile file("{ \"version\": 6 }");
  expect_usage("verify --file " + file.path(), "the document lacks the key 'verb'");
}

TEST(Tool, ListsClustersAndShowsThem) {
  EXPECT_THAT(tutti("topo --list").output, ContainsRegex("dgx-h100 +8 ranks a host +8 H100 with NVLink 4"));
  const Ended shown = tutti("topo dgx-h100:32");
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.output, HasSubstr("dgx-h100: 32 hosts, 256 ranks on gpu\n"));
  EXPECT_THAT(shown.output, ContainsRegex("gpu - nvswitch +each +450 GB/s, 0.4 us\n"));
  EXPECT_THAT(shown.output, ContainsRegex("leaf +12.8 TB/s from below, 12.8 TB/s on for 32 hosts: 1 to 1\n"));
  EXPECT_THAT(tutti("topo dgx-h100:2 --route 0 8").output,
              AllOf(HasSubstr("rank 0 to rank 8: 50 GB/s, 2.4 us, 4 links\n"), HasSubstr("leaf 0 to ndr 0 of host 1")));
  EXPECT_EQ(json::parse(tutti("topo dgx-h100:2 --json").output)["links"][0]["up"]["bytes_per_s"], 450e9);
}

TEST(Tool, TakesClustersWithHostsOfSeveralKinds) {
  const TextFile file(R"(topology mixed
hosts 2 fat 3 thin
device gpu 8 thin 2
bridge nvswitch 1
nic nic 8 thin 1
switch leaf 1
link gpu nvswitch each 450 GB/s 1 us
link gpu nic each 60 GB/s 1 us thin 30 GB/s 2 us
link nic leaf each 50 GB/s 1 us
)");
  EXPECT_THAT(
      tutti("topo " + file.path()).output,
      AllOf(HasSubstr("mixed: 5 hosts, 22 ranks on gpu\n"), ContainsRegex("hosts 0-1 +fat: 8 gpu, 1 nvswitch, 8 nic\n"),
            ContainsRegex("hosts 2-4 +thin: 2 gpu, 1 nvswitch, 1 nic\n"), ContainsRegex("in thin +30 GB/s, 2 us\n")));
  const json shown = json::parse(tutti("topo --json " + file.path()).output);
  EXPECT_EQ(shown["ranks"], 22);
  EXPECT_EQ(shown["kinds"][1]["name"], "thin");
  const TextFile again(shown.dump());
  EXPECT_EQ(tutti("topo --text " + again.path()).output, tutti("topo --text " + file.path()).output);
  EXPECT_THAT(tutti("topo " + file.path() + " --route 21 0").output,
              AllOf(HasSubstr("30 GB/s, 5 us, 4 links"), HasSubstr("gpu 1 of host 4 to nic 0 of host 4")));
  const json simulated = json::parse(tutti("sim all_reduce --json -b 1M --topology " + file.path()).output);
  EXPECT_EQ(simulated["ranks"], 22);
  EXPECT_GT(simulated["algorithms"].size(), 4u);
  EXPECT_THAT(tutti("topo place --mesh dp11.tp2 --topology " + file.path()).output,
              AllOf(ContainsRegex("host 1 +gpu 0-7: ranks"), ContainsRegex("host 4 +gpu 0-1: ranks")));
}

TEST(Tool, ShowsAMachine) {
  const std::string machine = std::string(TUTTI_SOURCE_DIRECTORY) + "/tests/topology/machines/two-packages.xml";
  if (tutti("--version").output.find("hwloc: tutti topo cannot") != std::string::npos) {
    expect_usage("topo", "hwloc was not found; install libhwloc-dev");
    return;
  }
  EXPECT_THAT(tutti("topo " + machine).output, HasSubstr("node7: 2 packages, 2 NUMA nodes, 4 cores, 8 threads, 1 GPU"));
  EXPECT_EQ(json::parse(tutti("topo --json " + machine).output)["parts"][0]["kind"], "package");
  const Ended here = tutti::testing::shell("HWLOC_SYNTHETIC='pack:3 core:2 pu:1' " TUTTI_TOOL " topo");
  EXPECT_THAT(here.output, HasSubstr("3 x package 0-2\n"));
  expect_usage("topo no-such.xml", "no-such.xml is no machine that hwloc can read");
}

TEST(Tool, ReadsAClusterFromItsOwnText) {
  const std::string text = tutti("topo wan-4-sites:8 --text").output;
  const TextFile file(text);
  EXPECT_EQ(tutti("topo " + file.path() + " --text").output, text);
  const TextFile as_json(tutti("topo wan-4-sites:8 --json").output);
  EXPECT_EQ(tutti("topo " + as_json.path() + " --text").output, text);
  const TextFile wrong("device gpu 8\nlink gpu gpu each 1 GB/s\n");
  expect_usage("topo " + wrong.path(), ".json:2:25: here belongs a latency, such as 1.5 us");
  expect_usage("topo dgx-h10", "did you mean dgx-h100 or dgx-a100?");
  expect_usage("topo dgx-h100 --route 0 8", "8 is no rank of dgx-h100, which has 8");
  expect_usage("topo --text", "--route and --text are for clusters: name one");
  expect_usage("topo " + std::string(5000, 'x'), "no topology 'xxx");
}

TEST(Tool, FindsClustersWhereAFolderHasTheirName) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tutti-tools-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "dgx-h100");
  EXPECT_THAT(tutti::testing::shell("cd " + folder.string() + " && " TUTTI_TOOL " topo dgx-h100").output,
              HasSubstr("dgx-h100: 1 host, 8 ranks on gpu\n"));
  std::filesystem::remove_all(folder);
}

TEST(Tool, TellsAWayAndTheListOfClustersInJson) {
  const json way = json::parse(tutti("topo dgx-h100:2 --route 0 8 --json").output);
  EXPECT_EQ(way["links"].size(), 4u);
  EXPECT_EQ(way["links"][2]["link"], "leaf 0 to ndr 0 of host 1");
  EXPECT_EQ(way["links"][2]["bytes_per_s"], 50e9);
  EXPECT_EQ(json::parse(tutti("topo --list --json").output)[0]["ranks_per_host"].is_number(), true);
  EXPECT_THAT(tutti("topo dgx-h100:2 --route 0 0").output, HasSubstr("rank 0 to rank 0: itself, over no link"));
  expect_usage("topo dgx-h100:2 --route 0 9 --svg x.svg", "leave --svg and --text away");
}

TEST(Tool, DrawsNamesThatAreNotUtf8) {
  const TextFile file("topology caf\xe9\x01<\xc3\xa9\ndevice gpu 2\nbridge b 1\nlink gpu b each 1 GB/s 1 us\n");
  const std::string picture = file.path() + ".svg";
  EXPECT_EQ(tutti("topo " + file.path() + " --svg " + picture).exit_code, 0);
  std::ifstream stream(picture);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  std::filesystem::remove(picture);
  EXPECT_THAT(text, HasSubstr("caf\xEF\xBF\xBD\xEF\xBF\xBD&lt;\xc3\xa9"));
}

TEST(Tool, PlacesWhatIsACollective) {
  EXPECT_THAT(tutti("topo place --mesh dp1.tp1 --topology dgx-h100:1").output, Not(HasSubstr("nan")));
  expect_usage("topo place --mesh dp2.tp8 --topology dgx-h100:2 --traffic tp=send_recv:1M",
               "send_recv is between two ranks");
}

TEST(Tool, SimulatesOnAClusterThatIsNotThere) {
  const Ended all = tutti("sim all_reduce --topology dgx-h100:2 -b 16M");
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_THAT(all.output, AllOf(HasSubstr("among 16 ranks of dgx-h100:2"), ContainsRegex("hierarchical .* 1.00\n"),
                                Not(HasSubstr("staged"))));
  const Ended one = tutti("sim all_reduce --topology dgx-h100:2 -b 16M -a ring");
  EXPECT_THAT(one.output, AllOf(ContainsRegex("time +[0-9.]+ us"), HasSubstr("the busiest links"),
                                ContainsRegex("ndr 7 of host 0 to leaf 7 +50 GB/s"), HasSubstr("who waited for whom")));
  const auto seconds = [](const std::string& more) {
    const std::string text = tutti("sim all_reduce --topology cpu-10gbe:2 -b 1M -a ring --json " + more).output;
    return json::parse(text)["algorithms"][0]["seconds"].get<double>();
  };
  EXPECT_EQ(seconds(""), seconds(""));
  EXPECT_GT(seconds("--straggler 15:100x"), 2 * seconds(""));
  EXPECT_GT(seconds("--reduce 1"), seconds(""));
  EXPECT_NE(seconds("--skew 1000 --seed 1"), seconds("--skew 1000 --seed 2"));
}

TEST(Tool, PricesAlgorithmsOverSizes) {
  const Ended table = tutti("cost all_reduce --topology dgx-h100:2 -b 1K -e 16M -f 16");
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_THAT(table.output,
              AllOf(HasSubstr("all_reduce among 16 ranks of dgx-h100:2, times in us"),
                    ContainsRegex("from +16 KB +recursive_doubling"), ContainsRegex("from .* recursive_halving")));
  const json sizes = json::parse(tutti("cost all_gather --topology cpu-10gbe:2 -b 64K -e 64K --json").output)["sizes"];
  ASSERT_EQ(sizes.size(), 1u);
  const std::string quickest = sizes[0]["quickest"];
  for (const auto& [name, seconds] : sizes[0]["seconds"].items())
    EXPECT_GE(seconds, sizes[0]["seconds"][quickest]) << name;
  expect_usage("cost all_reduce --topology dgx-h100:2 -b 2M -e 1M", "-b must not be above -e");
}

TEST(Tool, RefusesToSimulateWhatCannotBe) {
  expect_usage("sim all_reduce --topology dgx-h100:2 -a staged", "no algorithm 'staged' of messages for all_reduce");
  expect_usage("sim all_redus --topology dgx-h100:2",
               "no verb 'all_redus'; did you mean all_reduce? there are: all_reduce");
  expect_usage("sim all_reduce --topology dgx-h100:2 -n 17", "-n must be 1 to 16, the ranks of dgx-h100");
  expect_usage("sim all_reduce --topology dgx-h100:2 --straggler 5", "RANK:FACTOR belongs there, such as 5:2x");
  expect_usage("sim all_reduce --topology dgx-h100:2 --straggler 16:2x", "rank 16 cannot be a straggler");
  expect_usage("sim broadcast --topology dgx-h100:2 --root 16", "--root must be 0 to 15");
}

TEST(Tool, ExportsForOtherSimulators) {
  const Ended goal = tutti("export all_reduce -a exchange -n 2 -b 1K");
  EXPECT_EQ(goal.exit_code, 0);
  EXPECT_THAT(goal.output, HasSubstr("num_ranks 2\n\nrank 0 {\nl1: send 1024b to 1 tag 0\n"));
  EXPECT_EQ(tutti("export all_reduce -a ring -n 3 --format json").output,
            tutti("show all_reduce -a ring -n 3 --json").output);
  expect_usage("export all_reduce -a staged -n 2", "reaches into others' memory");
  for (const char* verb : {"all_reduce", "broadcast", "barrier", "all_to_all"})
    EXPECT_EQ(tutti(std::string("export ") + verb + " -n 4").exit_code, 0) << verb;
  EXPECT_THAT(tutti("export all_gather -a ring -n 64 -b 100").output,
              AllOf(HasSubstr("send 4b"), Not(HasSubstr("send 0b"))));
  expect_usage("export all_reduce -a ring -n 2 -o /no/such/folder/file", "cannot write /no/such/folder/file");
}

TEST(Tool, DemoRunsToItsEnd) {
  const Ended ended = tutti("demo --quick -n 2");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("every element on every rank equals the plain sum"));
  for (const char* row : {"8 B  shared memory", "symmetric memory", "TCP", "GB/s"})
    EXPECT_THAT(ended.output, HasSubstr(row));
  EXPECT_THAT(ended.output, HasSubstr("Next\n"));
}

}  // namespace
