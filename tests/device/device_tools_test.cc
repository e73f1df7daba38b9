// The command on machines with a GPU, which the fake driver stands for: `tutti bench` on its memory, `tutti tune` and
// `tutti topo`. No test asks how fast anything was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tutti::testing::Ended;
using tutti::testing::shell;

constexpr const char* kFake = "TUTTI_CUDA_DRIVER=" TUTTI_FAKE_CUDA " TUTTI_NVRTC=" TUTTI_FAKE_CUDA " " TUTTI_TOOL " ";
constexpr const char* kWithout = "TUTTI_CUDA_DRIVER=none " TUTTI_TOOL " ";

TEST(BenchOnADevice, TimesEveryKindOfVerb) {
  const auto file = std::filesystem::temp_directory_path() / ("device-bench-" + std::to_string(::getpid()) + ".json");
  const Ended ended = shell(std::string(kFake) +
                            "bench all_reduce,all_gather,send_recv -n 2 -b 64 -e 4K -f 64 --memory device --rounds 2 "
                            "--cell-seconds 0.05 --against limit --json " +
                            file.string());
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("limit is left out: its buffers are in host memory"));
  const json rows = json::parse(std::ifstream(file));
  std::filesystem::remove(file);
  ASSERT_EQ(rows.size(), 10U) << "two sizes, out of place and, but for messages, in place";
  for (const json& row : rows) {
    EXPECT_EQ(row["buffers"], "device");
    EXPECT_EQ(row["wrong"], 0);
    EXPECT_TRUE(row["verb"] == "send_recv" || row["algorithm"] == "one_launch") << row;
  }
}

TEST(BenchOnADevice, DealsTheDevicesOutAmongTheRanks) {
  const auto file = std::filesystem::temp_directory_path() / ("devices-bench-" + std::to_string(::getpid()) + ".json");
  const Ended ended = shell(std::string(kFake) +
                            "bench all_reduce,all_to_all -n 3 -b 64 -e 64 --memory devices --rounds 2 "
                            "--cell-seconds 0.05 --json " +
                            file.string());
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  const json rows = json::parse(std::ifstream(file));
  std::filesystem::remove(file);
  ASSERT_GE(rows.size(), 3U);
  for (const json& row : rows) {
    EXPECT_EQ(row["wrong"], 0);
    EXPECT_TRUE(row["algorithm"] == "own_shares" || (row["verb"] == "all_to_all" && row["in_place"] == true)) << row;
  }
}

TEST(BenchOnADevice, WhatCannotBeIsTold) {
  EXPECT_THAT(shell(std::string(kFake) + "bench all_reduce --memory device --buffers both").output,
              HasSubstr("one kind of buffers"));
  const Ended without = shell(std::string(kWithout) + "bench all_reduce -n 2 -b 64 -e 64 --memory device");
  EXPECT_NE(without.exit_code, 0);
  EXPECT_THAT(without.output, HasSubstr("TUTTI_CUDA_DRIVER turns devices off"));
}

// A quick tune, which keeps what it finds in this file.
json tuned(const std::string& driver, const std::string& file) {
  const Ended ended = shell(driver + "tune --quick -n 2 --json --file " + file, "2>/dev/null");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  return json::parse(ended.output, nullptr, false);
}

