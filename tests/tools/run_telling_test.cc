// `tutti run` and what it is told and tells: the variables of ranks, binding, several hosts, and bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "tools/launched.h"

namespace tutti::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void expect_refused(const Words& words, const std::string& complaint, const Launched::Setup& setup = {}) {
  const LaunchedEnd end = launch(words, setup);
  EXPECT_EQ(end.exit_code, 2) << complaint;
  EXPECT_THAT(end.errors, HasSubstr(complaint));
  EXPECT_THAT(end.errors, StartsWith("tutti run: "));
  EXPECT_EQ(end.output, "") << "no rank may have started";
}

std::map<std::string, std::string> variables_of(const LaunchedEnd& end, int rank) {
  std::map<std::string, std::string> variables;
  const std::string prefix = "[" + std::to_string(rank) + "] ";
  for (const std::string& line : lines_of(end.output)) {
    const std::size_t equals = line.find('=');
    if (line.starts_with(prefix) && equals != std::string::npos) {
      variables[line.substr(prefix.size(), equals - prefix.size())] = line.substr(equals + 1);
    }
  }
  return variables;
}

TEST(RunTelling, TellsRanksWhoTheyAre) {
  Launched::Setup setup;
  setup.environment = {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TUTTI_TOKEN_FILE", "/left/over"}, {"MINE", "kept"}};
  const LaunchedEnd end = launch({"run", "-n", "3", "env"}, setup);
  std::set<std::string> tokens;
  for (int rank = 0; rank < 3; ++rank) {
    auto found = variables_of(end, rank);
    for (const char* name : {"TUTTI_RANK", "TUTTI_LOCAL_RANK", "RANK", "LOCAL_RANK"}) {
      EXPECT_EQ(found[name], std::to_string(rank)) << name;
    }
    for (const char* name : {"TUTTI_SIZE", "TUTTI_LOCAL_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}) {
      EXPECT_EQ(found[name], "3") << name;
    }
    EXPECT_EQ(found["TUTTI_LOBBY"], "launcher");
    EXPECT_THAT(found["TUTTI_RENDEZVOUS"], ContainsRegex("^unix:@tutti-run-[0-9a-f]{16}$"));
    EXPECT_THAT(found["TUTTI_JOB"], ContainsRegex("^run-[0-9a-f]{16}$"));
    EXPECT_THAT(found["TUTTI_TOKEN"], ContainsRegex("^[0-9a-f]{64}$"));
    EXPECT_EQ(found["GROUP_RANK"], "0");
    EXPECT_EQ(found["GROUP_WORLD_SIZE"], "1");
    EXPECT_EQ(found["NODE_RANK"], "0");
    EXPECT_EQ(found["MASTER_ADDR"], "127.0.0.1");
    EXPECT_GT(std::stoi(found["MASTER_PORT"]), 1023);
    EXPECT_GE(std::stoi(found["OMP_NUM_THREADS"]), 1);
    EXPECT_EQ(found["MINE"], "kept");
    EXPECT_EQ(found.count("TORCHELASTIC_USE_AGENT_STORE"), 0U) << "nobody keeps torch's store for the ranks";
    EXPECT_EQ(found.count("TUTTI_TOKEN_FILE"), 0U) << "a local job has a token of its own";
    tokens.insert(found["TUTTI_TOKEN"]);
  }
  EXPECT_EQ(tokens.size(), 1U);
}

TEST(RunTelling, RespectsWhatTheUserHasSet) {
  Launched::Setup setup;
  setup.environment = {{"OMP_NUM_THREADS", "7"}};
  auto found = variables_of(launch({"run", "-n", "1", "--master-port", "29511", "--job", "mine", "env"}, setup), 0);
  EXPECT_EQ(found["OMP_NUM_THREADS"], "7");
  EXPECT_EQ(found["MASTER_PORT"], "29511");
  EXPECT_EQ(found["TUTTI_JOB"], "mine");
}

TEST(RunTelling, TheTokenIsOnNoCommandLineAndInNoOutput) {
  Launched job(run_shell(2, "echo token $TUTTI_TOKEN; sleep 60 & wait"));
  ASSERT_TRUE(job.shows("token ", 2));
  std::smatch match;
  const std::string shown = job.output();
  ASSERT_TRUE(std::regex_search(shown, match, std::regex("token ([0-9a-f]{64})")));
  const std::string token = match[1];
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(line, Not(HasSubstr(token))) << entry.path();
    if (!line.empty()) ++seen;
  }
  EXPECT_GE(seen, 3);
  job.signal(SIGTERM);
  EXPECT_THAT(job.finish().errors, Not(HasSubstr(token)));
}

TEST(RunTelling, ShowsItsPlanWithoutTheToken) {
  const LaunchedEnd end = launch({"run", "-n", "2", "--dry-run", "--", "no-such-program"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.output, HasSubstr("rank 1\n"));
  EXPECT_THAT(end.output, HasSubstr("  TUTTI_RANK=1\n"));
  EXPECT_THAT(end.output, HasSubstr("  TUTTI_TOKEN=(hidden)\n"));
}

std::size_t allowed_processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<std::size_t>(CPU_COUNT(&set)) : 0;
}

TEST(RunTelling, BindsRanksToCores) {
  const std::string script = "grep Cpus_allowed_list /proc/self/status";
  const LaunchedEnd free = launch(run_shell(1, script));
  const LaunchedEnd bound = launch(run_shell(2, script, {"--bind", "core"}));
  EXPECT_EQ(bound.exit_code, 0);
  auto lines = lines_of(bound.output);
  ASSERT_EQ(lines.size(), 2U);
  std::sort(lines.begin(), lines.end());
  const auto where = [](const std::string& line) { return line.substr(line.find('\t') + 1); };
  if (allowed_processors() < 2) GTEST_SKIP() << "one processor: nothing to choose from";
  if (bound.errors.empty()) {
    EXPECT_NE(where(lines[0]), where(lines[1]));
    EXPECT_NE(where(lines[0]), where(lines_of(free.output).at(0))) << "free ranks may run anywhere";
  } else {
    EXPECT_EQ(where(lines[0]), where(lines[1])) << "one core with several hardware threads";
  }
}

TEST(RunTelling, WarnsWhereBoundRanksShareCores) {
  const int ranks = static_cast<int>(allowed_processors()) + 1;
  const LaunchedEnd end = launch(run_shell(ranks, "exit 0", {"--bind", "core"}));
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.errors, HasSubstr("tutti run: " + std::to_string(ranks) + " ranks are bound to "));
  EXPECT_EQ(launch(run_shell(ranks, "exit 0")).errors, "");
}

