// `tutti run --trace` and TUTTI_TRACE, as people call them: what becomes of a job that ends well, of one whose rank is
// killed, and of one that was started otherwise.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file_descriptor.h"
#include "shell.h"
#include "tools/launched.h"

namespace tutti::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

LaunchedEnd run(int ranks, const Words& options, const Words& program, const Launched::Setup& setup = {}) {
  Words words{"run", "-n", std::to_string(ranks)};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--");
  words.insert(words.end(), program.begin(), program.end());
  return launch(words, setup);
}

Json read(const std::string& file) {
  std::ifstream stream(file);
  return Json::parse(stream, nullptr, false);
}

int count(const Json& trace, const std::string& category, const std::string& name) {
  int found = 0;
  for (const Json& event : trace.at("traceEvents"))
    found += event.at("ph") == "X" && event.at("cat") == category && event.at("name") == name;
  return found;
}

TEST(TraceRun, MakesTheFile) {
  const Folder folder;
  const std::string file = folder.with("run.json", "of an earlier run", 0600);
  const LaunchedEnd end = run(3, {"--trace", file}, {TUTTI_TRACED});
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  const Json trace = read(file);
  EXPECT_EQ(trace.at("tutti").at("ranks"), 3);
  EXPECT_EQ(count(trace, "call", "all_reduce"), 4 * 3);
  EXPECT_EQ(count(trace, "span", "turn"), 3 * 3);
  EXPECT_FALSE(fs::exists(file + ".rings"));
  for (const Json& part : trace.at("tutti").at("parts")) EXPECT_EQ(part.at("ended"), true);
}

TEST(TraceRun, HasThePartOfARankThatWasKilled) {
  const Folder folder;
  const std::string file = folder.path("run.json");
  const LaunchedEnd end = run(3, {"--trace", file}, {TUTTI_TRACED, "kill"});
  EXPECT_EQ(end.exit_code, 128 + 9);
  EXPECT_THAT(end.errors, HasSubstr("rank 1 was killed, or still runs"));
  const Json trace = read(file);
  EXPECT_EQ(trace.at("tutti").at("parts").at(1).at("ended"), false);
  EXPECT_GE(count(trace, "call", "all_reduce"), 2);
  EXPECT_FALSE(fs::exists(file + ".rings"));
}

TEST(TraceRun, HasProcessesThatLeaveTheirCommunicatorsOpen) {
  const Folder folder;
  const std::string file = folder.path("run.json");
  EXPECT_EQ(run(2, {"--trace", file}, {TUTTI_TRACED, "leave"}).exit_code, 0);
  for (const Json& part : read(file).at("tutti").at("parts")) EXPECT_EQ(part.at("ended"), true);
}

TEST(TraceRun, HasWhatMeetsLater) {
  const Folder folder;
  const std::string file = folder.path("run.json");
  EXPECT_EQ(run(2, {"--trace", file}, {TUTTI_TRACED, "twice"}).exit_code, 0);
  const Json trace = read(file);
  EXPECT_EQ(trace.at("tutti").at("communicators").size(), 2u);
  EXPECT_EQ(count(trace, "call", "barrier"), 2);
  EXPECT_EQ(count(trace, "span", "elsewhere"), 2) << "of another thread, in a process that has but one trace";
}

// What one of its groups stops is over for all of them: nobody goes on recording to rings that are gone.
TEST(TraceRun, IsStoppedForAllGroupsOfTheProcess) {
  const Folder folder;
  const std::string file = folder.path("run.json");
  EXPECT_EQ(run(2, {"--trace", file}, {TUTTI_TRACED, "stop"}).exit_code, 0) << "4: the other one still records";
  const Json trace = read(file);
  EXPECT_EQ(count(trace, "call", "all_reduce"), 4 * 2);
  EXPECT_EQ(count(trace, "call", "barrier"), 1 * 2);
  EXPECT_FALSE(fs::exists(file + ".rings"));
}

