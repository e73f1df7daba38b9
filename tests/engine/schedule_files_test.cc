// Schedules that callers bring: they run instead of the chosen ones where they fit, and wrong ones are refused before
// anything runs. And programs of our own, verified before they first run.
#include "engine/schedule_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "check.h"
#include "engine/factory.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/json.h"
#include "tutti/local.h"

namespace tutti::engine {
namespace {

using schedule::Lowered;
using Programs = std::vector<Lowered>;

// A file of this test's own.
class ProgramsFile {
 public:
  explicit ProgramsFile(const std::string& text) {
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("tutti-" + std::to_string(::getpid()) + "-" + std::to_string(++files_) + ".json");
    std::ofstream(path_) << text;
  }
  explicit ProgramsFile(const Programs& programs) : ProgramsFile(schedule::to_json(programs)) {}
  ~ProgramsFile() { std::filesystem::remove(path_); }
  ProgramsFile(const ProgramsFile&) = delete;
  ProgramsFile& operator=(const ProgramsFile&) = delete;

  Options options(const std::string& verb = "all_reduce") const {
    Options options;
    options.schedule = verb + "=" + path_;
    return options;
  }

 private:
  static inline int files_ = 0;
  std::string path_;
};

Offers slots() {
  Offers offers;
  offers.inside = {true, true, true, true, 4, 0};
  return offers;
}

Programs programs_of(Verb verb, const char* algorithm, int ranks, int root = 0) {
  Programs programs = schedule::lower_all(*schedule::find_algorithm(verb, algorithm), ranks, slots(), root);
  for (Lowered& lowered : programs) lowered.program.algorithm = "mine";
  return programs;
}

void expect_ends_well(const std::vector<RankEnd>& ends) {
  for (const RankEnd& end : ends) EXPECT_EQ(end.exit_code, 0) << end.message;
}

// Every rank says so.
void expect_refused(int ranks, const Options& options, const std::string& words) {
  for (const RankEnd& end : run_threads(
           ranks, [](Communicator&) {}, options)) {
    EXPECT_NE(end.exit_code, 0);
    EXPECT_NE(end.message.find(words), std::string::npos) << end.message;
  }
}

TEST(ScheduleFiles, RunInsteadOfTheChosenAlgorithm) {
  const ProgramsFile file(programs_of(Verb::all_reduce, "recursive_doubling", 3));
  const auto calls = [](Communicator& communicator) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
      std::vector<float> data(count, 1.0f), sums(count);
      communicator.all_reduce(data, sums);
      testing::require(communicator.last_algorithm() == "mine", "the schedule of the file runs");
      testing::require(sums.front() == 3 && sums.back() == 3, "and sums");
      communicator.all_reduce(data);  // in place
      testing::require(data.back() == 3, "in place as well");
      communicator.all_reduce_async(data).wait();
    }
    std::vector<int> ones(8, 1);
    communicator.broadcast(ones, 0);
    testing::require(communicator.last_algorithm() != "mine", "other verbs are chosen");
  };
  expect_ends_well(run_threads(3, calls, file.options()));
}

TEST(ScheduleFiles, RunForTheirRootOnly) {
  const ProgramsFile file(programs_of(Verb::broadcast, "binomial", 3, 1));
  const auto calls = [](Communicator& communicator) {
    for (const int root : {0, 1, 2}) {
      std::vector<int> data(100, communicator.rank());
      communicator.broadcast(data, root);
      testing::require(data.back() == root, "what the root has");
      testing::require((communicator.last_algorithm() == "mine") == (root == 1), "root 1 is that of the file");
    }
  };
  expect_ends_well(run_threads(3, calls, file.options("broadcast")));
}

TEST(ScheduleFiles, AreForGroupsOfTheirSize) {
  const ProgramsFile file(programs_of(Verb::all_reduce, "recursive_doubling", 4));
  const auto calls = [](Communicator& communicator) {
    Communicator half = communicator.split(communicator.rank() % 2);
    std::vector<float> data(10, 1.0f);
    half.all_reduce(data);
    testing::require(data[0] == 2 && half.last_algorithm() != "mine", "half the group chooses");
    communicator.all_reduce(data);
    testing::require(data[0] == 8 && communicator.last_algorithm() == "mine", "the group does not");
    Communicator same = communicator.duplicate();
    same.all_reduce(data);
    testing::require(same.last_algorithm() == "mine", "nor does its duplicate");
  };
  expect_ends_well(run_threads(4, calls, file.options()));
  expect_refused(3, file.options(), "is for 4 ranks, and this group has 3");
}

