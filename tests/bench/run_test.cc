// `tutti bench` as a user meets it, with real ranks: what it writes, whom it leaves out, and that nothing stays behind.
// No test asks how fast anything was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "shell.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using tutti::testing::Ended;
using tutti::testing::shell;

constexpr const char* kQuick = " --rounds 2 --cell-seconds 0.05";

Ended bench(const std::string& arguments, const std::string& before = "") {
  return shell(before + " " + TUTTI_TOOL + " bench " + arguments);
}

// A folder of this test's own, which is also where the bench keeps its files.
class BenchRun : public testing::Test {
 protected:
  BenchRun() : folder_(std::filesystem::temp_directory_path() / ("bt-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~BenchRun() override { std::filesystem::remove_all(folder_); }

  std::string in_folder() const { return "TMPDIR=" + folder_.string(); }
  std::string file(const char* name) const { return folder_ / name; }
  json rows(const char* name) const { return json::parse(std::ifstream(file(name))); }
  void expect_nothing_left() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("tutti-bench-")));
    }
  }
  Ended against(const std::string& odd, const std::string& more = "") const {
    return bench("all_reduce -b 8 -e 64 -f 8 --json " + file("odd.json") + kQuick + " --against " + TUTTI_ODD_DRIVER +
                     " " + more,
                 in_folder() + " TUTTI_ODD=" + odd);
  }

  std::filesystem::path folder_;
};

TEST_F(BenchRun, TwoSizesOverEachTransport) {
  for (const std::string transport : {"shm", "tcp"}) {
    const Ended ended = bench("all_reduce -n 2 -b 8 -e 4K -f 512 --transport " + transport + " --json " +
                                  file("a.json") + " --csv " + file("a.csv") + " --plot " + file("a.svg") + kQuick,
                              in_folder());
    ASSERT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("Out of bounds values : 0 OK"));
    const json all = rows("a.json");
    ASSERT_EQ(all.size(), 4U) << "two sizes, out of place and in place";
    for (const json& row : all) {
      EXPECT_EQ(row["impl"], "tutti");
      EXPECT_EQ(row["wrong"], 0);
      EXPECT_EQ(row["transport"], transport);
      EXPECT_EQ(row["ranks"], 2);
      EXPECT_TRUE(row["algorithm"].is_string());
      EXPECT_GT(row["predicted_us"].get<double>(), 0);
      EXPECT_GT(row["time_us_median"].get<double>(), 0);
      EXPECT_GE(row["time_us_median"].get<double>(), row["time_us_min"].get<double>());
    }
    EXPECT_EQ(all[0]["bytes"], 8);
    EXPECT_EQ(all[3]["bytes"], 4096);
    EXPECT_TRUE(std::filesystem::file_size(file("a.svg")) > 0 && std::filesystem::file_size(file("a.csv")) > 0);
    expect_nothing_left();
  }
}

TEST_F(BenchRun, EveryVerbIsRightWithBothKindsOfBuffers) {
  const Ended ended = bench(
      "all -n 3 -r 2 -b 1000 -e 1000 --buffers both --rotate --rotate-bytes 64K --json " + file("a.json") + kQuick,
      in_folder());
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  const json all = rows("a.json");
  EXPECT_EQ(all.size(), 44U) << "ten verbs in two places and two without, in two kinds of memory";
  for (const json& row : all) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_TRUE(row["predicted_us"].is_number()) << row;
  }
  EXPECT_THAT(ended.output, HasSubstr("over 44 rows"));
}

TEST_F(BenchRun, EveryAlgorithmIsTriedByName) {
  const Ended ended =
      bench("broadcast -n 2 -b 1K -e 1K --algorithms all --json " + file("a.json") + kQuick, in_folder());
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("regret: the chosen algorithm"));
  EXPECT_THAT(ended.output, HasSubstr("tutti:binomial"));
  std::map<std::string, std::set<double>> predicted;  // by algorithm
  for (const json& row : rows("a.json")) {
    const auto name = row["impl"].get<std::string>();
    const auto algorithm = row["algorithm"].get<std::string>();
    EXPECT_TRUE(name == "tutti" || name == "tutti:" + algorithm) << row;
    predicted[algorithm].insert(row["predicted_us"].get<double>());
  }
  ASSERT_GT(predicted.size(), 1U);
  for (const auto& [algorithm, us] : predicted) EXPECT_EQ(us.size(), 1U) << algorithm << ": chosen or by name";
}

TEST_F(BenchRun, SeveralNumbersOfRanks) {
  const Ended ended = bench("barrier --ranks 1..3 --json " + file("a.json") + kQuick, in_folder());
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  const json all = rows("a.json");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[2]["ranks"], 3);
}

TEST_F(BenchRun, APeerIsMeasuredBesideOurs) {
  const Ended ended = against("fine");
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("best peer's median / ours"));
  EXPECT_THAT(ended.output, HasSubstr("a driver that misbehaves"));
  const json all = rows("odd.json");
  EXPECT_EQ(all.size(), 8U);
  for (const json& row : all) EXPECT_EQ(row["predicted_us"].is_null(), row["impl"] != "tutti") << row;
}

