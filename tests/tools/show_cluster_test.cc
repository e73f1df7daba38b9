// tutti show topology and tutti show buckets, as a user meets them: text, pictures, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "shell.h"

namespace tutti::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Ended show(const std::string& arguments) { return shell(std::string(TUTTI_TOOL) + " show " + arguments); }

// What the command draws into the file that --svg names.
std::string picture_of(const std::string& arguments) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tutti-show-" + std::to_string(::getpid()) + ".svg")).string();
  EXPECT_EQ(show(arguments + " --svg " + path).exit_code, 0) << arguments;
  const std::string text = shell("cat " + path).output;
  std::filesystem::remove(path);
  return text;
}

TEST(ShowTopology, DrawsHostsAsBoxesUnderTheirSwitches) {
  const Ended ended = show("topology dgx-h100:2");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  const std::string& text = ended.output;
  EXPECT_THAT(text, AllOf(HasSubstr("┌─ host 0 ─"), HasSubstr("┌─ host 1 ─"), HasSubstr("gpu      0 1 2 3 4 5 6 7"),
                          HasSubstr("gpu      8 9 10 11 12 13 14 15"), HasSubstr("gpu - nvswitch"),
                          HasSubstr("450 GB/s, 0.4 us")));
  const std::size_t spine = text.find("8 spine"), leaf = text.find("8 leaf"), host = text.find("host 0"),
                    gpu = text.find("gpu ", host);
  EXPECT_TRUE(spine < leaf && leaf < host && host < gpu && gpu != std::string::npos) << "from above\n" << text;
  EXPECT_THAT(show("topology dgx-h100:32").output, AllOf(HasSubstr("and 30 more hosts"), Not(HasSubstr("host 2"))));
  EXPECT_THAT(show("topology cpu-10gbe:1").output,
              AllOf(Not(HasSubstr("more hosts")), HasSubstr("core     0 1 2 3 .. 15 ")));
  EXPECT_THAT(picture_of("topology dgx-h100:2"), AllOf(HasSubstr("<svg "), HasSubstr("nvswitch")));
}

TEST(ShowTopology, OfNoClusterIsRefused) {
  EXPECT_EQ(show("topology").exit_code, 2);
  const Ended ended = show("topology dgx-h10");
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.output, HasSubstr("dgx-h10"));
}

constexpr const char* kJob = "buckets --model gpt2 --cluster dgx-a100:2 --micro-batch 4 --global-batch 64 --seq 1024 ";

TEST(ShowBuckets, MarksWhatBackwardDoesNotHide) {
  const Ended ended = show(kJob + std::string("--strategy dp"));
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(ContainsRegex("backward +-+\n"), ContainsRegex("bucket 0 .* [.]*=+\n"),
                                  ContainsRegex("bucket 8 .*#+\n"), ContainsRegex("[0-9.]+ ms exposed\n$")));
  const std::string one = show(kJob + std::string("--strategy dp --bucket 1000")).output;
  EXPECT_THAT(one, AllOf(HasSubstr("bucket 0"), Not(HasSubstr("bucket 8")), ContainsRegex("bucket 0 .*#{5,}")));
  EXPECT_THAT(picture_of(kJob + std::string("--strategy dp")), AllOf(HasSubstr("<svg "), HasSubstr("bucket 8")));
}

TEST(ShowBuckets, OfWhatHasNoneAreRefused) {
  const auto refused = [](const std::string& more, const std::string& words) {
    const Ended ended = show(kJob + more);
    EXPECT_EQ(ended.exit_code, 2) << more;
    EXPECT_THAT(ended.output, HasSubstr(words));
  };
  refused("--strategy zero3", "has no buckets");
  refused("--strategy auto", "such as --strategy dp");
}

}  // namespace
}  // namespace tutti::testing
