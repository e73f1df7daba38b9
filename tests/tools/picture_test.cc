// Pictures that the command writes: what is in them, read as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "shell.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tutti::testing::count_of;
using tutti::testing::Ended;

// Runs the command with --svg and a file, and gives what is in the file.
std::string picture(const std::string& arguments) {
  const auto path = std::filesystem::temp_directory_path() / ("tutti-picture-" + std::to_string(::getpid()) + ".svg");
  const Ended ended = tutti::testing::shell(TUTTI_TOOL " " + arguments + " --svg " + path.string());
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  EXPECT_TRUE(text.starts_with("<svg ") && text.ends_with("</svg>\n")) << text.substr(0, 100);
  return text;
}

TEST(Pictures, OfAScheduleHaveAnArrowForEveryMessage) {
  const std::string ring = picture("show all_reduce -a ring -n 4");
  EXPECT_THAT(ring, HasSubstr(">all_reduce by ring, 4 ranks, 7 rounds<"));
  EXPECT_EQ(count_of(ring, "<line "), 4 + 6 * 4) << "of ranks, and of messages in six rounds";
  EXPECT_EQ(count_of(ring, "<polyline "), 6 * 4);
  EXPECT_EQ(count_of(ring, "rank 2 after round 7, block 1: of ranks 0 1 2 3"), 1);
  EXPECT_THAT(ring, HasSubstr("rank 0 after round 1, block 3: of ranks 0<"));
  EXPECT_THAT(ring, HasSubstr("rank 0 after round 2, block 2: of ranks 2 3<")) << "a message that waits counts";
  EXPECT_THAT(ring, AllOf(HasSubstr(">message<"), Not(HasSubstr(">load from a peer<"))));
  EXPECT_THAT(picture("show all_reduce -a staged -n 4"), HasSubstr(">load from a peer<"));
}

TEST(Pictures, OfAPipelineHaveABoxForEveryAction) {
  const std::string text = picture("show pipeline --schedule zb-h1 --stages 3 --microbatches 4");
  EXPECT_THAT(text, HasSubstr(">takes 14, of which 12 are work: a bubble of 16.7 %<"));
  EXPECT_EQ(count_of(text, "weight gradient of micro-batch"), 3 * 4);
  EXPECT_EQ(count_of(text, "stage 2: input gradient of micro-batch 0, from 3 to 4"), 1);
  EXPECT_THAT(text, Not(HasSubstr(">backward<")));
}

TEST(Pictures, AreAskedForAlikeWhereverOneIsDrawn) {
  const std::string job = " --model gpt2 --cluster dgx-h100:2 --strategy dp --micro-batch 1";
  for (const std::string& command : {
           std::string("show broadcast -n 4"),
           std::string("show pipeline --stages 2"),
           std::string("topo dgx-h100:2"),
           std::string("topo place --mesh dp2.tp8 --topology dgx-h100:2"),
           std::string("plan compare zero1 zero3 --model gpt2 --cluster dgx-h100:2"),
           std::string("sim all_reduce --topology dgx-h100:2 -b 1M -a ring"),
           std::string("cost all_reduce --topology dgx-h100:2 -b 1K -e 1M"),
           "plan" + job,
           std::string("plan gamma"),
           std::string("plan scale --gpus 8..16 --model gpt2 --accelerator h100 --global-batch 64"),
           std::string("bench all_reduce -n 2 -b 1K -e 1K --rounds 2 --cell-seconds 0.05"),
           std::string("study bandwidth all_gather --ranks 2 -b 1K -e 4K --rounds 1"),
           std::string("study straggler -n 2 --steps 3 --work-ms 1 -b 1K --rounds 1"),
       }) {
    const std::string drawn = picture(command);
    EXPECT_GT(drawn.size(), 500U) << command;
    EXPECT_EQ(count_of(drawn, "<svg "), count_of(drawn, "</svg>")) << command;
  }
}

