// `tutti run` as a user meets it: how a job ends, and what is said about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>

#include "tools/launched.h"

namespace tutti::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The number behind `words` in what ranks said of themselves.
pid_t pid_of(const std::string& text, const std::string& words) {
  return std::stoi(text.substr(text.find(words) + words.size()));
}

double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Run, EndsSilentlyWhenAllRanksDo) {
  const LaunchedEnd end = launch(run_shell(3, "exit 0"));
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.output, "");
  EXPECT_EQ(end.errors, "");
}

TEST(Run, ExitsWithTheCodeOfTheRankThatFails) {
  const LaunchedEnd end = launch(run_shell(3, "[ $RANK = 1 ] && exit 3; sleep 60", {"--grace", "0"}));
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_THAT(
      end.errors,
      ContainsRegex("^tutti run: rank 1 \\(pid [0-9]+, host [^)]+\\) exited with code 3 after [0-9]+\\.[0-9] s; "
                    "the other 2 ranks were ended\n$"));
}

TEST(Run, BlamesNobodyWhereAllRanksFailAlike) {
  const LaunchedEnd end = launch(run_shell(4, "exit 7"));
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_THAT(end.errors, ContainsRegex("^tutti run: all 4 ranks failed with exit code 7 after [0-9.]+ s; what they "
                                        "wrote above says why\n$"));
}

TEST(Run, NamesTheSignalThatKilledARank) {
  const LaunchedEnd end = launch(run_shell(4, "[ $RANK = 2 ] && kill -9 $$; sleep 60", {"--grace", "0.1"}));
  EXPECT_EQ(end.exit_code, 128 + 9);
  EXPECT_THAT(end.errors,
              ContainsRegex("rank 2 \\(pid [0-9]+, host [^)]+\\) was killed by signal 9 \\(SIGKILL\\) after "
                            "[0-9.]+ s; the other 3 ranks were ended\n$"));
}

TEST(Run, SaysInWordsWhatASignalMeans) {
  const LaunchedEnd end = launch(run_shell(1, "ulimit -c 0; kill -SEGV $$"));
  EXPECT_EQ(end.exit_code, 128 + 11);
  EXPECT_THAT(end.errors, HasSubstr("signal 11 (SIGSEGV: it used memory that is not its own"));
}

TEST(Run, ARankThatIsKilledIsNamedBeforeThoseThatFailBecauseOfIt) {
  // Rank 0 sees it at once: its end of a pipe that rank 1 holds open tells it, even before the launcher is told.
  const Folder folder;
  const std::string pipe = folder.pipe("life");
  const std::string script = "if [ $RANK = 1 ]; then exec 3> " + pipe + "; kill -9 $$; fi; cat " + pipe + "; exit 5";
  for (int time = 0; time < 20; ++time) {
    const LaunchedEnd end = launch(run_shell(2, script));
    ASSERT_EQ(end.exit_code, 128 + SIGKILL) << end.errors;
    ASSERT_THAT(end.errors, HasSubstr("rank 1 "));
    ASSERT_THAT(end.errors, HasSubstr("; the other rank then failed, too\n"));
  }
}

TEST(Run, TheFirstFailureCountsThoughTheLauncherLooksLate) {
  Launched job(run_shell(2, "trap 'kill -9 $! 2>/dev/null; exit $((4 + $RANK))' USR1; sleep 60 & echo up $$; wait"));
  ASSERT_TRUE(job.shows(" up ", 2));
  job.signal(SIGSTOP);
  for (const char* words : {"[1] up ", "[0] up "}) {
    const pid_t pid = pid_of(job.output(), words);
    ::kill(pid, SIGUSR1);
    ASSERT_TRUE(ends(pid));
  }
  job.signal(SIGCONT);
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 5) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("rank 1 "));
}

