// The examples under `tutti run`: every number of ranks and every transport, their exit codes and what they say; the
// cheat sheet against a file that people read.
//
// After a change on purpose: TUTTI_UPDATE_GOLDEN=1 build/bin/examples_test --gtest_filter='CheatSheet.*', then read the
// diff, and bring the pictures of docs/api.md up to date, which are compared with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <ostream>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shell.h"

namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using tutti::testing::Ended;

constexpr const char* kGolden = TUTTI_SOURCE_DIRECTORY "/tests/examples/cheatsheet.4.txt";

struct Example {
  const char* name;
  const char* says;  // a regular expression; N stands for the number of ranks
};
void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

const Example kExamples[] = {
    {"argmax", "the largest of [0-9]+ scores is 1000: rank [0-9]+ has it"},
    {"cheatsheet", "every verb, between N ranks?, drawn as it happens"},
    {"digits", "ranks: N, dp: [0-9.]+ % of 1000 new digits are read right"},
    {"hello", "rank 0 of N: the sum of all ranks is"},
    {"identity", "average of [0-9]+ floats: reduce_scatter \\+ all_gather equals all_reduce"},
    {"in_place", "buffers that overlap otherwise +nothing: the call is refused"},
    {"mean", "ranks: N, values: 1000000, mean 1e9 \\+ 4\\.500000, variance 8\\.250000"},
    {"overlap", "(saved [0-9]+ %|nothing saved)"},
    {"ring_from_send_recv", "ranks: N, numbers: 1000003, the ring by hand equals comm.all_reduce"},
    {"softmax", "probabilities add up to 1\\.000000000000"},
};

std::string program(const std::string& name) { return std::string(TUTTI_EXAMPLES_DIRECTORY) + "/" + name; }

Ended run(const std::string& name, int ranks, const std::string& transport, const std::string& redirect = "2>&1") {
  return tutti::testing::shell("TUTTI_TRANSPORT=" + transport + " " + TUTTI_TOOL + " run --no-prefix -n " +
                                   std::to_string(ranks) + " -- " + program(name),
                               redirect);
}

std::string with_ranks(std::string text, int ranks) {
  const std::size_t at = text.find('N');
  return at == std::string::npos ? text : text.replace(at, 1, std::to_string(ranks));
}

std::string contents_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Examples : public testing::TestWithParam<std::tuple<Example, int, const char*>> {};

TEST_P(Examples, AreRight) {
  const auto& [example, ranks, transport] = GetParam();
  const Ended ended = run(example.name, ranks, transport);
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, ContainsRegex(with_ranks(example.says, ranks)));
}

INSTANTIATE_TEST_SUITE_P(All, Examples,
                         testing::Combine(testing::ValuesIn(kExamples), testing::Values(1, 3, 4),
                                          testing::Values("shm", "tcp")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::to_string(std::get<1>(test.param)) + "_" + std::get<2>(test.param);
                         });

class Alone : public testing::TestWithParam<Example> {};

TEST_P(Alone, IsAGroupOfOne) {
  const Ended ended = tutti::testing::shell(program(GetParam().name));
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, ContainsRegex(with_ranks(GetParam().says, 1)));
}

INSTANTIATE_TEST_SUITE_P(All, Alone, testing::ValuesIn(kExamples),
                         [](const auto& test) { return std::string(test.param.name); });

// How often an example's workers have updated values in one way of keeping them together, as it tells.
int updates_of(const std::string& output, const std::string& way) {
  const std::string before = "updates:";
  const std::size_t at = output.find(before, output.find("\n" + way + " "));
  return at == std::string::npos ? -1 : std::atoi(output.c_str() + at + before.size());
}

// Times and losses, from knowing nothing, which is ln 2, down. Who looks first may do so behind others' first updates.
void expect_falling(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::pair<double, double>> curve;
  for (double seconds = 0, loss = 0; file >> seconds >> loss;) curve.emplace_back(seconds, loss);
  ASSERT_GE(curve.size(), 3u) << path;
  EXPECT_LT(curve.front().second, std::numbers::ln2 + 1e-3) << path;
  EXPECT_LT(curve.back().second, std::min(0.9 * std::numbers::ln2, curve.front().second)) << path;
  EXPECT_TRUE(std::ranges::is_sorted(curve, {}, &std::pair<double, double>::first)) << path << ": time goes on";
}