TEST(Pictures, OfPlacedMeshesHaveRanksOnDevices) {
  const std::string traffic = " --traffic tp=all_reduce:64Mx100 --traffic dp=all_reduce:1M";
  const std::string text = picture("topo place --mesh tp4.dp3 --topology dgx-h100:2" + traffic);
  EXPECT_THAT(text, AllOf(HasSubstr(">tp4.dp3 on dgx-h100:2: groups of tp, then dp on neighbouring devices, "),
                          HasSubstr("rank 9: tp 3, dp 0; gpu 3 of host 0<"),
                          HasSubstr("rank 2: tp 0, dp 2; gpu 0 of host 1<")));
  EXPECT_EQ(count_of(text, "<title>rank "), 12) << "of 16 devices";
  EXPECT_EQ(count_of(text, "gpu 5 of host 1<"), 1) << "no rank is there";
}

TEST(Pictures, OfTwoPlansHaveTheirPartsInOneScale) {
  const std::string job = " --model gpt3-13b --cluster dgx-a100:8 --strategy dp";
  const std::string text = picture("plan compare zero1 zero3" + job);
  EXPECT_THAT(text, AllOf(HasSubstr(">zero1 and zero3: gpt3-13b<"), HasSubstr(">time of a step<"),
                          HasSubstr("zero3, products: "), Not(HasSubstr("a million tokens"))));
  EXPECT_EQ(count_of(text, "stroke-dasharray"), 2) << "where memory ends";
  const std::string other = picture(
      "plan compare gpus=16 gpus=64 --strategy zero1 --model llama2-7b "
      "--accelerator a100-80 --seq 1 --global-batch 512");
  EXPECT_THAT(other, AllOf(HasSubstr("a million tokens"), HasSubstr("because the local batch fell from 32 to 8")));
}

TEST(Pictures, OfLargeSchedulesHaveBarsOrAreRefused) {
  const std::string bars = picture("show all_gather -a bruck -n 128");
  EXPECT_THAT(bars, HasSubstr("rank 127 at the start: 0 of 128 blocks complete"));
  const Ended refused = tutti::testing::shell(TUTTI_TOOL " show all_to_all -a spread_out -n 400 --svg /dev/null");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("draw fewer ranks"));
}

TEST(Pictures, OfAClusterShowItsFirstHosts) {
  const std::string dgx = picture("topo dgx-h100:64");
  EXPECT_THAT(dgx, HasSubstr("dgx-h100: 64 hosts, 512 ranks on gpu; the first 4 hosts are drawn"));
  // In each of 4 hosts 8 to the nvswitch, 8 to adapters and 8 on to leaves; then 8 leaves to 8 spines, and a legend.
  EXPECT_EQ(count_of(dgx, "<line "), 4 * 24 + 64 + 4);
  EXPECT_THAT(dgx, AllOf(HasSubstr(">8 of 16<"), HasSubstr(">leaf - spine: 200 GB/s, 0.3 us each way<")));
  EXPECT_EQ(count_of(picture("topo wan-4-sites:4"), "<polyline "), 6) << "four sites, each with each";
}

TEST(Pictures, OfEightVerbsAreThoseOfTheDocs) {
  std::ifstream file(TUTTI_SOURCE_DIRECTORY "/docs/cheatsheet.svg");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(picture("show cheatsheet"), docs) << "tutti show cheatsheet --svg docs/cheatsheet.svg draws it anew";
  EXPECT_EQ(count_of(docs, ", reduced<"), 4 + 16 + 4) << "at the root of reduce, everywhere, and a part for each";
}

TEST(Pictures, ThatCannotBeWrittenAreRefused) {
  const Ended ended = tutti::testing::shell(TUTTI_TOOL " topo dgx-h100 --svg /no/such/folder/x.svg");
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.output, HasSubstr("cannot write '/no/such/folder/x.svg'"));
}

TEST(Pictures, OfAMachineAreBoxesInBoxes) {
  if (tutti::testing::shell(TUTTI_TOOL " --version").output.find("hwloc: tutti topo cannot") != std::string::npos)
    GTEST_SKIP() << "built without hwloc";
  const std::string machine = picture("topo " TUTTI_SOURCE_DIRECTORY "/tests/topology/machines/two-packages.xml");
  // One behind all; 1 machine, 2 packages, 2 NUMA nodes, 2 L3, 4 L2, 4 cores, 8 threads, a GPU and a NIC.
  EXPECT_EQ(count_of(machine, "<rect "), 1 + 1 + 2 + 2 + 2 + 4 + 4 + 8 + 1 + 1);
  EXPECT_THAT(machine, HasSubstr(">NVIDIA H100<"));
}

}  // namespace