TEST(RunTelling, WrongUsageNamesTheRemedy) {
  expect_refused({"run"}, "name the program to run, as in: tutti run -n 4");
  expect_refused({"run", "-n", "2", "--"}, "name the program to run");
  expect_refused({"run", "-n", "0", "echo"}, "-n must be 1 to 4096, not 0");
  expect_refused({"run", "-n", "-2", "echo"}, "-n must be 1 to 4096, not -2");
  expect_refused({"run", "-n", "abc", "echo"}, "tutti run: -n needs a number of ranks, not 'abc'\n");
  expect_refused({"run", "-nabc", "echo"}, "-n needs a number of ranks, not 'abc'\n");
  expect_refused({"run", "--nnodes", "two", "echo"}, "--nnodes needs a number of hosts, not 'two'");
  expect_refused({"run", "--node-rank", "x", "echo"}, "--node-rank needs the number of this host, from 0, not 'x'");
  expect_refused({"run", "--master-port", "x", "echo"}, "--master-port needs the number of a port, not 'x'");
  expect_refused({"run", "--grace", "long", "echo"}, "--grace needs a number of seconds, not 'long'");
  expect_refused({"run", "--dance", "echo"}, "--dance");
  expect_refused({"run", "--bind", "socket", "echo"}, "--bind must be core or none, not 'socket'");
  expect_refused({"run", "--grace", "-1", "echo"}, "--grace must be");
  expect_refused({"run", "--grace", "nan", "echo"}, "--grace must be");
  expect_refused({"run", "--master-port", "70000", "echo"}, "--master-port must be 1 to 65535, not 70000");
  expect_refused({"run", "--nnodes", "0", "echo"}, "--nnodes must be at least 1");
  expect_refused({"run", "--node-rank", "1", "echo"}, "--node-rank is 1, but --nnodes 1 has the node ranks 0 to 0");
  expect_refused({"run", "--nnodes", "2", "-n", "1", "echo"}, "--nnodes needs --node-rank");
  expect_refused({"run", "--nnodes", "2", "--node-rank", "2", "echo"}, "--node-rank is 2, but --nnodes 2");
  expect_refused({"run", "--nnodes", "2", "--node-rank", "0", "echo"}, "--nnodes needs -n");
  expect_refused({"run", "--nnodes", "2", "--node-rank", "0", "-n", "1", "echo"},
                 "--nnodes needs --rendezvous host:port");
}

