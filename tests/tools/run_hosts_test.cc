// `tutti run --hosts`: all hosts of a job from one of them. The agent of the tests reaches this host by every name, in
// an environment of its own, as ssh does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tools/launch/place.h"
#include "tools/launched.h"

namespace tutti::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class RunHosts : public ::testing::Test {
 protected:
  RunHosts() {
    std::filesystem::create_directory(scratch());
    const std::string script = "#!/bin/sh\nhost=$1\necho \"$@\" >>" + asked() +
                               "\nshift\nexec env -i PATH=\"$PATH\" TMPDIR=" + scratch() + " HOST=$host \"$@\"\n";
    folder_.with("agent", script, 0700);
  }

  std::string agent() const { return folder_.path("agent"); }
  std::string asked() const { return folder_.path("asked"); }
  std::string scratch() const { return folder_.path("scratch"); }
  Words on_two(const Words& options, const Words& program) const {
    Words all{
        "run", "--hosts", "a,b", "--agent", agent(), "--rendezvous", "127.0.0.1:" + std::to_string(tools::free_port()),
        "-n",  "2"};
    all.insert(all.end(), options.begin(), options.end());
    all.emplace_back("--");
    all.insert(all.end(), program.begin(), program.end());
    return all;
  }
  Words shell_on_two(const std::string& script, const Words& options = {}) const {
    return on_two(options, {"sh", "-c", script});
  }
  bool nothing_is_left() const { return std::filesystem::is_empty(scratch()); }

  Folder folder_;
};

// Of lines "[0] here 123".
std::vector<pid_t> numbers_in(const std::string& output) {
  std::vector<pid_t> numbers;
  std::istringstream lines(output);
  for (std::string rank, word; lines >> rank >> word;) lines >> numbers.emplace_back();
  return numbers;
}

constexpr const char* kStays = "echo here $$; exec sleep 120";

TEST_F(RunHosts, RanksOfAllHostsMeet) {
  const LaunchedEnd end = launch(on_two({}, {TUTTI_MEETING_PROBE}));
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  for (const std::string rank : {"[0]", "[1]", "[2]", "[3]"})
    EXPECT_THAT(end.output, HasSubstr(rank + " sum 4 of 4\n"));
  std::ifstream file(asked());
  const std::vector<std::string> words{std::istream_iterator<std::string>(file), {}};
  EXPECT_THAT(words, UnorderedElementsAre("a", "sh", "-s", "b", "sh", "-s")) << "and no token";
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RunHosts, RanksGoOverThemAsAsked) {
  const std::string tells = "echo $LOCAL_RANK on $HOST";
  EXPECT_THAT(launch(shell_on_two(tells)).output,
              AllOf(HasSubstr("[0] 0 on a\n"), HasSubstr("[1] 1 on a\n"), HasSubstr("[2] 0 on b\n")));
  EXPECT_THAT(launch(shell_on_two(tells, {"--map-by", "node"})).output,
              AllOf(HasSubstr("[0] 0 on a\n"), HasSubstr("[1] 0 on b\n"), HasSubstr("[2] 1 on a\n")));
}

TEST_F(RunHosts, WordsAndVariablesOfTuttiArriveAsTheyAre) {
  Launched::Setup setup;
  setup.environment = {{"TUTTI_CHECK", "it's full"}, {"OTHER", "x"}};
  const LaunchedEnd end = launch(on_two({}, {"sh", "-c", "echo \"$1|$TUTTI_CHECK|$OTHER|\"", "sh", "a 'b' $c"}), setup);
  EXPECT_THAT(end.output, HasSubstr("[3] a 'b' $c|it's full||\n")) << end.errors;
}

TEST_F(RunHosts, TheFirstThatFailsDecides) {
  const LaunchedEnd end = launch(shell_on_two("[ $RANK = 3 ] && exit 7; exec sleep 120", {"--grace", "0"}));
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_THAT(end.errors,
              AllOf(HasSubstr("rank 3 "), HasSubstr("tutti run: host b: "), HasSubstr("exited with code 7")));
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RunHosts, ASignalEndsAllOfThem) {
  Launched job(shell_on_two(kStays));
  ASSERT_TRUE(job.shows("here", 4));
  job.signal(SIGTERM);
  EXPECT_EQ(job.finish().exit_code, 128 + SIGTERM);
  for (const pid_t rank : numbers_in(job.output())) EXPECT_TRUE(ends(rank)) << rank;
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RunHosts, NothingGoesOnWhereTheLauncherIsKilled) {
  Launched job(shell_on_two(kStays));
  ASSERT_TRUE(job.shows("here", 4));
  job.signal(SIGKILL);
  const std::vector<pid_t> ranks = numbers_in(job.output());
  ASSERT_EQ(ranks.size(), 4U);
  for (const pid_t rank : ranks) EXPECT_TRUE(ends(rank)) << rank;
}

TEST_F(RunHosts, WhatCannotBeIsRefusedInWords) {
  const auto refused = [&](const Words& options, const char* words) {
    Words all{"run", "--hosts", "a,b"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "true"});
    const LaunchedEnd end = launch(all);
    EXPECT_EQ(end.exit_code, 2) << words;
    EXPECT_THAT(end.errors, HasSubstr(words));
  };
  refused({}, "--hosts needs -n");
  refused({"-n", "1", "--nnodes", "2"}, "leave --nnodes, --node-rank and --token-file out");
  refused({"-n", "1", "--agent", " "}, "--agent needs a command");
  refused({"-n", "1", "--map-by", "moon"}, "--map-by");
  EXPECT_EQ(launch({"run", "--hosts", "a", "--agent", "./no-such-agent", "-n", "1", "--", "true"}).exit_code, 127);
  const LaunchedEnd shown = launch({"run", "--hosts", "a,b", "--dry-run", "-n", "1", "--", "true"});
  EXPECT_THAT(shown.output, AllOf(HasSubstr("ssh -o BatchMode=yes b sh -s"), HasSubstr("--rendezvous' 'a:29400'"),
                                  HasSubstr("echo (hidden)")));
}

}  // namespace
}  // namespace tutti::testing
