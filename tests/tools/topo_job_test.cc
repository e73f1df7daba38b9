// tutti topo among the ranks of a job: what it measures, prints and writes, and where a job's ranks belong. How fast
// anything here was does not matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using tutti::testing::Ended;
using tutti::testing::shell;

// A name for a file, which is removed in the end.
class Name {
 public:
  Name() = default;
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  ~Name() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("tutti-topo-job-" + std::to_string(::getpid()) + ".topology");
};

TEST(Measure, StartsRanksAndPrintsWhatLiesBetweenThem) {
  const json found = json::parse(shell(TUTTI_TOOL " topo --measure -n 2 --json").output);
  EXPECT_EQ(found["ranks"], 2);
  EXPECT_EQ(found["host_of_rank"][0], found["host_of_rank"][1]);
  EXPECT_EQ(found["cores_of_rank"].size(), 2u);
  EXPECT_GT(found["latency_s"][0][1], 0);
  EXPECT_EQ(found["latency_s"][0][1], found["latency_s"][1][0]);
  EXPECT_GT(found["bytes_per_s"][1][0], 0);
}

TEST(Measure, OfAJobOnSeveralHostsIsAFileForTheSimulator) {
  const Name file;
  const std::string rank = "TUTTI_HOSTID=part$((RANK / 2)) exec " TUTTI_TOOL " topo --measure -o " + file.path();
  const Ended measured = shell(TUTTI_TOOL " run -n 4 --no-prefix -- sh -c '" + rank + "'", "2>/dev/null");
  EXPECT_EQ(measured.exit_code, 0);
  EXPECT_THAT(measured.output, AllOf(HasSubstr("4 ranks on 2 hosts:"), HasSubstr("/part1 (ranks 2-3)"),
                                     HasSubstr("latency in us"), HasSubstr("bandwidth in GB/s")));
  EXPECT_THAT(measured.output, ContainsRegex("rank +socket +cache +cores it may run on\n +0 "));
  const Ended shown = shell(TUTTI_TOOL " topo " + file.path());
  EXPECT_THAT(shown.output, HasSubstr("measured: 2 hosts, 4 ranks on rank"));
  const Ended simulated = shell(TUTTI_TOOL " sim all_reduce -b 1M --topology " + file.path());
  EXPECT_EQ(simulated.exit_code, 0) << simulated.output;
  EXPECT_THAT(simulated.output, HasSubstr("among 4 ranks of measured:2"));
}

TEST(Measure, IsAboutSeveralRanks) {
  const auto refused = [](const std::string& arguments) {
    const Ended ended = shell(TUTTI_TOOL " " + arguments);
    EXPECT_EQ(ended.exit_code, 2) << arguments;
    return ended.output;
  };
  EXPECT_THAT(refused("topo --measure"), HasSubstr("tutti topo --measure -n 4, or tutti run -n 4"));
  EXPECT_THAT(refused("topo --measure -n 1"), HasSubstr("-n must be 2 to 256, not 1"));
  EXPECT_THAT(refused("topo dgx-h100 --measure -n 2"), HasSubstr("--measure is about the ranks of a job"));
  EXPECT_THAT(refused("topo dgx-h100 -n 2"), HasSubstr("-n and -o are for --measure"));
}

json placed(const std::string& arguments) {
  const Ended ended = shell(TUTTI_TOOL " topo place --json " + arguments);
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  return json::parse(ended.output);
}

double quickest(const std::string& arguments) {
  return json::parse(shell(TUTTI_TOOL " sim --json " + arguments).output)["algorithms"][0]["seconds"];
}

TEST(Place, OfOneDimensionIsWhatTheSimulatorSays) {
  for (const std::string verb : {"all_reduce", "all_gather", "all_to_all"}) {
    const json found = placed("--mesh x16 --topology dgx-h100:2 --traffic x=" + verb + ":16M");
    EXPECT_NEAR(found["placements"][0]["seconds"], quickest(verb + " --topology dgx-h100:2 -b 16M"), 1e-9) << verb;
  }
}