TEST(TuneOfADevice, KeepsItsRatesAndTellsThem) {
  const auto folder = std::filesystem::temp_directory_path() / ("device-tune-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string file = folder / "costs.json", rows = folder / "rows.json";
  const json told = tuned(kFake, file);
  ASSERT_TRUE(told.is_object());
  EXPECT_EQ(told["file"], file);
  ASSERT_EQ(told["groups"].size(), 2U);
  const json &memory = told["groups"][0], &streams = told["groups"][1];
  EXPECT_EQ(memory["group"], "2 ranks, shared memory");
  EXPECT_GT(memory["device"]["launch_s"], 0);
  EXPECT_EQ(streams["device"]["launch_s"], 0) << "ranks that share no memory launch nothing for each other";
  for (const json& group : {memory, streams}) {
    for (const char* rate : {"to_host_s", "to_host_bytes_per_s", "to_device_s", "to_device_bytes_per_s"})
      EXPECT_GT(group["device"][rate], 0) << rate;
    EXPECT_GE(group["device_error"], 1);
    EXPECT_TRUE(group["why_no_device"].is_null());
  }
  int launched = 0, staged = 0;
  for (const json& call : memory["calls"]) {
    EXPECT_GT(call["predicted_us"], 0) << call;
    if (call["memory"] == "device") ++(call["algorithm"] == "one_launch" ? launched : staged);
  }
  EXPECT_GT(launched, 0);
  EXPECT_GT(staged, 0);

  json costs = json::parse(std::ifstream(file));
  const auto survey = std::ranges::find(costs["surveys"], "memory", [](const json& each) { return each["kind"]; });
  ASSERT_NE(survey, costs["surveys"].end());
  EXPECT_EQ((*survey)["device"], memory["device"]) << "what is kept is what is told";
  // A launch of a picosecond, so that whose price it is shows.
  (*survey)["device"]["launch_s"] = 1e-12;
  (*survey)["device"]["touch_bytes_per_s"] = 1e30;
  std::ofstream(file) << costs;
  const Ended ended =
      shell("TUTTI_COSTS=" + file + " " + kFake +
            "bench all_reduce -n 2 -b 64 -e 64 --memory device --rounds 1 --iterations 1 --json " + rows);
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  for (const json& row : json::parse(std::ifstream(rows))) {
    EXPECT_EQ(row["algorithm"], "one_launch") << row;
    EXPECT_LT(row["predicted_us"], 1e-5) << row;
  }
  (*survey)["device"].erase("launch_s");
  std::ofstream(file) << costs;
  const Ended refused =
      shell("TUTTI_COSTS=" + file + " " + kFake + "bench all_reduce -n 2 -b 64 -e 64 --memory device");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.output, HasSubstr("rates of a device: 'launch_s' is not a number"));
  std::filesystem::remove_all(folder);
}

TEST(TuneOfADevice, IsATableForPeople) {
  const auto file = std::filesystem::temp_directory_path() / ("device-table-" + std::to_string(::getpid()));
  const Ended ended = shell(std::string(kFake) + "tune --quick -n 2 --show --file " + file.string());
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(tutti::testing::count_of(ended.output, "GPU 0 of every rank:"), 2) << ended.output;
  for (const char* words : {"one launch for all", "no launch for all: calls go through host memory", "read and written",
                            "staging to the host", "staging to the device", "a copy within it",
                            "predictions of calls on its memory are off by a factor of ", "one_launch          device"})
    EXPECT_THAT(ended.output, HasSubstr(words));
  EXPECT_THAT(shell(std::string(TUTTI_TOOL) + " tune --help").output, HasSubstr("Where ranks have a GPU"));
  std::filesystem::remove(file);
}

TEST(TuneOfADevice, WithoutOneThereIsNone) {
  const auto file = std::filesystem::temp_directory_path() / ("device-none-" + std::to_string(::getpid()));
  const json told = tuned(kWithout, file);
  ASSERT_TRUE(told.is_object());
  for (const json& group : told["groups"]) {
    EXPECT_TRUE(group["device"].is_null());
    EXPECT_TRUE(group["why_no_device"].is_null());
    for (const json& call : group["calls"]) EXPECT_EQ(call["memory"], "host");
  }
  const json costs = json::parse(std::ifstream(file));
  EXPECT_EQ(costs["surveys"].size(), 2U);
  for (const json& survey : costs["surveys"]) EXPECT_FALSE(survey.contains("device"));
  std::filesystem::remove(file);
}

TEST(TopoOfADevice, TellsHowRanksReachIt) {
  const Ended shared = shell(std::string(kFake) + "topo --measure -n 2");
  EXPECT_EQ(shared.exit_code, 0) << shared.output;
  EXPECT_THAT(shared.output, AllOf(HasSubstr("GPU 0 of every rank: all ranks share it"), HasSubstr("of 64 MB at "),
                                   HasSubstr("a GPU to each rank: each does its share by a kernel of its own")));
  const json told = json::parse(shell(std::string(kFake) + "topo --measure -n 2 --json").output);
  EXPECT_EQ(told["gpu"]["way"], "one_launch");
  EXPECT_EQ(told["own_gpus"]["way"], "own_shares");
  EXPECT_GT(told["gpu"]["bytes_per_s"], 0);
  const Ended staged =
      shell("TUTTI_CUDA_DRIVER=" TUTTI_FAKE_CUDA " TUTTI_NVRTC=none " TUTTI_TOOL " topo --measure -n 2");
  EXPECT_THAT(staged.output,
              AllOf(HasSubstr("GPU 0 of every rank: through host memory, by "), Not(HasSubstr("a GPU to each"))));
  const Ended without = shell(std::string(kWithout) + "topo --measure -n 2");
  EXPECT_EQ(without.exit_code, 0) << without.output;
  EXPECT_THAT(without.output, Not(HasSubstr("GPU")));
}

}  // namespace