TEST(ParameterServer, LearnsInEveryWayAndWaitsForTheSlowOneInSome) {
  std::string folder = (std::filesystem::temp_directory_path() / "tutti_losses_XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  for (const char* transport : {"shm", "tcp"}) {
    const Ended ended = run("parameter_server --losses " + folder, 4, transport);
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    for (const std::string way : {"synchronous", "stale", "asynchronous"}) {
      EXPECT_THAT(ended.output, ContainsRegex("\n" + way + " +workers: 3, one slow, updates: +[0-9]+, loss 0\\.[0-6]"));
      expect_falling(folder + "/" + way + ".txt");
    }
    EXPECT_GT(updates_of(ended.output, "stale"), 0) << ended.output;
    EXPECT_GT(updates_of(ended.output, "synchronous"), 0) << ended.output;
    EXPECT_GT(updates_of(ended.output, "asynchronous"), updates_of(ended.output, "synchronous")) << ended.output;
  }
  std::filesystem::remove_all(folder);
  const Ended alone = tutti::testing::shell(program("parameter_server"));
  EXPECT_EQ(alone.exit_code, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("workers: 4, one slow"));
}

TEST(ActorLearner, KeepsThePoleUp) {
  const Ended ended = run("actor_learner --report", 3, "shm");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, ContainsRegex("actors: 2, the pole stays up after [0-9.]+ s"));
  EXPECT_THAT(ended.output, HasSubstr("times trajectory of 1816 bytes"));
  const Ended alone = tutti::testing::shell(program("actor_learner"));
  EXPECT_EQ(alone.exit_code, 0) << alone.output;
}

// Steps of a strategy, as digits tells them.
std::string told_by_digits(const std::string& strategy) {
  const Ended ended = run("digits --steps 60 --strategy " + strategy, 4, "shm");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  return ended.output.substr(0, ended.output.find("ranks:"));
}

TEST(Digits, AreLearnedAlikeByEveryStrategy) {
  const std::string data_parallel = told_by_digits("dp");
  EXPECT_THAT(data_parallel, ContainsRegex("step 50 of 60, 83 % \\| loss [0-9.]+ \\| norm [0-9.]+\n"));
  for (const char* strategy : {"zero1", "zero2", "zero3"})
    EXPECT_EQ(told_by_digits(strategy), data_parallel) << strategy;
}

TEST(Digits, AreLearnedWhereSomeRanksHaveNoExamples) {
  const Ended ended = run("digits --batch 2 --steps 1000 --strategy zero3", 3, "shm");
  EXPECT_THAT(ended.output, ContainsRegex("ranks: 3, zero3: [0-9.]+ % of 1000 new digits are read right"));
}

TEST(Digits, AreLearnedWithFewerBytes) {
  for (const char* options : {"bf16", "int8 --strategy zero1", "int4", "e3m0 --strategy zero3", "topk --strategy zero2",
                              "power_sgd", "one_bit"}) {
    const Ended ended = run("digits --report --compress " + std::string(options), 4, "shm");
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_THAT(ended.output,
                ContainsRegex("(bfloat16|int8|int4|e3m0|the largest|rank 4|in the place of) gradients of bucket"))
        << options;
  }
}