// The traces in a folder, but for this one.
std::vector<Json> others_than(const std::string& file) {
  std::vector<Json> others;
  for (const auto& entry : fs::directory_iterator(fs::path(file).parent_path()))
    if (entry.path().extension() == ".json" && entry.path() != file) others.push_back(read(entry.path().string()));
  return others;
}

// Processes that number their groups from 0 on, under one TUTTI_TRACE: what those that come later record is a job of
// its own, beside the first, and takes nothing from it.
TEST(TraceRun, GroupsOfOtherProcessesHaveAFileOfTheirOwn) {
  for (const char* word : {"pairs", "late"}) {
    const Folder folder;
    const std::string file = folder.path("run.json");
    fs::create_directory(folder.path("store"));
    Launched::Setup setup;
    setup.environment["TUTTI_TRACE"] = file;
    const LaunchedEnd end = run(4, {}, {TUTTI_TRACED, word, folder.path("store")}, setup);
    EXPECT_EQ(end.exit_code, 0) << word << "\n" << end.errors;
    const Json first = read(file);
    EXPECT_EQ(first.at("tutti").at("ranks"), 2);
    EXPECT_EQ(count(first, "call", "all_reduce"), 2 * 2) << word;
    EXPECT_EQ(count(first, "call", "all_gather"), 2) << word;
    const std::vector<Json> others = others_than(file);
    ASSERT_EQ(others.size(), 1u) << word;
    EXPECT_EQ(others[0].at("tutti").at("ranks"), 2);
    EXPECT_NE(others[0].at("tutti").at("job"), first.at("tutti").at("job"));
    EXPECT_EQ(count(others[0], "call", "all_reduce"), word == std::string("pairs") ? 2 : 0);
    EXPECT_EQ(count(others[0], "call", "all_gather"), 2) << word;
    EXPECT_EQ(launch({"trace", file}).exit_code, 0) << "some of its calls are of ranks of another job";
    EXPECT_FALSE(fs::exists(file + ".rings"));
  }
}

TEST(TraceRun, IsRefusedWhereAnotherJobStillRecords) {
  const Folder folder;
  const std::string file = folder.path("run.json");
  fs::create_directory(file + ".rings");
  const std::string ring = folder.with("run.json.rings/rank-0.ring", "", 0600);
  const tutti::FileDescriptor held(::open(ring.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  const LaunchedEnd end = run(2, {"--trace", file}, {TUTTI_TRACED});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.errors, HasSubstr("another job still records to it"));
  EXPECT_TRUE(fs::exists(ring));
}

// As under any launcher: the last rank merges.
TEST(TraceRun, IsMergedWithoutTheLauncher) {
  const Folder folder;
  const std::string file = folder.path("run.json");
  Launched::Setup setup;
  setup.environment["TUTTI_TRACE"] = file;
  const LaunchedEnd end = run(2, {}, {TUTTI_TRACED}, setup);
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.errors, Not(HasSubstr("run.json")));
  EXPECT_EQ(count(read(file), "call", "all_reduce"), 4 * 2);
}

TEST(TraceRun, LeavesRingsThatACommandMerges) {
  const Folder folder;
  const std::string file = folder.path("run.json");
  Launched::Setup setup;
  setup.environment["TUTTI_TRACE"] = file;
  setup.environment["TUTTI_TRACE_EVENTS"] = "64";
  EXPECT_EQ(run(2, {}, {TUTTI_TRACED, "kill"}, setup).exit_code, 128 + 9);
  EXPECT_FALSE(fs::exists(file));
  const LaunchedEnd end = launch({"trace", "--merge", file + ".rings"});
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("events of 2 ranks"));
  EXPECT_EQ(read(file).at("tutti").at("ranks"), 2);
  EXPECT_EQ(launch({"trace", "--merge", folder.path("none.rings")}).exit_code, 2);
  EXPECT_EQ(launch({"trace", "--merge", file}).exit_code, 2) << "where to?";
}