TEST(RunTelling, TooFewDescriptors) {
  Launched::Setup setup;
  setup.most_descriptors = 256;
  expect_refused({"run", "-n", "100", "echo"}, "`ulimit -n 560`", setup);
  EXPECT_EQ(launch({"run", "-n", "8", "true"}, setup).exit_code, 0);
}

Words two_hosts(int host, const Words& options) {
  Words words{"run", "--nnodes", "2", "--node-rank", std::to_string(host), "-n", "2"};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("env");
  return words;
}

TEST(RunTelling, SeveralHostsNeedATokenFileThatIsPrivate) {
  const Folder folder;
  const std::string good(64, 'a');
  const Words there{"--rendezvous", "127.0.0.1:29733"};
  const auto with = [&](const std::string& file) {
    Words words = there;
    words.insert(words.end(), {"--token-file", file});
    return two_hosts(1, words);
  };
  expect_refused(two_hosts(1, there), "`tutti token job.token`");
  expect_refused(with("/no/such/file"), "the token file '/no/such/file' cannot be read");
  expect_refused(with(folder.with("open", good, 0644)), "chmod 600");
  expect_refused(with(folder.with("short", "abc", 0600)), "64 hexadecimal digits");
  Launched::Setup setup;
  setup.environment = {{"TUTTI_TOKEN_FILE", folder.with("empty", "", 0600)}};
  expect_refused(two_hosts(1, there), "64 hexadecimal digits", setup);
}

TEST(RunTelling, SeveralHostsNeedAPlaceToMeet) {
  const Folder folder;
  const std::string token = folder.with("token", std::string(64, 'a'), 0600);
  const auto at = [&](const std::string& place) {
    return two_hosts(0, {"--token-file", token, "--rendezvous", place});
  };
  expect_refused(at("node0"), "--rendezvous is 'node0'; it must be host:port");
  expect_refused(at("node0:0"), "it must be host:port");
  expect_refused(at("unix:@here"), "it must be host:port");
  expect_refused(at("no-such-host.invalid:29400"), "the host 'no-such-host.invalid' cannot be resolved");
  expect_refused(at("localhost:29400"), "where other hosts cannot reach it");
  expect_refused(at("127.0.0.1:65535"), "--master-port");
}

TEST(RunTelling, ErrorsOfTheSystemAreSaidWithoutACode) {
  const Folder folder;
  const std::string token = folder.with("token", std::string(64, 'a'), 0600);
  const LaunchedEnd end = launch(two_hosts(0, {"--token-file", token, "--rendezvous", "192.0.2.1:29735"}));
  EXPECT_EQ(end.exit_code, 1) << end.errors;
  EXPECT_THAT(end.errors, StartsWith("tutti run: "));
  EXPECT_THAT(end.errors, Not(HasSubstr("system: "))) << "a word of ours, not of the user's";
}

TEST(RunTelling, RanksAreCountedAcrossHosts) {
  const Folder folder;
  const std::string token = folder.with("token", std::string(64, 'a') + "\n", 0600);
  const LaunchedEnd end = launch(two_hosts(1, {"--token-file", token, "--rendezvous", "127.0.0.1:29734"}));
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  auto found = variables_of(end, 3);
  EXPECT_EQ(found["TUTTI_RANK"], "3");
  EXPECT_EQ(found["TUTTI_LOCAL_RANK"], "1");
  EXPECT_EQ(found["TUTTI_SIZE"], "4");
  EXPECT_EQ(found["TUTTI_LOCAL_SIZE"], "2");
  EXPECT_EQ(found["GROUP_RANK"], "1");
  EXPECT_EQ(found["GROUP_WORLD_SIZE"], "2");
  EXPECT_EQ(found["TUTTI_RENDEZVOUS"], "127.0.0.1:29734");
  EXPECT_EQ(found["TUTTI_JOB"], "run-127.0.0.1:29734");
  EXPECT_EQ(found["MASTER_ADDR"], "127.0.0.1");
  EXPECT_EQ(found["MASTER_PORT"], "29735");
  EXPECT_EQ(found["TUTTI_TOKEN_FILE"], token);
  EXPECT_EQ(found.count("TUTTI_TOKEN"), 0U);
}

}  // namespace
}  // namespace tutti::testing
