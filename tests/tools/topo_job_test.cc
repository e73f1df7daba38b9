// tutti topo among the ranks of a job: what it measures, prints and writes. How fast anything was does not matter here.
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

}  // namespace
