// The command on machines with a GPU, which the fake driver stands for: `tutti bench` on its memory, and `tutti topo`.
// No test asks how fast anything was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

TEST(BenchOnADevice, WhatCannotBeIsTold) {
  EXPECT_THAT(shell(std::string(kFake) + "bench all_reduce --memory device --buffers both").output,
              HasSubstr("one kind of buffers"));
  const Ended without = shell(std::string(kWithout) + "bench all_reduce -n 2 -b 64 -e 64 --memory device");
  EXPECT_NE(without.exit_code, 0);
  EXPECT_THAT(without.output, HasSubstr("TUTTI_CUDA_DRIVER turns devices off"));
}

TEST(TopoOfADevice, TellsHowRanksReachIt) {
  const Ended shared = shell(std::string(kFake) + "topo --measure -n 2");
  EXPECT_EQ(shared.exit_code, 0) << shared.output;
  EXPECT_THAT(shared.output, AllOf(HasSubstr("GPU 0 of every rank: all ranks share it"), HasSubstr("of 64 MB at ")));
  const json told = json::parse(shell(std::string(kFake) + "topo --measure -n 2 --json").output);
  EXPECT_EQ(told["gpu"]["way"], "one_launch");
  EXPECT_GT(told["gpu"]["bytes_per_s"], 0);
  const Ended staged =
      shell("TUTTI_CUDA_DRIVER=" TUTTI_FAKE_CUDA " TUTTI_NVRTC=none " TUTTI_TOOL " topo --measure -n 2");
  EXPECT_THAT(staged.output, HasSubstr("GPU 0 of every rank: through host memory, by "));
  const Ended without = shell(std::string(kWithout) + "topo --measure -n 2");
  EXPECT_EQ(without.exit_code, 0) << without.output;
  EXPECT_THAT(without.output, Not(HasSubstr("GPU")));
}

}  // namespace
