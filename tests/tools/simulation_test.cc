// `tutti sim` and `tutti cost` as a user meets them: trouble, folding, pictures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
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
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using tutti::testing::Ended;

Ended tutti(const std::string& arguments) {
  return tutti::testing::shell(std::string(TUTTI_TOOL) + " " + arguments, "2>&1");
}

void expect_refused(const std::string& arguments, const std::string& complaint) {
  const Ended ended = tutti(arguments);
  EXPECT_EQ(ended.exit_code, 2) << arguments;
  EXPECT_THAT(ended.output, HasSubstr(complaint)) << arguments;
}

TEST(SimTool, SimulatesTroubleAndTellsWhatItDid) {
  const std::string call = "sim all_reduce --topology dgx-h100:2 -b 16M -a ring ";
  const auto simulated = [&](const std::string& more) {
    return json::parse(tutti(call + "--json " + more).output)["algorithms"][0];
  };
  const json even = simulated("");
  const json slow = simulated("--slow-link 'ndr 7 of host 0 and leaf 7:4x'");
  EXPECT_GT(slow["seconds"], 2 * even["seconds"].get<double>());
  EXPECT_EQ(slow["busiest_links"][0]["link"], "ndr 7 of host 0 to leaf 7");
  EXPECT_GT(simulated("--background 32:4M")["seconds"], even["seconds"].get<double>());
  EXPECT_EQ(simulated("--failed-link 'leaf 7 and spine 0'")["seconds"].is_number(), true);
  const json late = simulated("--straggler 3:50x");
  EXPECT_EQ(late["longest_waits"][0]["rank"], 4);
  EXPECT_EQ(late["longest_waits"][0]["peer"], 3);
  const json path = late["critical_path"];
  double sum = path["begin_s"].get<double>();
  for (const char* part : {"computing_s", "queueing_s", "sending_s", "sharing_s", "latency_s"})
    sum += path["spent"][part].get<double>();
  EXPECT_NEAR(sum, late["seconds"].get<double>(), 1e-5 * sum);
  EXPECT_THAT(tutti(call + "--straggler 3:50x").output,
              AllOf(ContainsRegex("rank 4 for a message of rank 3"), HasSubstr("the critical path, "),
                    ContainsRegex("events \\([0-9.e+]+ million/s\\)"), ContainsRegex("at most [0-9.]+ MB of memory"),
                    Not(HasSubstr("folded"))));
}

TEST(SimTool, SimulatesRanksThatFareAlikeOnce) {
  const std::string call = "sim all_reduce --topology cpu-10gbe:600 -a recursive_doubling -n 512 -b 4M ";
  EXPECT_THAT(tutti(call).output, ContainsRegex("folded: [0-9]+ of 512 ranks stand for all"));
  const auto seconds = [&](const std::string& more) {
    return json::parse(tutti(call + "--json " + more).output)["algorithms"][0]["seconds"].get<double>();
  };
  EXPECT_NEAR(seconds(""), seconds("--unfolded"), 1e-9 * seconds(""));
}

TEST(SimTool, DrawsWhatItHasSimulated) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("tutti-simulation-test-" + std::to_string(::getpid()) + ".svg");
  const auto picture = [&](const std::string& command) {
    EXPECT_EQ(tutti(command + " --plot " + file.string()).exit_code, 0) << command;
    std::ifstream stream(file);
    std::string text(std::istreambuf_iterator<char>(stream), {});
    std::filesystem::remove(file);
    return text;
  };
  EXPECT_THAT(picture("sim broadcast --topology dgx-h100:2 -b 16M -a binomial --reduce 100"),
              AllOf(StartsWith("<svg"), EndsWith("</svg>\n"), HasSubstr("rank 15"), HasSubstr("rank 0 sends to rank 8"),
                    HasSubstr("critical path")));
  EXPECT_THAT(picture("cost all_reduce --topology dgx-h100:2 -b 1K -e 16M -f 16"),
              AllOf(StartsWith("<svg"), EndsWith("</svg>\n"), HasSubstr(">recursive_halving</text>"),
                    HasSubstr("4 MB: recursive_halving is the quickest")));
  expect_refused("cost all_reduce --topology dgx-h100:2 --plot /nowhere/x.svg", "cannot write");
}

TEST(SimTool, SaysNothingOddOfCallsThatMoveNothing) {
  EXPECT_THAT(tutti("sim all_reduce --topology dgx-h100:1 -n 1").output, Not(ContainsRegex("nan|inf ")));
  EXPECT_THAT(tutti("sim all_reduce --topology dgx-h100:1 -n 1 -a ring").output, Not(ContainsRegex("nan|inf ")));
  const json barrier = json::parse(tutti("sim barrier --topology dgx-h100:1 -b 64M --json").output);
  EXPECT_EQ(barrier["bytes"], 0);
  EXPECT_NEAR(barrier["algorithms"][0]["seconds"].get<double>(), 3 * 0.8e-6, 1e-9);
}

TEST(SimTool, LeavesOutWhatTakesMinutesUnlessItIsNamed) {
  EXPECT_THAT(tutti("sim all_gather --topology cpu-10gbe:100 -n 16 -b 64K").output, Not(HasSubstr("left out")));
  const Ended ended = tutti("sim all_to_all --topology dgx-h100:128 -b 64K");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.output,
              AllOf(ContainsRegex("  bruck +[0-9.]+ [um]s"), ContainsRegex("left out, .*: .*spread_out")));
}

TEST(SimTool, SaysInJsonWhatItLeftOut) {
  for (const char* command : {"sim all_to_all --topology dgx-h100:96 -b 64K --json",
                              "cost all_to_all --topology dgx-h100:96 -b 64K -e 64K --json"}) {
    const json left_out = json::parse(tutti(command).output)["left_out"];
    ASSERT_FALSE(left_out.empty()) << command;
    const auto spread_out =
        std::ranges::find_if(left_out, [](const json& row) { return row["algorithm"] == "spread_out"; });
    ASSERT_NE(spread_out, left_out.end()) << command;
    EXPECT_EQ((*spread_out)["edges"], 768 * 767);
    EXPECT_EQ((*spread_out)["most_edges"], 500000);
  }
  EXPECT_TRUE(json::parse(tutti("sim barrier --topology dgx-h100:1 --json").output)["left_out"].empty());
}

TEST(SimTool, RefusesTroubleThatCannotBe) {
  expect_refused("sim all_reduce --topology dgx-h100:2 --slow-link 'leaf 0 to spine 1'",
                 "LINK:FACTOR belongs there, such as");
  expect_refused("sim all_reduce --topology dgx-h100:2 --slow-link 'leaf 0 to spin 1:2x'",
                 "'spin' is no part of dgx-h100; there are: gpu, nvswitch, ndr, leaf, spine");
  expect_refused("sim all_reduce --topology dgx-h100:2 --failed-link 'ndr 0 of host 0 and leaf 0' -a ring",
                 "no way leads from gpu ");
  expect_refused("sim all_reduce --topology dgx-h100:2 --background lots", "FLOWS or FLOWS:BYTES belongs there");
}

}  // namespace
