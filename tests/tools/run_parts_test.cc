// The parts of `tutti run` by themselves: lines at every cut, sentences, what ranks are told, groups of processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "tools/launch/crew.h"
#include "tools/launch/ending.h"
#include "tools/launch/job.h"
#include "tools/launch/lines.h"
#include "tools/launch/mapping.h"
#include "tools/launch/outlet.h"
#include "tools/launched.h"

namespace tutti::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string lined(const std::vector<std::string>& pieces) {
  Lines lines("[7] ");
  std::string out;
  for (const std::string& piece : pieces) lines.feed(piece, out);
  lines.finish(out);
  return out;
}

TEST(Lines, DoNotDependOnWhereTheBytesAreCut) {
  const std::string text = "one\n\ntwo\nthree";
  for (std::size_t a = 0; a <= text.size(); ++a) {
    for (std::size_t b = a; b <= text.size(); ++b) {
      EXPECT_EQ(lined({text.substr(0, a), text.substr(a, b - a), text.substr(b)}),
                "[7] one\n[7] \n[7] two\n[7] three\n");
    }
  }
  EXPECT_EQ(lined({}), "");
  EXPECT_EQ(lined({"\n"}), "[7] \n");
}

TEST(Lines, LongOnesAreCutWhereverTheBytesAreCut) {
  constexpr std::size_t kMost = Lines::kLongestBytes;
  const std::string piece(kMost, 'x');
  const std::string line = "[7] " + piece + "\n";
  EXPECT_EQ(lined({piece + "\n"}), line) << "exactly as long as a piece, and no empty line after it";
  EXPECT_EQ(lined({piece, "\n"}), line);
  EXPECT_EQ(lined({piece}), line);
  EXPECT_EQ(lined({piece + "y\n"}), line + "[7] y\n");
  EXPECT_EQ(lined({piece, "y\n"}), line + "[7] y\n");
  EXPECT_EQ(lined({piece + piece + "\nz"}), line + line + "[7] z\n");
  EXPECT_EQ(lined({"a", piece.substr(1), piece.substr(1), "b\n"}),
            "[7] a" + piece.substr(1) + "\n[7] " + piece.substr(1) + "b\n");
}

TEST(Ending, IsSaidInWords) {
  EXPECT_EQ(words_of(Ending{3, 0, false}), "exited with code 3");
  EXPECT_EQ(words_of(Ending{0, SIGKILL, false}), "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(words_of(Ending{0, SIGSEGV, true}),
            "was killed by signal 11 (SIGSEGV: it used memory that is not its own; core dumped)");
  EXPECT_THAT(words_of(Ending{0, SIGABRT, false}), HasSubstr("SIGABRT: it gave up"));
  EXPECT_EQ((Ending{0, SIGTERM, false}.shell_code()), 143);
  EXPECT_EQ((Ending{9, 0, false}.shell_code()), 9);
}

TEST(Ending, OfTheOthersIsSaidInWords) {
  EXPECT_EQ(words_of(Others{0, 0, 0}), "");
  EXPECT_EQ(words_of(Others{0, 0, 1}), "; the other rank was ended");
  EXPECT_EQ(words_of(Others{0, 0, 3}), "; the other 3 ranks were ended");
  EXPECT_EQ(words_of(Others{2, 0, 0}), "; the other 2 ranks had finished");
  EXPECT_EQ(words_of(Others{0, 2, 0}), "; the other 2 ranks then failed, too");
  EXPECT_EQ(words_of(Others{1, 2, 1}), "; of the other 4 ranks 1 finished and 2 then failed, too and 1 was ended");
}

class LastSentence : public ::testing::Test {
 protected:
  // A rank that ended `ms` after the start.
  void add(const Ending& ending, int ms, bool by_launcher = false) {
    RankEnd end{static_cast<int>(ranks_.size()), 70 + static_cast<int>(ranks_.size()), {}, {}, ending, by_launcher};
    end.ended = end.started + std::chrono::milliseconds(ms);
    ranks_.push_back(end);
  }
  std::string said(const Signalled& signalled = {}) const { return last_sentence(ranks_, 0, signalled, "h"); }

  static constexpr Ending kOne{1, 0, false};
  std::vector<RankEnd> ranks_;
};

