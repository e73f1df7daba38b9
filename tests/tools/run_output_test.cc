// `tutti run` and the streams of its ranks: lines behind their rank, never torn, nothing lost; standard input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tools/launched.h"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(RunOutput, LinesStandBehindTheirRank) {
  const LaunchedEnd end = launch(run_shell(3, "echo hello from $RANK; echo trouble of $RANK >&2"));
  EXPECT_EQ(end.exit_code, 0);
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_EQ(count_of(end.output, std::string("[") + rank + "] hello from " + rank + "\n"), 1);
    EXPECT_EQ(count_of(end.errors, std::string("[") + rank + "] trouble of " + rank + "\n"), 1);
  }
  EXPECT_EQ(lines_of(end.output).size(), 3U);
  EXPECT_EQ(lines_of(end.errors).size(), 3U);
}

TEST(RunOutput, AnUnfinishedLastLineIsNotLost) {
  EXPECT_EQ(launch(run_shell(1, "echo one; printf two; printf three >&2")).output, "[0] one\n[0] two\n");
  EXPECT_EQ(launch(run_shell(1, "printf three >&2")).errors, "[0] three\n");
  EXPECT_EQ(launch(run_shell(1, "echo; echo; printf x; kill -9 $$")).output, "[0] \n[0] \n[0] x\n");
}

TEST(RunOutput, LinesAppearWhenTheyAreWritten) {
  Launched job(run_shell(2, "echo up; sleep 60 & wait"));
  EXPECT_TRUE(job.shows("] up\n", 2)) << "while the ranks still run";
  job.signal(SIGTERM);
  job.finish();
}

// Each rank writes numbered lines, cut into pieces that do not end where lines do.
TEST(RunOutput, LinesAreNeverTorn) {
  constexpr int kRanks = 4;
  constexpr int kLines = 2000;
  const LaunchedEnd end = launch(
      {"run", "-n", std::to_string(kRanks), "--", "awk",
       "BEGIN { r = ENVIRON[\"RANK\"]; for (i = 0; i < " + std::to_string(kLines) +
           "; ++i) { printf \"line %d \", i; if (i % 7 == 0) fflush(); for (j = 0; j < i % 61; ++j) printf \"%s\", r; "
           "if (i % 5 == 0) fflush(); printf \" end\\n\" } }"});
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  std::map<char, int> next;
  for (const std::string& line : lines_of(end.output)) {
    ASSERT_THAT(line, StartsWith("[")) << line;
    const char rank = line.at(1);
    const int number = next[rank]++;
    const std::string filling(static_cast<std::size_t>(number % 61), rank);
    ASSERT_EQ(line, std::string("[") + rank + "] line " + std::to_string(number) + " " + filling + " end");
  }
  ASSERT_EQ(next.size(), static_cast<std::size_t>(kRanks));
  for (const auto& [rank, lines] : next) EXPECT_EQ(lines, kLines) << "of rank " << rank;
}

TEST(RunOutput, ALineOfAMegabyteComesInPieces) {
  constexpr std::size_t kBytes = 1 << 20;
  const LaunchedEnd end =
      launch(run_shell(2, "head -c " + std::to_string(kBytes) + " /dev/zero | tr '\\0' $RANK; echo; echo after"));
  std::map<char, std::string> whole;
  for (const std::string& line : lines_of(end.output)) {
    ASSERT_LE(line.size(), (64U << 10) + 4);
    ASSERT_EQ(line[0], '[');
    whole[line[1]] += line.substr(4);
  }
  EXPECT_TRUE(whole['0'] == std::string(kBytes, '0') + "after") << whole['0'].size();
  EXPECT_TRUE(whole['1'] == std::string(kBytes, '1') + "after") << whole['1'].size();
}

TEST(RunOutput, BytesPassAsTheyAre) {
  const LaunchedEnd end = launch(run_shell(1, R"(printf 'a\000b\377\033[1m\r\nc\001')"));
  EXPECT_EQ(end.output, std::string("[0] a\0b\xff\x1b[1m\r\n[0] c\x01\n", 21));
}

TEST(RunOutput, WithoutPrefixTheStreamsAreTheLaunchersOwn) {
  const LaunchedEnd end =
      launch({"run", "-n", "2", "--no-prefix", "--", "sh", "-c", "printf o; printf e >&2; readlink /proc/$$/fd/1 >&2"});
  EXPECT_EQ(end.output, "oo");
  const auto pipes = lines_of(end.errors);
  EXPECT_EQ(count_of(end.errors, "e"), 2 + count_of(end.errors, "pipe:"));
  const std::string pipe =
      end.errors.substr(end.errors.find("pipe:"), end.errors.find('\n') - end.errors.find("pipe:"));
  EXPECT_EQ(count_of(end.errors, pipe), 2) << "both ranks write to the same pipe: " << end.errors;
}

