// `tutti run` and signals: passed on, once; nothing outlives the job, however it ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/file_descriptor.h"
#include "process_state.h"
#include "tools/launched.h"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

std::vector<pid_t> pids_in(const std::string& output, const std::string& words) {
  std::vector<pid_t> pids;
  for (const std::string& line : lines_of(output)) {
    const std::size_t at = line.find(words);
    if (at != std::string::npos) pids.push_back(std::stoi(line.substr(at + words.size())));
  }
  return pids;
}

// Who the guard of this launcher is; it is a child of the launcher that is no rank. -1 where there is none.
pid_t named_guard_of(pid_t launcher) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string pid;
    std::string name;
    std::string state;
    pid_t parent = 0;
    if (file >> pid >> name >> state >> parent && parent == launcher && name == "(tutti-guard)") return std::stoi(pid);
  }
  return -1;
}

// It may take its name after the ranks have started.
pid_t guard_of(pid_t launcher) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (;;) {
    const pid_t guard = named_guard_of(launcher);
    if (guard > 0 || std::chrono::steady_clock::now() > patience) return guard;
    ::sched_yield();
  }
}

class EverySignal : public ::testing::TestWithParam<const char*> {};

TEST_P(EverySignal, ReachesAllRanksOnce) {
  const std::string name = GetParam();
  Launched job(
      run_shell(3, "trap 'echo got; kill -9 $! 2>/dev/null; exit 0' " + name + "; sleep 60 & echo ready; wait"));
  ASSERT_TRUE(job.shows("] ready\n", 3));
  const std::map<std::string, int> numbers{{"INT", SIGINT},   {"TERM", SIGTERM}, {"HUP", SIGHUP},
                                           {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
  job.signal(numbers.at(name));
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 0) << "the ranks took it well: " << end.errors;
  EXPECT_EQ(end.errors, "");
  EXPECT_EQ(count_of(end.output, "] got\n"), 3);
}

INSTANTIATE_TEST_SUITE_P(RunSignal, EverySignal, ::testing::Values("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"));

TEST(RunSignal, SaysThatASignalWasPassedOn) {
  Launched job(run_shell(2, "echo ready; exec sleep 60"));
  ASSERT_TRUE(job.shows("] ready\n", 2));
  job.signal(SIGTERM);
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_EQ(end.errors, "tutti run: interrupted: SIGTERM was passed on to all ranks\n");
}

TEST(RunSignal, CtrlCDoesNotReadLikeTheFailureOfARank) {
  Launched job({"run", "-n", "2", "--", "env", "--default-signal=INT", "sh", "-c", "echo ready; exec sleep 60"});
  ASSERT_TRUE(job.shows("] ready\n", 2));
  job.signal(SIGINT);
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 128 + SIGINT);
  EXPECT_EQ(end.errors, "tutti run: interrupted: SIGINT was passed on to all ranks\n");
}

TEST(RunSignal, OtherSignalsAreSaidToBePassedOn) {
  Launched job(run_shell(1, "echo ready; exec sleep 60"));
  ASSERT_TRUE(job.shows("] ready\n"));
  job.signal(SIGUSR1);
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 128 + SIGUSR1);
  EXPECT_THAT(end.errors, HasSubstr("(SIGUSR1), which tutti run passed on to all ranks, after"));
}

TEST(RunSignal, TerminateEndsItThoughNobodyReads) {
  const Folder folder;
  const std::string pipe = folder.pipe("written");
  const FileDescriptor written(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  // More than fits a pipe: the launcher holds the rest.
  Launched job(run_shell(1, "yes | head -c 200000; echo > " + pipe + "; exec sleep 60", {"--grace", "0.1"}));
  pollfd polled{written.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&polled, 1, 30'000), 1);
  job.signal(SIGTERM);
  ASSERT_TRUE(ends(job.pid()));
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_THAT(end.errors, HasSubstr("nobody read standard output in time; output of the ranks was lost\n"));
}

TEST(RunSignal, TheSecondTimeItKills) {
  Launched job(run_shell(2, "trap 'echo no' INT TERM; echo ready $$; while :; do sleep 60 & wait; done"));
  ASSERT_TRUE(job.shows("] ready", 2));
  job.signal(SIGINT);
  ASSERT_TRUE(job.shows("] no\n", 2));
  job.signal(SIGTERM);
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 128 + SIGKILL);
  EXPECT_EQ(end.errors,
            "tutti run: interrupted: SIGINT was passed on to all ranks; then SIGTERM came, and because of it the ranks "
            "were killed\n");
  for (const pid_t pid : pids_in(end.output, "ready ")) EXPECT_TRUE(ends(pid));
}

TEST(RunSignal, ASignalThatIsIgnoredStaysIgnored) {
  // As under nohup, though this rank would listen.
  const auto before = ::signal(SIGHUP, SIG_IGN);
  Launched job({"run", "-n", "1", "--", "env", "--default-signal=HUP", "sh", "-c",
                "trap 'echo hup' HUP; trap 'echo usr1; kill -9 $!; exit 0' USR1; sleep 60 & echo ready; wait; wait"});
  ::signal(SIGHUP, before);
  ASSERT_TRUE(job.shows("] ready\n"));
  job.signal(SIGHUP);
  job.signal(SIGUSR1);
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  EXPECT_EQ(end.output, "[0] ready\n[0] usr1\n");
}

// The line of this process's status that begins with `word`.
std::string own_status(const std::string& word) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(word)) return line;
  }
  return "";
}