TEST_F(LastSentence, BlamesNobodyWhereAllFailAlike) {
  for (const int ms : {3200, 3210, 3400, 3900}) add(kOne, ms);
  EXPECT_EQ(said(), "all 4 ranks failed with exit code 1 after 3.2 s; what they wrote above says why");
}

TEST_F(LastSentence, BlamesNobodyWhereSeveralFailAlike) {
  for (const int ms : {3200, 3210, 3400}) add(kOne, ms);
  add({}, 3000);
  EXPECT_EQ(said(),
            "3 of 4 ranks failed with exit code 1 after 3.2 s; what they wrote above says why; the other rank had "
            "finished");
  ranks_.back() = {3, 73, {}, {}, Ending{0, SIGTERM, false}, true};
  EXPECT_THAT(said(), HasSubstr("3 of 4 ranks failed with exit code 1 after 3.2 s; what they wrote above says why; "
                                "the other rank was ended"));
}

TEST_F(LastSentence, BlamesTheFirstWhereItStandsOut) {
  add(kOne, 3200);
  EXPECT_EQ(said(), "rank 0 (pid 70, host h) exited with code 1 after 3.2 s");
  add(kOne, 4700);
  EXPECT_EQ(said(), "rank 0 (pid 70, host h) exited with code 1 after 3.2 s; the other rank then failed, too");
  ranks_.pop_back();
  add({2, 0, false}, 3210);
  add(kOne, 3210);
  EXPECT_THAT(said(), HasSubstr("rank 0 (pid 70, host h) exited with code 1"));
}

TEST_F(LastSentence, BlamesTheFirstThatASignalKilled) {
  for (int i = 0; i < 2; ++i) add({0, SIGKILL, false}, 100);
  EXPECT_THAT(said(), HasSubstr("rank 0 (pid 70, host h) was killed by signal 9 (SIGKILL) after 0.1 s; the other"));
}

TEST_F(LastSentence, TellsAnInterruptionFromAFailure) {
  add({0, SIGINT, false}, 100);
  const Signalled once{{SIGINT}, SIGINT, 0};
  EXPECT_EQ(said(once), "interrupted: SIGINT was passed on to all ranks");
  add({0, SIGTERM, false}, 2100, true);
  EXPECT_EQ(said(once), "interrupted: SIGINT was passed on to all ranks; 1 of 2 did not end by it and was ended");
  EXPECT_EQ(said({{SIGINT}, SIGINT, SIGINT}),
            "interrupted: SIGINT was passed on to all ranks; then SIGINT came again, and because of it the ranks were "
            "killed");
  ranks_.clear();
  add({3, 0, false}, 100);
  EXPECT_EQ(said(once),
            "interrupted: SIGINT was passed on to all ranks; then rank 0 (pid 70, host h) exited with code 3 after "
            "0.1 s");
}

TEST(Job, NumbersRanksHostAfterHostOrRoundThem) {
  Job job;
  job.hosts = 3;
  job.host = 1;
  job.ranks_per_host = 2;
  EXPECT_EQ(job.rank_of(0), 2);
  EXPECT_EQ(job.rank_of(1), 3);
  job.round_hosts = true;
  EXPECT_EQ(job.rank_of(0), 1);
  EXPECT_EQ(job.rank_of(1), 4);
  EXPECT_EQ(variables_of_rank(job, 1, {}).at("RANK"), "4");
  EXPECT_EQ(variables_of_rank(job, 1, {}).at("LOCAL_RANK"), "1");
}