TEST(Digits, TellAReportAndRefuseWhatTheyDoNotKnow) {
  const std::string picture =
      (fs::temp_directory_path() / ("tutti_digits_" + std::to_string(::getpid()) + ".svg")).string();
  EXPECT_THAT(
      run("digits --steps 50 --strategy zero1 --report --noise --svg " + picture, 2, "tcp").output,
      testing::AllOf(HasSubstr("ZeRO stage 1, 2 ranks, after 50 steps"), HasSubstr("reduce_scatter"),
                     HasSubstr("communication over computation"),
                     ContainsRegex("step 50 of 50, 100 % \\| loss [0-9.]+ \\| norm [0-9.]+ \\| .* examples/s\n"),
                     ContainsRegex("gradient noise scale .*batch of 128")));
  EXPECT_THAT(contents_of(picture), testing::AllOf(testing::StartsWith("<svg "), HasSubstr("bucket 3")));
  fs::remove(picture);
  const auto refused = [](const std::string& arguments) {
    const Ended ended = tutti::testing::shell(program("digits ") + arguments);
    EXPECT_EQ(ended.exit_code, 1);
    return ended.output;
  };
  EXPECT_THAT(refused("--strategy zero7"), HasSubstr("there is no strategy 'zero7'"));
  EXPECT_THAT(refused("--noise"), HasSubstr("--noise compares gradients of ranks that train as one"));
  EXPECT_THAT(refused("--compress int7"), HasSubstr("there is no compression 'int7'; it is one of none, bf16,"));
  EXPECT_THAT(refused("--steps x"), HasSubstr("--steps takes a number from 1 on, not 'x'"));
  EXPECT_THAT(refused("--stepz 1"), HasSubstr("there is no option '--stepz'"));
}

TEST(Digits, AreLearnedByRanksThatSeldomExchange) {
  for (const int ranks : {1, 3}) {
    const Ended ended = run("digits --local-updates 20 --report", ranks, "tcp");
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_THAT(ended.output, ContainsRegex("ranks: [13], dp: [0-9.]+ % of 1000 new digits are read right"));
    EXPECT_THAT(ended.output, HasSubstr("local updates every 20 steps, " + std::to_string(ranks) + " replicas"));
    EXPECT_THAT(ended.output, HasSubstr("outer gradients of fragment 0"));
  }
  EXPECT_THAT(run("digits --local-updates 20 --batch 2", 3, "shm").output, HasSubstr("give 3 at least"));
  const Ended refused = tutti::testing::shell(program("digits --local-updates 0"));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("--local-updates takes a number from 1 on"));
}

// ---- Checkpoints of digits.

class SavedDigits : public testing::Test {
 protected:
  SavedDigits() : folder_((fs::temp_directory_path() / "tutti_digits_XXXXXX").string()) {
    if (::mkdtemp(folder_.data()) == nullptr) std::abort();
  }
  ~SavedDigits() override { fs::remove_all(folder_); }