TEST(Run, AFinishedRankIsNotSaidToBeEnded) {
  const Folder folder;
  const std::string pipe = folder.pipe("life");
  const LaunchedEnd end = launch(run_shell(
      3, "[ $RANK = 0 ] && { exec 3> " + pipe + "; exit 0; }; [ $RANK = 1 ] && { cat " + pipe + "; exit 6; }; sleep 60",
      {"--grace", "0"}));
  EXPECT_EQ(end.exit_code, 6);
  EXPECT_THAT(end.errors, HasSubstr("; of the other 2 ranks 1 finished and 1 was ended\n"));
}

TEST(Run, OthersHaveTimeToSayWhatTheySaw) {
  const LaunchedEnd end = launch(run_shell(2, "[ $RANK = 1 ] && exit 3; sleep 0.5; echo I saw it; exit 1"));
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.output, "[0] I saw it\n");
}

TEST(Run, OthersAreAskedToEndBeforeTheyAreKilled) {
  const Folder folder;
  const std::string pipe = folder.pipe("ready");
  const LaunchedEnd end = launch(run_shell(2,
                                           "[ $RANK = 1 ] && { cat " + pipe + "; exit 3; }; " +
                                               "trap 'echo asked; exit 0' TERM; sleep 60 & : > " + pipe + "; wait",
                                           {"--grace", "0"}));
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.output, "[0] asked\n");
}

TEST(Run, WhoDoesNotListenIsKilled) {
  const Folder folder;
  const std::string pipe = folder.pipe("ready");
  LaunchedEnd end;
  const double took = seconds_of([&] {
    end = launch(run_shell(
        2, "[ $RANK = 1 ] && { cat " + pipe + "; exit 3; }; trap '' TERM; : > " + pipe + "; while :; do sleep 60; done",
        {"--grace", "0"}));
  });
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_GE(took, 1.9);
  EXPECT_LT(took, 15);
}

TEST(Run, AProgramThatIsNotThere) {
  const LaunchedEnd end = launch({"run", "-n", "3", "--", "no-such-program", "x"});
  EXPECT_EQ(end.exit_code, 127);
  EXPECT_THAT(end.errors, StartsWith("tutti run: cannot run 'no-such-program': No such file or directory; "));
  EXPECT_EQ(lines_of(end.errors).size(), 1U) << end.errors;
}

TEST(Run, AProgramThatCannotBeExecuted) {
  const Folder folder;
  const std::string plain = folder.with("plain", "text", 0644);
  const LaunchedEnd refused = launch({"run", "-n", "2", plain});
  EXPECT_EQ(refused.exit_code, 126);
  EXPECT_THAT(refused.errors, HasSubstr("cannot run '" + plain + "': Permission denied; make it executable"));
  const LaunchedEnd folded = launch({"run", "--", "/tmp"});
  EXPECT_EQ(folded.exit_code, 126);
  EXPECT_EQ(folded.errors, "tutti run: cannot run '/tmp': Permission denied; it is a folder: name the program in it\n");
  const LaunchedEnd lost = launch({"run", "-n", "2", folder.with("script", "#!/no/such/interpreter\n", 0755)});
  EXPECT_EQ(lost.exit_code, 127);
  EXPECT_THAT(lost.errors, HasSubstr("the interpreter that its first line names is not"));
}

TEST(Run, TheProgramKeepsItsArguments) {
  EXPECT_EQ(launch({"run", "-n", "1", "echo", "-n", "4", "--", "--help"}).output, "[0] 4 -- --help\n");
  EXPECT_EQ(launch({"run", "-n1", "--", "echo", "list", "", "a b"}).output, "[0] list  a b\n");
  EXPECT_EQ(launch({"run", "--ranks=1", "--bind", "none", "echo", "--no-prefix"}).output, "[0] --no-prefix\n");
}

TEST(Run, AsManyRanksAsCoresWhereNoneAreAsked) {
  const LaunchedEnd end = launch({"run", "--", "sh", "-c", "echo of $WORLD_SIZE"});
  EXPECT_EQ(end.exit_code, 0);
  const std::size_t ranks = lines_of(end.output).size();
  EXPECT_GE(ranks, 1U);
  EXPECT_THAT(end.output, HasSubstr("[0] of " + std::to_string(ranks) + "\n"));
}

}  // namespace
}  // namespace tutti::testing