TEST_F(BenchRun, APeerThatMisbehavesIsNamedAndLeftOut) {
  const struct {
    const char* how;
    const char* said;
  } cases[] = {{"hang", "did not answer for 4 s"},
               {"die", "a rank of it ended"},
               {"fail", "the network is on fire"},
               {"early", "it ended before its ranks had started; it printed:\n    no such device"}};
  for (const auto& [how, said] : cases) {
    const Ended ended = against(how, "--patience 4");
    EXPECT_EQ(ended.exit_code, 0) << how << "\n" << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(said)) << how;
    EXPECT_THAT(ended.output, HasSubstr("odd_driver")) << how;
    std::size_t ours = 0, theirs = 0;
    for (const json& row : rows("odd.json")) ++(row["impl"] == "tutti" ? ours : theirs);
    EXPECT_EQ(ours, 4U) << how << ": ours goes on";
    EXPECT_EQ(theirs, std::string(how) == "early" ? 0U : 2U) << how << ": what it did before counts";
    expect_nothing_left();
  }
}

TEST_F(BenchRun, WrongResultsOfAPeerAreCounted) {
  const Ended ended = against("wrong");
  EXPECT_EQ(ended.exit_code, 0) << "ours is right\n" << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("FAILED"));
  for (const json& row : rows("odd.json")) EXPECT_EQ(row["wrong"] == 0, row["impl"] == "tutti") << row;
}

TEST_F(BenchRun, WordsInPlaceOfAnAlgorithmDoNotConfuseIt) { EXPECT_EQ(against("babble").exit_code, 0); }

// Interrupted while a peer hangs: all processes go, and what was measured is shown.
TEST_F(BenchRun, AnInterruptLeavesNothingBehind) {
  const std::string pids = file("pids");
  const Ended ended = shell(
      in_folder() + " TUTTI_ODD=hang " + TUTTI_TOOL + " bench all_reduce -b 8 -e 64 -f 8 --rounds 1 --against " +
      TUTTI_ODD_DRIVER + " > " + file("out") + " 2>&1 & bench=$!; for i in $(seq 600); do grep -q '^all_reduce' " +
      file("out") + " && break; sleep 0.1; done; pgrep -P $bench > " + pids + "; kill -TERM $bench; wait $bench");
  EXPECT_EQ(ended.exit_code, 143);
  std::ifstream list(pids);
  int found = 0;
  for (pid_t pid = 0; list >> pid; ++found) EXPECT_EQ(::kill(pid, 0), -1) << pid;
  EXPECT_EQ(found, 5) << "two ranks of each, and the guard";
  std::ifstream out(file("out"));
  const std::string text{std::istreambuf_iterator<char>(out), {}};
  EXPECT_THAT(text, HasSubstr("interrupted"));
  expect_nothing_left();
}

void expect_usage(const std::string& arguments, const std::string& complaint) {
  const Ended ended = bench(arguments);
  EXPECT_EQ(ended.exit_code, 2) << arguments << "\n" << ended.output;
  EXPECT_THAT(ended.output, HasSubstr(complaint)) << arguments;
}

TEST(BenchUsage, WrongUsageNamesTheRemedy) {
  expect_usage("", "verbs is required");
  expect_usage("dance", "no verb 'dance'; there are: all_reduce, broadcast");
  expect_usage(",", "name a verb");
  expect_usage("all_reduce -n none", "-n needs ranks from 1 to 64");
  expect_usage("all_reduce -b 8q", "-b needs a number of bytes such as 8, 64K or 1.5M, not '8q'");
  expect_usage("all_reduce -b 16 -e 8", "nothing lies between");
  expect_usage("all_reduce -d float33", "no type 'float33'; did you mean float32, float16 or float64? there are: int8");
  expect_usage("all_reduce -o plus", "no operator 'plus'; there are: sum");
  expect_usage("broadcast -n 2 -r 2", "-r must be one of the ranks 0 to 1, not 2");
  expect_usage("send_recv -n 1", "send_recv needs two ranks");
  expect_usage("scan -o avg", "scan has no average");
  expect_usage("all_reduce -o premul_sum", "is not measured");
  expect_usage("all_reduce --transport pigeon", "pigeon");
  expect_usage("all_reduce --buffers heap", "heap");
  expect_usage("all_reduce --buffers symmetric --transport tcp", "needs shm");
  expect_usage("figures -n 4", "figures takes --runs, --tuned, --json, --csv and --svg, not --ranks");
  expect_usage("all_reduce --against sisyphus", "no implementation 'sisyphus'; there are: openmpi, mpich");
  expect_usage("all_reduce --json /nowhere/to/be/found", "cannot write '/nowhere/to/be/found'");
}

TEST(BenchUsage, APeerThatIsNotThereIsSaidAndLeftOut) {
  const Ended ended = bench(std::string("barrier --against ./no/such/driver") + kQuick);
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("./no/such/driver is left out"));
}

}  // namespace