TEST(RunOutput, AReaderThatLeavesEndsTheWriters) {
  Launched::Setup setup;
  setup.close_output = true;
  const LaunchedEnd end = launch({"run", "-n", "2", "--grace", "0", "yes"}, setup);
  EXPECT_EQ(end.exit_code, 128 + SIGPIPE);
  EXPECT_THAT(end.errors, HasSubstr("SIGPIPE: it wrote to a pipe that nobody reads"));
}

Launched::Setup writing_to(const std::string& output_file, const std::string& errors_file = "") {
  Launched::Setup setup;
  setup.output_file = output_file;
  setup.errors_file = errors_file;
  return setup;
}

constexpr const char* kLost =
    "tutti run: cannot write to standard output: No space left on device; output of the ranks was lost\n";

TEST(RunOutput, AFullDiskIsSaidAndTheRanksKeepRunning) {
  const Folder folder;
  const std::string script = "yes | head -c 3000000; echo here > " + folder.path("") + "$RANK";
  const LaunchedEnd end = launch(run_shell(2, script), writing_to("/dev/full"));
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_EQ(end.errors, kLost);
  for (const char* rank : {"0", "1"}) EXPECT_TRUE(std::filesystem::exists(folder.path(rank))) << rank;
  EXPECT_EQ(launch({"run", "-n", "2", "echo", "hi"}, writing_to("/dev/full")).errors, kLost);
}

TEST(RunOutput, AFullDiskDoesNotHideTheRankThatFails) {
  const LaunchedEnd end = launch(run_shell(2, "echo hi; [ $RANK = 1 ] && exit 3; exit 0"), writing_to("/dev/full"));
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_THAT(end.errors, StartsWith(kLost));
  EXPECT_THAT(end.errors, HasSubstr("\ntutti run: rank 1 "));
}

TEST(RunOutput, ErrorsThatCannotBeWrittenChangeTheExitCodeAlone) {
  EXPECT_EQ(launch(run_shell(2, "echo hi >&2"), writing_to("", "/dev/full")).exit_code, 1);
  EXPECT_EQ(launch(run_shell(2, "exit 3"), writing_to("", "/dev/full")).exit_code, 3);
  EXPECT_EQ(launch({"run", "-n", "0", "true"}, writing_to("", "/dev/full")).exit_code, 2);
}

TEST(RunOutput, StreamsMayBeClosed) {
  for (const std::vector<int>& closed : std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 1, 2}}) {
    Launched::Setup setup;
    setup.closed = closed;
    EXPECT_EQ(launch(run_shell(2, "cat; echo hi; echo ho >&2"), setup).exit_code, 0) << "without " << closed.back();
    EXPECT_EQ(launch(run_shell(2, "exit 3"), setup).exit_code, 3) << "without " << closed.back();
  }
}

TEST(RunOutput, ASlowReaderHoldsTheWritersBackAndLosesNothing) {
  constexpr int kLines = 300'000;
  Launched job({"run", "-n", "2", "seq", std::to_string(kLines)});
  ASSERT_TRUE(job.shows("] 1\n", 2));
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(count_of(end.output, "\n"), 2 * kLines);
  EXPECT_EQ(count_of(end.output, "] " + std::to_string(kLines) + "\n"), 2);
}

TEST(RunOutput, RankZeroReadsTheInputAndTheOthersNothing) {
  Launched::Setup setup;
  setup.input = "first\nsecond\n";
  const LaunchedEnd end = launch(run_shell(3, "cat; readlink /proc/self/fd/0 | grep null"), setup);
  EXPECT_EQ(count_of(end.output, "[0] first\n[0] second\n"), 1);
  EXPECT_EQ(count_of(end.output, "first"), 1);
  EXPECT_EQ(count_of(end.output, "] /dev/null\n"), 2);
}

TEST(RunOutput, ATerminalShowsColoursAndItsInputReachesRankZero) {
  Launched::Setup setup;
  setup.on_terminal = true;
  setup.environment = {{"TERM", "xterm"}};
  Launched job(run_shell(2, "echo up; read -r typed; echo typed $typed; cat >/dev/null; echo over"), setup);
  ASSERT_TRUE(job.shows("\x1b[31m[0]\x1b[0m up\n"));
  ASSERT_TRUE(job.shows("\x1b[32m[1]\x1b[0m over\n")) << "no input, so it is over at once";
  job.type("some words\n");
  ASSERT_TRUE(job.shows("[0]\x1b[0m typed some words\n"));
  job.type("\x04");
  ASSERT_TRUE(job.shows("[0]\x1b[0m over\n")) << "Ctrl-D ends its input";
  EXPECT_EQ(job.finish().exit_code, 0);
}

TEST(RunOutput, NoColoursWhereTheyAreNotWanted) {
  Launched::Setup setup;
  setup.on_terminal = true;
  setup.environment = {{"TERM", "xterm"}, {"NO_COLOR", "1"}};
  EXPECT_THAT(launch({"run", "-n", "1", "echo", "plain"}, setup).output, StartsWith("[0] plain\n"));
}

}  // namespace
}  // namespace tutti::testing