TEST(Mapping, GoesRoundGroups) {
  EXPECT_EQ(round_groups({0, 0, 0, 1, 1, 1}), (std::vector<std::size_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(round_groups({5, 5, 5, 2, -1}), (std::vector<std::size_t>{0, 3, 4, 1, 2}));
  EXPECT_TRUE(round_groups({}).empty());
}

TEST(Job, CountsRanksAcrossHosts) {
  Job job;
  job.ranks_per_host = 4;
  job.hosts = 3;
  job.host = 2;
  job.token = "secret";
  const Variables told = variables_of_rank(job, 1, {{"PATH", "/bin"}, {"RANK", "77"}});
  EXPECT_EQ(told.at("TUTTI_RANK"), "9");
  EXPECT_EQ(told.at("RANK"), "9");
  EXPECT_EQ(told.at("WORLD_SIZE"), "12");
  EXPECT_EQ(told.at("LOCAL_RANK"), "1");
  EXPECT_EQ(told.at("GROUP_RANK"), "2");
  EXPECT_EQ(told.at("PATH"), "/bin");
  EXPECT_EQ(told.at("TUTTI_TOKEN"), "secret");
}

TEST(Job, ATokenIsToldInOneWay) {
  Job job;
  job.token_file = "/job/token";
  const Variables told = variables_of_rank(job, 0, {{"TUTTI_TOKEN", "old"}});
  EXPECT_EQ(told.at("TUTTI_TOKEN_FILE"), "/job/token");
  EXPECT_FALSE(told.contains("TUTTI_TOKEN"));
}

class CrewTest : public ::testing::Test {
 protected:
  // Starts a shell that runs `script`.
  void start(const std::string& script) {
    ProcessStart start;
    start.command = {"sh", "-c", script};
    start.environment = entries_of(variables_of_process());
    crew_.start(static_cast<int>(crew_.members().size()), start);
  }
  // Waits for SIGCHLD and reaps, until `condition` holds.
  std::vector<std::size_t> reap_until(bool (Crew::*condition)() const) {
    std::vector<std::size_t> found;
    while (!(crew_.*condition)()) {
      pollfd polled{signals_.descriptor(), POLLIN, 0};
      if (::poll(&polled, 1, 30'000) != 1) break;
      signals_.take();
      for (const std::size_t index : crew_.reap()) found.push_back(index);
    }
    return found;
  }

  Signals signals_;
  Crew crew_{signals_};
};

TEST_F(CrewTest, NotesHowEachEnded) {
  start("exit 0");
  start("exit 9");
  start("kill -9 $$");
  reap_until(&Crew::all_over);
  EXPECT_TRUE(crew_.members()[0].ending->ok());
  EXPECT_EQ(crew_.members()[1].ending->exit_code, 9);
  EXPECT_EQ(crew_.members()[2].ending->signal, SIGKILL);
}

TEST_F(CrewTest, KeepsTheOrderOfEndsThatItDidNotWatch) {
  for (int i = 0; i < 5; ++i) start("sleep 60");
  for (const std::size_t index : {3, 1, 4, 0, 2}) {
    ::kill(-crew_.members()[index].pid, SIGKILL);
    ASSERT_TRUE(testing::ends(crew_.members()[index].pid));
  }
  EXPECT_THAT(reap_until(&Crew::all_ended), ElementsAre(3, 1, 4, 0, 2));
}

TEST_F(CrewTest, AGroupIsOverWhenItsLastProcessIs) {
  start("sleep 60 & exit 0");
  reap_until(&Crew::all_ended);
  EXPECT_FALSE(crew_.all_over());
  crew_.signal_all(SIGTERM);
  reap_until(&Crew::all_over);
  EXPECT_TRUE(crew_.all_over());
}

TEST_F(CrewTest, AProgramThatIsNotThereLeavesNoProcess) {
  ProcessStart start;
  start.command = {"/no/such/program"};
  try {
    crew_.start(0, start);
    FAIL() << "it started";
  } catch (const CannotRun& refused) {
    EXPECT_EQ(refused.exit_code, 127);
  }
  EXPECT_TRUE(crew_.members().empty());
}

TEST(Outlet, KeepsLinesTogetherAndWaitsForNobody) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Outlet outlet(ends[1]);
  std::string expected;
  for (int i = 0; i < 3000; ++i) expected += "line " + std::to_string(i) + "\n";
  outlet.queue() = expected;
  std::string got;
  while (outlet.pending()) {
    outlet.write_some();
    char piece[8192];
    const ssize_t bytes = ::read(ends[0], piece, sizeof piece);
    ASSERT_GT(bytes, 0);
    EXPECT_EQ(piece[bytes - 1], '\n') << "a line was cut";
    got.append(piece, static_cast<std::size_t>(bytes));
  }
  EXPECT_EQ(got, expected);
  ::close(ends[0]);
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  outlet.queue() = "nobody reads this\n";
  outlet.write_some();
  ::signal(SIGPIPE, before);
  EXPECT_TRUE(outlet.broken());
  EXPECT_FALSE(outlet.pending());
  ::close(ends[1]);
}

}  // namespace
}  // namespace tutti::tools