TEST(ScheduleFiles, RunOverStreamsWhereTheyAreWrittenForThem) {
  Offers streams;
  streams.inside.credits = 4;
  Programs programs = schedule::lower_all(*schedule::find_algorithm(Verb::all_reduce, "ring"), 3, streams);
  for (Lowered& lowered : programs) lowered.program.algorithm = "mine";
  const auto calls = [](Communicator& communicator) {
    std::vector<float> data(5000, 1.0f);
    communicator.all_reduce(data);
    testing::require(data.back() == 3 && communicator.last_algorithm() == "mine", "the sum, by the file");
  };
  const ProgramsFile file(programs);
  for (const TransportKind transport : {TransportKind::tcp, TransportKind::shm}) {
    Options options = file.options();
    options.deterministic = false;
    options.transport = transport;
    expect_ends_well(run_processes(3, calls, options));
  }
  Options options = file.options();
  expect_refused(3, options, "does not reduce in canonical order; set Options::deterministic to false");
  const ProgramsFile slots(programs_of(Verb::all_reduce, "recursive_doubling", 3));
  options = slots.options();
  options.transport = TransportKind::tcp;
  for (const RankEnd& end : run_processes(
           3, [](Communicator&) {}, options))
    EXPECT_NE(end.message.find("was written for ranks that all share memory"), std::string::npos) << end.message;
}

// Where the file's programs are right out of place only, the engine keeps the input aside.
TEST(ScheduleFiles, ThatAreWrongInPlaceKeepTheInput) {
  Programs programs = programs_of(Verb::all_reduce, "exchange", 2);
  for (Lowered& lowered : programs) {
    std::vector<schedule::Step>& steps = lowered.program.lanes[0].steps;
    const auto input = schedule::Operand::own(schedule::Buffer::input, {});
    const auto output = schedule::Operand::own(schedule::Buffer::output, {});
    const auto peer = schedule::Operand::slot(schedule::Index::plus(1));
    steps.insert(steps.begin() + 1, schedule::Step{schedule::StepOp::copy, false, {output}, {peer}, {}});
    steps[2].sources = lowered.program.rank == 0 ? std::vector{input, output} : std::vector{output, input};
  }
  const ProgramsFile file(programs);
  const auto calls = [](Communicator& communicator) {
    std::vector<float> data(100, 1.0f + static_cast<float>(communicator.rank()));
    communicator.all_reduce(data);
    testing::require(communicator.last_algorithm() == "mine" && data[99] == 3, "1 + 2");
  };
  expect_ends_well(run_threads(2, calls, file.options()));
}

TEST(ScheduleFiles, ThatAreWrongAreRefusedWithTheStory) {
  Programs programs = programs_of(Verb::all_reduce, "exchange", 3);
  programs[1].program.lanes[0].steps.clear();
  expect_refused(3, ProgramsFile(programs).options(), "does not verify: block 0 of rank 0's output never gets");
  expect_refused(3, ProgramsFile(programs).options(), "no lane of rank 1 sends to rank 0");
}

TEST(ScheduleFiles, ThatAreNotWhatTheyShouldBeAreRefused) {
  Options options;
  const auto expect = [&](const std::string& text, const std::string& words) {
    options.schedule = text;
    expect_refused(2, options, words);
  };
  expect("all_reduce=/nowhere/mine.json",
         "cannot read '/nowhere/mine.json', which is to hold the schedule of all_reduce: No such file");
  expect("all_reduce", "'all_reduce' should be verb=file");
  expect("all_redcue=x", "no verb 'all_redcue'; did you mean all_reduce?");
  expect("send_recv=x", "schedules are for verbs of the whole group");
  expect_refused(2, ProgramsFile("{\n  \"version\": 5,\n  oops\n}").options(), "not JSON from line 3, column 3 on: ");
  const ProgramsFile file(programs_of(Verb::all_gather, "ring", 2));
  expect_refused(2, file.options(), "is a schedule of all_gather, not of all_reduce");
  const ProgramsFile direct(programs_of(Verb::all_reduce, "direct", 2));
  expect_refused(2, direct.options(), "has windows onto the callers' input or output");
}