// Clocks of ranks that take each other for other hosts' are one clock here: what they found stays within what they say.
TEST(TraceRun, ComparesClocksOfHostsAsWellAsItSays) {
  const Folder folder;
  const std::string file = folder.path("run.json");
  const std::string script = "TUTTI_HOSTID=host-$((TUTTI_RANK / 2)) exec " TUTTI_TRACED;
  const LaunchedEnd end = launch(run_shell(4, script, {"--trace", file}));
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  const Json hosts = read(file).at("tutti").at("hosts");
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts.at(0).at("clock_offset_us"), 0);
  EXPECT_EQ(hosts.at(0).at("clock_error_us"), 0);
  EXPECT_GT(hosts.at(1).at("clock_error_us"), 0);
  EXPECT_LE(std::abs(hosts.at(1).at("clock_offset_us").get<double>()), hosts.at(1).at("clock_error_us").get<double>());
}

// Hosts whose clocks are 100 s apart, as machines that were started at different times: the second one's is ahead.
TEST(TraceRun, BringsClocksTogetherThatAreFarApart) {
  const std::string apart = "unshare --time --monotonic 100 --fork ";
  if (shell(apart + "true").exit_code != 0) GTEST_SKIP() << "a clock of one's own wants a time namespace";
  const Folder folder;
  const std::string file = folder.path("run.json");
  const std::string script = "export TUTTI_HOSTID=host-$((TUTTI_RANK / 2)); [ $TUTTI_RANK -lt 2 ] || exec " + apart +
                             TUTTI_TRACED "; exec " TUTTI_TRACED;
  const LaunchedEnd end = launch(run_shell(4, script, {"--trace", file}));
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  const Json trace = read(file);
  const Json host = trace.at("tutti").at("hosts").at(1);
  const double error = host.at("clock_error_us").get<double>();
  EXPECT_LT(error, 1e6);
  EXPECT_NEAR(host.at("clock_offset_us").get<double>(), -100e6, error);
  // So calls of all ranks lie beside each other: the last to enter comes before any that ends.
  std::map<int, std::pair<double, double>> calls;  // by number: the last begin, the first end
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") != "call") continue;
    const double begin = event.at("ts"), ends = begin + event.at("dur").get<double>();
    auto [at, is_new] = calls.try_emplace(event.at("args").at("seq").get<int>(), begin, ends);
    at->second = {std::max(at->second.first, begin), std::min(at->second.second, ends)};
  }
  EXPECT_EQ(calls.size(), 4u);
  for (const auto& [number, call] : calls) EXPECT_LT(call.first, call.second + 2 * error) << number;
}

TEST(TraceRun, OfRanksThatAreThreadsIsStartedByTheProgram) {
  const Folder folder;
  const std::string file = folder.path("run.json");
  const LaunchedEnd silent = run(1, {"--trace", file}, {TUTTI_TRACED, "threads"});
  EXPECT_THAT(silent.errors, HasSubstr("groups of run_threads and run_processes are recorded where the program"));
  EXPECT_EQ(run(1, {}, {TUTTI_TRACED, "threads", file}).exit_code, 0);
  EXPECT_EQ(count(read(file), "call", "barrier"), 2);
}

TEST(TraceRun, RefusesFilesThatCannotBe) {
  const Folder folder;
  const LaunchedEnd nowhere = run(2, {"--trace", folder.path("nowhere/run.json")}, {TUTTI_TRACED});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.errors, HasSubstr("there is no folder"));
  EXPECT_EQ(run(2, {"--trace", folder.path("")}, {TUTTI_TRACED}).exit_code, 2);
  const LaunchedEnd nothing = run(2, {"--trace", folder.path("run.json")}, {"true"});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.errors, HasSubstr("nothing was recorded"));
}

}  // namespace
}  // namespace tutti::testing
