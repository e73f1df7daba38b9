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
  const std::string alone = "sim exclusive_scan --topology dgx-h100:1 -n 1 -a recursive_doubling --json";
  EXPECT_FALSE(json::parse(tutti(alone).output)["algorithms"][0].contains("critical_path")) << "there is no step";
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
  expect_refused("sim all_reduce --topology dgx-h100:2 --background 8:1", "4 KB at least");
}

TEST(SimTool, ChecksRanksAndRootBeforeAllElse) {
  for (const char* verb : {"sim", "cost"}) {
    expect_refused(std::string(verb) + " broadcast --topology dgx-h100:2 --root 99", "--root must be 0 to 15");
    expect_refused(std::string(verb) + " reduce --topology dgx-h100:2 -n 3 --root -1", "--root must be 0 to 2");
    expect_refused(std::string(verb) + " send_recv --topology dgx-h100:2 -n 8", "between two ranks: use -n 2, not 8");
  }
}

TEST(SimTool, TakesNumbersAndNothingElse) {
  const std::string call = "sim all_reduce --topology dgx-h100:2 -a ring ";
  expect_refused(call + "--skew nan", "--skew: a number from 0 to 1e+12 belongs there, not 'nan'");
  expect_refused(call + "--skew -1", "--skew: a number from 0 to 1e+12 belongs there, not '-1'");
  expect_refused(call + "--reduce nan", "--reduce: a number from 1e-06");
  expect_refused(call + "--copy inf", "--copy: a number from 1e-06");
  expect_refused("cost all_reduce --topology dgx-h100:2 -f nan", "a number from 1.01 to 1e+06");
  expect_refused("export all_reduce -a ring -n 2 --reduce nan", "--reduce: a number from 1e-06");
  expect_refused("export all_reduce -a ring -n 2 --reduce 1e-300", "--reduce: a number from 1e-06");
}

TEST(SimTool, DrawsWhatTakesNoTime) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("tutti-no-time-test-" + std::to_string(::getpid()) + ".svg");
  for (const char* verb : {"sim", "cost"}) {
    EXPECT_EQ(tutti(std::string(verb) + " all_reduce --topology dgx-h100:1 -n 1 --svg " + file.string()).exit_code, 0);
    std::ifstream stream(file);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    EXPECT_THAT(text, AllOf(EndsWith("</svg>\n"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
    std::filesystem::remove(file);
  }
}

// All that is sent at once follows from how a vector is cut, which both commands do alike.
TEST(SimTool, CutsVectorsAsPlacementDoes) {
  const json placed = json::parse(tutti("topo place --mesh dp16 --topology dgx-h100:2 --json").output);
  const json& phase = placed["placements"][0]["dimensions"]["dp"];
  const std::string algorithm = phase["algorithm"];
  const json row =
      json::parse(tutti("sim all_reduce --topology dgx-h100:2 -b 2G --json -a " + algorithm).output)["algorithms"][0];
  EXPECT_NEAR(row["seconds"].get<double>(), phase["seconds"].get<double>(), 1e-9);
  EXPECT_EQ(row["segments"], 64);
  EXPECT_EQ(row["segment_bytes"], 32 << 20);
}

TEST(SimTool, AsksNoLatencyOfARingBeyondItsSteps) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("tutti-one-switch-test-" + std::to_string(::getpid()) + ".topology");
  std::ofstream(file) << "hosts 4000\ndevice cpu 1\nswitch s 1\nlink cpu s each 10 GB/s 1 us\n";
  const json row =
      json::parse(tutti("sim all_reduce -b 1G -a ring --json --topology " + file.string()).output)["algorithms"][0];
  std::filesystem::remove(file);
  const double closed_form = 2 * 3999 * 2e-6 + 2 * 3999.0 / 4000 * (1 << 30) / 10e9;
  EXPECT_NEAR(row["seconds"].get<double>(), closed_form, 0.1 * closed_form);
}

TEST(SimTool, ListsEachSizeOnce) {
  const char* call = "cost all_reduce --topology dgx-h100:1 -b 1 -e 8 -f 1.5 --json";
  const json sizes = json::parse(tutti(call).output)["sizes"];
  for (std::size_t i = 1; i < sizes.size(); ++i) EXPECT_GT(sizes[i]["bytes"], sizes[i - 1]["bytes"]);
}

}  // namespace