  std::string learn(const std::string& arguments, int ranks) {
    const Ended ended = run("digits " + arguments, ranks, "shm");
    EXPECT_EQ(ended.exit_code, 0) << arguments << "\n" << ended.output;
    return ended.output;
  }
  std::string in(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

// An epoch has 47 batches, so that step 60 is in the middle of the second one.
TEST_F(SavedDigits, GoOnInTheMiddleOfAnEpochToTheBitsOfARunThatNeverStopped) {
  learn("--strategy zero2 --steps 120 --save " + in("whole"), 4);
  learn("--strategy zero1 --steps 60 --save " + in("parts"), 4);
  const std::string told = learn("--strategy zero2 --steps 120 --resume " + in("parts") + " --save " + in("parts"), 4);
  EXPECT_THAT(told, HasSubstr("goes on from step 60"));
  for (const char* file : {"rank-00000", "rank-00001", "rank-00002", "rank-00003"}) {
    const std::string name = std::string("/step-00000120/") + file + ".safetensors";
    const std::string whole = contents_of(in("whole") + name);
    EXPECT_FALSE(whole.empty());
    EXPECT_EQ(contents_of(in("parts") + name), whole) << file;
  }
}

// Every replica has a folder of its own.
TEST_F(SavedDigits, GoOnAsReplicasToTheBitsOfARunThatNeverStopped) {
  learn("--local-updates 15 --steps 80 --save " + in("whole"), 3);
  learn("--local-updates 15 --steps 50 --save " + in("parts"), 3);
  const std::string told = learn("--local-updates 15 --steps 80 --resume " + in("parts") + " --save " + in("parts"), 3);
  EXPECT_THAT(told, HasSubstr("goes on from step 50"));
  for (const char* replica : {"replica-0", "replica-1", "replica-2"}) {
    const std::string name = std::string("/") + replica + "/step-00000080/rank-00000.safetensors";
    const std::string whole = contents_of(in("whole") + name);
    EXPECT_FALSE(whole.empty());
    EXPECT_EQ(contents_of(in("parts") + name), whole) << replica;
  }
}

// Reads what a job says, and kills rank 2 as soon as the second checkpoint is there, wherever that rank is.
TEST_F(SavedDigits, GoOnOnFewerRanksWhenOneWasKilled) {
  const std::string command =
      std::string(TUTTI_TOOL) + " run --no-prefix -n 4 -- sh -c '[ $TUTTI_RANK != 2 ] || echo pid $$; exec " +
      program("digits") + " --strategy zero2 --steps 1000000 --save-every 20 --save " + in("run") + "' 2>&1";
  FILE* job = ::popen(command.c_str(), "r");
  ASSERT_NE(job, nullptr);
  std::string said;
  pid_t rank_2 = 0;
  for (std::array<char, 4096> line{}; std::fgets(line.data(), line.size(), job) != nullptr;) {
    const std::string words = line.data();
    said += words;
    if (words.starts_with("pid ")) rank_2 = std::stoi(words.substr(4));
    if (words == "saved step 40\n" && rank_2 > 0) ::kill(rank_2, SIGKILL);
  }
  EXPECT_NE(::pclose(job), 0);
  // Each of the others throws it out of its step.
  for (const char* rank : {"0", "1", "3"})
    EXPECT_THAT(said, testing::ContainsRegex(std::string("rank ") + rank + "[^\n]*rank 2 has ended")) << rank;

  long long step = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(in("run"))) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension().empty()) step = std::max(step, std::stoll(name.substr(name.find('-') + 1)));
  }
  ASSERT_GE(step, 40);
  // What is left goes on to the bits of a run that nobody disturbed, stopped at the same step and resumed as well.
  learn("--strategy zero1 --steps " + std::to_string(step) + " --save " + in("undisturbed"), 4);
  const std::string end = std::to_string(step + 10);
  for (const std::string run : {"run", "undisturbed"}) {
    const std::string told =
        learn("--strategy zero3 --steps " + end + " --resume " + in(run) + " --save " + in(run), 3);
    EXPECT_THAT(told, HasSubstr("goes on from step " + std::to_string(step)));
  }
  const std::string folder = "/step-" + std::string(8 - end.size(), '0') + end;
  for (const char* rank : {"/rank-00000", "/rank-00001", "/rank-00002"}) {
    const std::string file = folder + rank + ".safetensors";
    EXPECT_FALSE(contents_of(in("run") + file).empty()) << file;
    EXPECT_EQ(contents_of(in("run") + file), contents_of(in("undisturbed") + file)) << file;
  }
}

TEST_F(SavedDigits, RefuseToResumeFromNothing) {
  const Ended ended = tutti::testing::shell(program("digits --resume ") + in("nothing"));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("there is no checkpoint in " + in("nothing") + "; run with --save first"));
}

TEST(CheatSheet, IsAsReviewedOnFourRanks) {
  const Ended ended = run("cheatsheet", 4, "shm", "2>/dev/null");
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  if (std::getenv("TUTTI_UPDATE_GOLDEN") != nullptr) std::ofstream(kGolden) << ended.output;
  EXPECT_EQ(ended.output, contents_of(kGolden));
}

TEST(CheatSheet, IsTheSameOverTcp) {
  EXPECT_EQ(run("cheatsheet", 4, "tcp", "2>/dev/null").output, contents_of(kGolden));
}

TEST(CheatSheet, DrawsTheFirstRanksWhereThereAreMany) {
  const Ended ended = run("cheatsheet", 8, "shm");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("every verb, between 6 ranks"));
}

TEST(CheatSheet, IsColouredOnATerminalOnly) {
  EXPECT_THAT(contents_of(kGolden), testing::Not(HasSubstr("\033[")));
  const std::string command =
      "timeout 120 " + std::string(TUTTI_TOOL) + " run --no-prefix -n 2 -- " + program("cheatsheet");
  const Ended on_terminal = tutti::testing::shell("script -qec '" + command + "' /dev/null");
  EXPECT_EQ(on_terminal.exit_code, 0) << on_terminal.output;
  EXPECT_THAT(on_terminal.output, HasSubstr("\033[30;48;5;153m A0 \033[0m"));
}

}  // namespace