TEST(RunSignal, RanksLeadGroupsOfTheirOwnAndTakeSignalsAsUsual) {
  const LaunchedEnd end = launch(run_shell(2,
                                           "set -- $(cat /proc/$$/stat); echo group $(($5 - $$)); "
                                           "grep -E 'SigBlk|SigIgn' /proc/self/status"));
  EXPECT_EQ(count_of(end.output, "] group 0\n"), 2);
  for (const char* word : {"SigBlk", "SigIgn"}) EXPECT_EQ(count_of(end.output, own_status(word) + "\n"), 2) << word;
}

TEST(RunSignal, CtrlCOnATerminalArrivesOnce) {
  Launched::Setup setup;
  setup.on_terminal = true;
  Launched job(
      run_shell(2, "trap 'echo got it' INT; trap 'exit 0' USR1; echo ready; while :; do sleep 60 & wait; done"), setup);
  ASSERT_TRUE(job.shows("ready\n", 2));
  job.type("\x03");
  ASSERT_TRUE(job.shows("got it\n", 2));
  job.signal(SIGUSR1);
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(count_of(end.output, "got it\n"), 2);
}

TEST(RunSignal, GrandchildrenAreEndedWithTheirRank) {
  Launched job(run_shell(2, "sleep 60 & echo child $!; [ $RANK = 1 ] && exit 3; wait"));
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 3) << end.errors;
  const auto children = pids_in(end.output, "child ");
  ASSERT_EQ(children.size(), 2U);
  for (const pid_t child : children) EXPECT_EQ(::kill(child, 0), -1) << "still there when the launcher has ended";
}

TEST(RunSignal, WhatFinishedRanksLeaveBehindIsEndedAndSaid) {
  Launched job({"run", "-n", "1", "--grace", "0.1", "--", "sh", "-c", "sleep 60 & echo child $!; exit 0"});
  const LaunchedEnd end = job.finish();
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.errors, "tutti run: all ranks finished, but left processes behind, which were ended\n");
  const auto children = pids_in(end.output, "child ");
  ASSERT_EQ(children.size(), 1U);
  EXPECT_EQ(::kill(children[0], 0), -1);
}

TEST(RunSignal, WhatARankLeavesBehindMayFinishItsWork) {
  const LaunchedEnd end = launch(run_shell(1, "(sleep 0.3; echo saved) & exit 0"));
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.output, "[0] saved\n");
  EXPECT_EQ(end.errors, "");
}

TEST(RunSignal, NothingOutlivesALauncherThatIsKilled) {
  Launched job(run_shell(3, "sleep 60 & echo rank $$; echo child $!; trap '' TERM INT HUP; wait"));
  ASSERT_TRUE(job.shows("] child", 3));
  const auto ranks = pids_in(job.output(), "rank ");
  const auto children = pids_in(job.output(), "child ");
  const pid_t guard = guard_of(job.pid());
  ASSERT_EQ(ranks.size(), 3U);
  ASSERT_EQ(children.size(), 3U);
  ASSERT_GT(guard, 0);
  job.signal(SIGKILL);
  for (const pid_t pid : ranks) EXPECT_TRUE(ends(pid)) << "rank " << pid;
  for (const pid_t pid : children) EXPECT_TRUE(ends(pid)) << "child " << pid;
  EXPECT_TRUE(ends(guard));
  EXPECT_EQ(job.finish().exit_code, 128 + SIGKILL);
}

TEST(RunSignal, RanksDieWithTheLauncherEvenWithoutItsGuard) {
  Launched job(run_shell(2, "echo rank $$; trap '' TERM; while :; do sleep 60 & wait; done"));
  ASSERT_TRUE(job.shows("] rank", 2));
  const auto ranks = pids_in(job.output(), "rank ");
  const pid_t guard = guard_of(job.pid());
  ASSERT_GT(guard, 0);
  ::kill(guard, SIGKILL);
  job.signal(SIGKILL);
  for (const pid_t pid : ranks) EXPECT_TRUE(ends(pid));
  for (const pid_t pid : ranks) ::kill(-pid, SIGKILL);  // their sleeps
}

TEST(RunSignal, CtrlZStopsTheRanksUntilItGoesOn) {
  Launched job(
      run_shell(1, "trap 'echo on' CONT; trap 'exit 0' USR1; echo rank $$; while :; do sleep 60 & wait; done"));
  ASSERT_TRUE(job.shows("] rank"));
  const pid_t rank = pids_in(job.output(), "rank ").at(0);
  job.signal(SIGTSTP);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(job.pid()), &info, WSTOPPED), 0);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (state_of(rank) != 'T' && std::chrono::steady_clock::now() < patience) ::sched_yield();  // it has been told
  EXPECT_EQ(state_of(rank), 'T') << "the rank is stopped, too";
  job.signal(SIGCONT);
  ASSERT_TRUE(job.shows("] on\n"));
  job.signal(SIGUSR1);
  EXPECT_EQ(job.finish().exit_code, 0);
}

}  // namespace
}  // namespace tutti::testing