TEST(Place, GroupsOnHostsOfTheirOwnAreNotInEachOthersWay) {
  const json found =
      placed("--mesh dp2.tp8 --topology dgx-h100:2 --traffic tp=all_reduce:64Mx100 --traffic dp=all_reduce:1M");
  const json& best = found["placements"][0];
  EXPECT_EQ(best["nearest_first"], json({"tp", "dp"}));
  EXPECT_NEAR(best["dimensions"]["tp"]["seconds"], quickest("all_reduce --topology dgx-h100:1 -b 64M"), 1e-9);
  EXPECT_NEAR(
      best["seconds"],
      100 * best["dimensions"]["tp"]["seconds"].get<double>() + best["dimensions"]["dp"]["seconds"].get<double>(),
      1e-9);
  EXPECT_EQ(found["seconds_as_numbered"], best["seconds"]);
}

TEST(Place, PutsTheBusiestDimensionInsideHosts) {
  const std::string traffic = " --topology dgx-h100:2 --traffic tp=all_reduce:64Mx100 --traffic dp=all_reduce:1M";
  const json found = placed("--mesh tp8.dp2" + traffic);
  const json& best = found["placements"][0];
  EXPECT_EQ(best["nearest_first"], json({"tp", "dp"}));
  EXPECT_LT(best["seconds"], found["seconds_as_numbered"]);
  for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(best["device_of_rank"][rank], rank % 2 * 8 + rank / 2) << rank;
  EXPECT_THAT(shell(TUTTI_TOOL " topo place --mesh tp8.dp2" + traffic).output,
              AllOf(HasSubstr("quickest: groups of tp, then dp on neighbouring devices; "),
                    HasSubstr("gpu 0-7: ranks 0 2 4 6 8 10 12 14\n"), HasSubstr("tutti run --map-by node")));
}

// Some groups lie inside a host and some across two.
TEST(Place, PlaysGroupsThatLieDifferentlyOnHosts) {
  const json found =
      placed("--mesh dp5.tp3 --topology dgx-h100:2 --traffic tp=all_reduce:1M --traffic dp=all_gather:1M");
  const json& numbered = found["placements"][0];
  EXPECT_GT(numbered["dimensions"]["tp"]["seconds"].get<double>(),
            quickest("all_reduce --topology dgx-h100:1 -n 3 -b 1M") - 1e-9);
}

TEST(Place, RefusesWhatIsNoMesh) {
  const auto refused = [](const std::string& arguments) {
    const Ended ended = shell(TUTTI_TOOL " topo place --topology dgx-h100:2 " + arguments);
    EXPECT_EQ(ended.exit_code, 2) << arguments;
    return ended.output;
  };
  for (const std::string mesh : {"dp", "8", "dp2..tp8", "dp0", "dp2.dp8", "a1.b1.c1.d1.e1"})
    EXPECT_THAT(refused("--mesh " + mesh), HasSubstr("such as dp2.tp8")) << mesh;
  EXPECT_THAT(refused("--mesh dp3.tp8"), HasSubstr("dp3.tp8 is more than the 16 devices of dgx-h100:2"));
  EXPECT_THAT(refused("--mesh dp2 --traffic tp=all_reduce:1M"), HasSubstr("the mesh has no dimension 'tp'"));
  EXPECT_THAT(refused("--mesh dp2 --traffic dp=all_redus:1M"), HasSubstr("did you mean all_reduce?"));
  EXPECT_THAT(refused("--mesh dp2 --traffic dp=all_reduce"), HasSubstr("DIMENSION=VERB:BYTES belongs there"));
  EXPECT_THAT(refused("--mesh dp2 --traffic dp=all_reduce:1Mx0"), HasSubstr("behind the x belongs how often"));
}

}  // namespace