// Files that differ are found when ranks meet, and, where they do not meet, in the first call: never a hang.
TEST(ScheduleFiles, ThatDifferBetweenRanksAreAnError) {
  const ProgramsFile exchange(programs_of(Verb::all_reduce, "exchange", 2));
  const ProgramsFile doubling(programs_of(Verb::all_reduce, "recursive_doubling", 2));
  EXPECT_NE(words_of(read_schedules(exchange.options())), words_of(read_schedules(doubling.options())));
  auto mappers = make_threads_group(2);
  std::vector<std::string> words(2);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const Options options = rank == 0 ? exchange.options() : doubling.options();
        const auto engine = make_engine(std::move(mappers[rank]), options, Deadline::after(std::chrono::seconds(60)));
        float value = 1;
        engine->run(testing::all_reduce_of(&value, &value, 1, DType::float32));
      } catch (const Error& error) {
        words[rank] = std::string(name_of(error.code()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(words, (std::vector<std::string>{"mismatch", "mismatch"}));
}

// With Options::verify each program is verified once, before it first runs, whatever the number of calls and tracks.
TEST(Verified, IsEveryProgramOnceBeforeItRuns) {
  for (const bool verify : {true, false}) {
    auto mappers = make_threads_group(3);
    std::vector<std::thread> threads;
    std::vector<std::size_t> before(3), after_one(3), after_many(3), after_other(3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        Options options;
        options.verify = verify;
        options.algorithm = "all_reduce=recursive_doubling";
        const auto engine = make_engine(std::move(mappers[rank]), options, Deadline::after(std::chrono::seconds(60)));
        before[rank] = engine->verified_programs();
        float value = 1;
        const Request request = testing::all_reduce_of(&value, &value, 1, DType::float32);
        engine->run(request);
        after_one[rank] = engine->verified_programs();
        for (int call = 0; call < 9; ++call) engine->run(request);
        after_many[rank] = engine->verified_programs();
        engine->run({.verb = Verb::barrier});
        after_other[rank] = engine->verified_programs();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const std::size_t one = verify ? 1 : 0;
      EXPECT_EQ(after_one[rank], before[rank] + one);
      EXPECT_EQ(after_many[rank], after_one[rank]);
      EXPECT_EQ(after_other[rank], after_many[rank] + one);
    }
  }
}

// Among so many ranks each looks at itself and at rank 0.
TEST(Verified, AreManyRanksByOne) {
  constexpr int kMany = 66;
  Options options;
  options.verify = true;
  options.algorithm = "all_gather=ring";
  const auto calls = [](Communicator& communicator) {
    const std::vector<int> mine(1, communicator.rank());
    std::vector<int> all(kMany);
    communicator.all_gather(mine, all);
    testing::require(all.front() == 0 && all.back() == kMany - 1, "all have all");
  };
  expect_ends_well(run_threads(kMany, calls, options));
}

// Every row that a group of threads may run is as the engine lowers it.
TEST(Verified, EveryVerbRuns) {
  Options options;
  options.verify = true;
  const auto calls = [](Communicator& communicator) {
    std::vector<float> all(30, 1.0f), mine(10, 1.0f);
    communicator.all_reduce(all);
    communicator.broadcast(all, 1);
    communicator.all_gather(mine, all);
    communicator.reduce_scatter(all, mine);
    communicator.all_to_all(std::vector<float>(all), all);
    communicator.scan(std::vector<float>(mine), mine);
    communicator.barrier();
    const int next = (communicator.rank() + 1) % 3, previous = (communicator.rank() + 2) % 3;
    std::vector<float> got(10);
    communicator.send_recv(mine, next, got, previous);
  };
  expect_ends_well(run_threads(3, calls, options));
  options.transport = TransportKind::tcp;
  expect_ends_well(run_processes(3, calls, options));
}

}  // namespace
}  // namespace tutti::engine
