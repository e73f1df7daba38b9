// Checkpoints go on under another strategy and number of ranks to the bits of a run that was never disturbed; saves end
// on all ranks or on none; what is damaged changes nothing.
#include "tutti/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "effort.h"
#include "train/one_process.h"
#include "train/saved_folder.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::OneProcess;
using testing::Ranks;
using testing::require;
using testing::SavedFolder;
using testing::ToyModel;
using train::Checkpoints;
using train::Strategy;
using train::TrainingPosition;

const train::Optimizer kAdamW = train::AdamW{.learning_rate = 1e-2};

Strategy make(int stage, Communicator& comm, const ToyModel& model, const train::Optimizer& optimizer = kAdamW,
              train::StrategyOptions options = {}) {
  options.bucket_bytes = 10'000;
  return stage == 0 ? train::data_parallel(comm, model.parameters, optimizer, options)
                    : train::zero(stage, comm, model.parameters, optimizer, options);
}

void train_on(Strategy& strategy, const ToyModel& model, int rank, int from, int to) {
  for (int step = from; step < to; ++step) testing::train_step(strategy, model, rank, step);
}

void on_ranks(int ranks, const std::function<void(Communicator&)>& body, Ranks kind = Ranks::threads) {
  testing::expect_all_ok(testing::run_ranks(kind, ranks, body));
}

// Trains `steps` steps and saves.
void save_on(const SavedFolder& folder, int ranks, int stage, const ToyModel& model, int steps,
             const train::Optimizer& optimizer = kAdamW) {
  on_ranks(ranks, [&](Communicator& comm) {
    Strategy strategy = make(stage, comm, model, optimizer);
    train_on(strategy, model, comm.rank(), 0, steps);
    Checkpoints checkpoints(comm, folder.path());
    checkpoints.save(strategy, {.step = steps, .sampler = {3, 40}, .notes = {{"run", "a \"first\" one"}}});
  });
}

// Loads and trains on, up to `end` steps.
void go_on(const SavedFolder& folder, int ranks, int stage, const ToyModel& model, int end,
           const std::vector<testing::Bytes>& expected, const train::Optimizer& optimizer = kAdamW) {
  on_ranks(ranks, [&](Communicator& comm) {
    Strategy strategy = make(stage, comm, model, optimizer);
    Checkpoints checkpoints(comm, folder.path());
    const std::optional<TrainingPosition> at = checkpoints.load(strategy);
    require(at.has_value(), "a checkpoint");
    train_on(strategy, model, comm.rank(), static_cast<int>(at->step), end);
    require(strategy.updates() == end, "updates");
    require(testing::values_of(strategy, model) == expected,
            std::to_string(ranks) + " ranks, stage " + std::to_string(stage) + ": the bits of an undisturbed run");
    strategy.verify();
  });
}

// What one process comes to, with the partial gradients of so many ranks before and after.
std::vector<testing::Bytes> undisturbed(const ToyModel& model, int ranks_before, int steps_before, int ranks_after,
                                        int end, const train::Optimizer& optimizer = kAdamW) {
  OneProcess reference(model, optimizer, std::nullopt);
  for (int step = 0; step < end; ++step)
    reference.step_of_means(step < steps_before ? ranks_before : ranks_after, step);
  return reference.values();
}

class GoingOn : public ::testing::TestWithParam<DType> {};

TEST_P(GoingOn, OnAnotherNumberOfRanksUnderAnotherStrategy) {
  constexpr int kSaved = 10, kEnd = 16;
  const ToyModel model(GetParam());
  SavedFolder folder;
  save_on(folder, 4, 2, model, kSaved);
  for (const auto& [ranks, stage] : std::vector<std::pair<int, int>>{{3, 0}, {3, 1}, {3, 3}, {1, 0}, {4, 2}, {8, 3}})
    go_on(folder, ranks, stage, model, kEnd, undisturbed(model, 4, kSaved, ranks, kEnd));
}

TEST_P(GoingOn, FromEveryStrategy) {
  constexpr int kSaved = 3, kEnd = 6;
  const ToyModel model(GetParam());
  const std::vector<testing::Bytes> expected = undisturbed(model, 3, kSaved, 2, kEnd);
  for (const int from : {0, 1, 3}) {
    SavedFolder folder;
    save_on(folder, 3, from, model, kSaved);
    for (const int to : {0, 1, 2, 3}) go_on(folder, 2, to, model, kEnd, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoingOn, ::testing::Values(DType::float32, DType::bfloat16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(GoingOnWith, EveryOptimizer) {
  const ToyModel model;
  for (const train::Optimizer& optimizer :
       std::vector<train::Optimizer>{train::Adam{}, train::Lion{}, train::Sgd{}, train::Sgd{.momentum = 0.9},
                                     train::AdamW{.state = train::StateType::eight_bits}}) {
    SavedFolder folder;
    save_on(folder, 2, 1, model, 3, optimizer);
    go_on(folder, 3, 3, model, 6, undisturbed(model, 2, 3, 3, 6, optimizer), optimizer);
  }
}

// Checkpoints hold float32, whatever an optimizer keeps: from 8 bits to float32 nothing is lost, back next to nothing.
TEST(GoingOnWith, StatesOfAnotherType) {
  const ToyModel model;
  const train::Optimizer full = train::AdamW{}, few = train::AdamW{.state = train::StateType::eight_bits};
  for (const bool to_few : {false, true}) {
    SavedFolder folder;
    save_on(folder, 2, 1, model, 3, to_few ? full : few);
    on_ranks(2, [&](Communicator& comm) {
      Strategy strategy = make(0, comm, model, to_few ? few : full), saved = make(0, comm, model, to_few ? full : few);
      Checkpoints checkpoints(comm, folder.path());
      require(checkpoints.load(strategy).has_value() && checkpoints.load(saved).has_value(), "a checkpoint");
      const std::vector<train::OwnedPart> now = strategy.owned(), then = saved.owned();
      for (std::size_t i = 0; i < now.size(); ++i) {
        for (std::size_t e = 0; e < now[i].count; ++e) {
          const float v = now[i].shard.states[1][e], exact = then[i].shard.states[1][e];
          require(to_few ? std::abs(v - exact) <= exact / 16 + 1e-9F : v == exact, "variances");
        }
      }
      train_on(strategy, model, comm.rank(), 3, 5);
      strategy.verify();
    });
  }
}

TEST(GoingOnWith, ProcessesOverTcp) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(
      3,
      [&](Communicator& comm) {
        Strategy strategy = make(2, comm, model);
        train_on(strategy, model, comm.rank(), 0, 2);
        Checkpoints(comm, folder.path()).save(strategy, {.step = 2});
      },
      Ranks::tcp);
  go_on(folder, 2, 0, model, 4, undisturbed(model, 3, 2, 2, 4));
}

// The scale grows every fourth step without overflow: three are behind the checkpoint, and the next one must count.
TEST(GoingOnWith, TheLossScale) {
  const ToyModel model(DType::float16);
  train::StrategyOptions options;
  options.loss_scale = train::LossScale{.initial = 8, .interval = 4};
  SavedFolder folder;
  std::vector<testing::Bytes> whole;
  on_ranks(1, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model, kAdamW, options);
    train_on(strategy, model, 0, 0, 7);
    require(strategy.loss_scale() == 16 && strategy.steps_since_overflow() == 3, "grown once");
    Checkpoints(comm, folder.path()).save(strategy, {.step = 7});
    train_on(strategy, model, 0, 7, 9);
    require(strategy.loss_scale() == 32, "grown twice");
    whole = testing::values_of(strategy, model);
  });
  on_ranks(1, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model, kAdamW, options);
    Checkpoints(comm, folder.path()).load(strategy);
    require(strategy.loss_scale() == 16, "the scale that was saved");
    train_on(strategy, model, 0, 7, 9);
    require(strategy.loss_scale() == 32 && testing::values_of(strategy, model) == whole, "as if never stopped");
    Strategy unscaled = make(0, comm, model);
    Checkpoints(comm, folder.path()).load(unscaled);
    require(unscaled.loss_scale() == 1, "a strategy without one gets none");
  });
}

TEST(Position, ComesBackAsItWas) {
  const ToyModel model;
  SavedFolder folder;
  save_on(folder, 2, 1, model, 2);
  on_ranks(3, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model);
    Checkpoints checkpoints(comm, folder.path());
    require(checkpoints.load(strategy) ==
                TrainingPosition{.step = 2, .sampler = {3, 40}, .notes = {{"run", "a \"first\" one"}}},
            "step, sampler and notes");
  });
}

TEST(Loading, OfAFolderWithoutCheckpointsGivesNothing) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model);
    Checkpoints checkpoints(comm, folder / "nothing/here");
    require(!checkpoints.load(strategy) && checkpoints.steps().empty(), "nothing");
    const Error error = error_of([&] { checkpoints.load(strategy, 7); });
    require(std::string(error.what()).find("has no checkpoint of step 7") != std::string::npos, error.what());
  });
}

TEST(Saving, KeepsTheLastOnesAndReplacesOneOfTheSameStep) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(1, comm, model);
    Checkpoints checkpoints(comm, folder.path(), {.keep = 2});
    for (const int step : {1, 2, 3, 4}) checkpoints.save(strategy, {.step = step});
    require(checkpoints.steps() == std::vector<std::int64_t>{3, 4}, "the last two");
    checkpoints.save(strategy, {.step = 4, .notes = {{"which", "second"}}});
    require(checkpoints.load(strategy)->notes.at("which") == "second", "the new one");
    require(checkpoints.load(strategy, 3)->step == 3, "the one before");
    const Error error = error_of([&] { checkpoints.save(strategy, {.step = 2}); });
    require(std::string(error.what()).find("has a checkpoint of step 4, later than step 2") != std::string::npos,
            error.what());
  });
  EXPECT_EQ(folder.entries(), 2);
}

TEST(Saving, RemovesWhatAKilledJobLeftAndNothingElse) {
  const ToyModel model;
  SavedFolder folder;
  std::filesystem::create_directory(folder / "step-00000007.unfinished-123");
  testing::overwrite(folder / "step-00000007.unfinished-123/rank-00000.safetensors", "half of it");
  testing::overwrite(folder / "log.txt", "somebody's");
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model);
    Checkpoints checkpoints(comm, folder.path() + "/");
    require(checkpoints.steps().empty() && !checkpoints.load(strategy), "what is unfinished is no checkpoint");
    checkpoints.save(strategy, {.step = 5});
  });
  EXPECT_EQ(folder.entries(), 2);
  EXPECT_EQ(testing::content_of(folder / "log.txt"), "somebody's");
}

TEST(Saving, InTheBackgroundSavesWhatWasThereWhenItBegan) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(3, [&](Communicator& comm) {
    Strategy strategy = make(2, comm, model);
    Checkpoints checkpoints(comm, folder.path());
    for (int step = 0; step < 6; ++step) {
      if (step == 2 || step == 3) checkpoints.save_async(strategy, {.step = step});  // the second waits for the first
      testing::train_step(strategy, model, comm.rank(), step);
    }
    checkpoints.wait();
    require(checkpoints.test(), "nothing is under way");
    require(checkpoints.steps() == std::vector<std::int64_t>{2, 3}, "both are there");
    require(checkpoints.load(strategy, 2)->step == 2, "the first of them");
    train_on(strategy, model, comm.rank(), 2, 6);
  });
  go_on(folder, 2, 3, model, 6, undisturbed(model, 3, 3, 2, 6));
}

TEST(Saving, TestFinishesWhatIsWritten) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model);
    Checkpoints checkpoints(comm, folder.path());
    checkpoints.save_async(strategy, {.step = 1});
    for (int step = 0; !checkpoints.test(); ++step) testing::train_step(strategy, model, comm.rank(), step);
    require(checkpoints.steps() == std::vector<std::int64_t>{1}, "it has its name");
  });
}

// A process may have no more of something for a while: RLIMIT_FSIZE is bytes in a file, RLIMIT_DATA of memory.
class Limited {
 public:
  Limited(__rlimit_resource kind, rlim_t bytes) : kind_(kind) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(kind_, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(kind_, &limit);
  }
  ~Limited() { ::setrlimit(kind_, &before_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  __rlimit_resource kind_;
  rlimit before_{};
};

TEST(Saving, FailsOnAllRanksWhereOneCannotWrite) {
  const ToyModel model;
  SavedFolder folder;
  save_on(folder, 3, 1, model, 2);
  const auto fails = [&](Communicator& comm, bool in_background) {
    Strategy strategy = make(1, comm, model);
    Checkpoints checkpoints(comm, folder.path(), {.keep = 1});
    const std::unique_ptr<Limited> limited(comm.rank() == 1 ? new Limited(RLIMIT_FSIZE, 5000) : nullptr);
    const Error error = error_of([&] {
      if (in_background) {
        checkpoints.save_async(strategy, {.step = 9});
        checkpoints.wait();
      } else {
        checkpoints.save(strategy, {.step = 9});
      }
    });
    const std::string words = error.what();
    require(error.code() == ErrorCode::system && error.peer() == 1, words);
    require(words.find("rank 1: cannot write " + folder.path()) == 0, words);
    require(checkpoints.steps() == std::vector<std::int64_t>{2}, "the old one is there");
  };
  for (const bool in_background : {false, true})
    on_ranks(
        3, [&](Communicator& comm) { fails(comm, in_background); }, Ranks::processes);
  EXPECT_EQ(folder.entries(), 1) << "what was not finished is removed";
  go_on(folder, 2, 0, model, 4, undisturbed(model, 3, 2, 2, 4));
}

// Bytes of memory that count for RLIMIT_DATA.
rlim_t data_bytes() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  for (int field = 0; field < 6; ++field) file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Saving, FailsOnAllRanksWhereOneHasNoMemoryForACopy) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers end a process that gets no memory";
  const std::vector<float> values(8 << 20);
  const train::Parameters parameters{{.name = "w", .shape = {8 << 20}, .values = values.data()}};
  SavedFolder folder;
  on_ranks(
      2,
      [&](Communicator& comm) {
        Strategy strategy = train::zero(1, comm, parameters, kAdamW);
        Checkpoints checkpoints(comm, folder.path());
        checkpoints.save(strategy, {.step = 1});
        {
          const std::unique_ptr<Limited> limited(comm.rank() == 1 ? new Limited(RLIMIT_DATA, data_bytes() + (8 << 20))
                                                                  : nullptr);
          const Error error = error_of([&] { checkpoints.save_async(strategy, {.step = 2}); });
          require(std::string(error.what()).find("rank 1: there is no memory for a copy of 48 MB") == 0, error.what());
        }
        require(checkpoints.test() && checkpoints.steps() == std::vector<std::int64_t>{1}, "the old one is there");
        checkpoints.save_async(strategy, {.step = 3});
        checkpoints.wait();
        require(checkpoints.steps() == std::vector<std::int64_t>{1, 3}, "with memory it is saved");
      },
      Ranks::processes);
  EXPECT_EQ(folder.entries(), 2);
}

// Words of the program that are not UTF-8 cannot be in an index: rank 0 finds it out when all have written.
TEST(Saving, FailsOnAllRanksWhereTheIndexCannotBeWritten) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(1, comm, model);
    Checkpoints checkpoints(comm, folder.path());
    const Error error = error_of([&] { checkpoints.save(strategy, {.step = 1, .notes = {{"name", "\xff"}}}); });
    require(error.peer() == 0 && std::string(error.what()).find("UTF-8") != std::string::npos, error.what());
    require(checkpoints.steps().empty() && checkpoints.test(), "nothing is there or under way");
    checkpoints.save(strategy, {.step = 1});
  });
  EXPECT_EQ(folder.entries(), 1);
}

// What would not load takes no name, and those that do stay.
TEST(Saving, RefusesWhatWouldNotLoad) {
  const SavedFolder folder;
  const ToyModel model;
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model);
    Checkpoints(comm, folder.path(), {.keep = 1}).save(strategy, {.step = 1});
    const std::string& left_out = model.parameters[1].name;
    Strategy part = make(0, comm, model, kAdamW,
                         {.counts_in_norm = [&](const train::Parameter& each) { return each.name != left_out; }});
    Checkpoints checkpoints(comm, folder.path(), {.keep = 1});
    const std::string words = error_of([&] { checkpoints.save(part, {.step = 2}); }).what();
    require(words.find("would not load") != std::string::npos, words);
    require(words.find(left_out) != std::string::npos, words);
    require(checkpoints.steps() == std::vector<std::int64_t>{1}, "the checkpoint of before");
  });
}

TEST(Saving, RefusesAFolderThatRanksDoNotShare) {
  const ToyModel model;
  SavedFolder folder, other;
  on_ranks(3, [&](Communicator& comm) {
    Strategy strategy = make(1, comm, model);
    Checkpoints checkpoints(comm, comm.rank() == 2 ? other.path() : folder.path());
    const Error error = error_of([&] { checkpoints.save(strategy, {.step = 1}); });
    const std::string words = error.what();
    require(error.peer() == 2 && words.find("rank 2: does not see the folder") == 0 &&
                words.find("that all hosts share") != std::string::npos,
            words);
  });
  EXPECT_EQ(other.entries(), 0);
}

TEST(Saving, RefusesAFolderThatCannotBeMade) {
  const ToyModel model;
  SavedFolder folder;
  testing::overwrite(folder / "file", "not a folder");
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model);
    Checkpoints checkpoints(comm, folder / "file");
    const std::string words = error_of([&] { checkpoints.save(strategy, {.step = 1}); }).what();
    require(words.find("rank 0: cannot make the folder " + folder.path()) == 0, words);
  });
}

// ---- A rank that dies.

TEST(KilledRank, LeavesTheLastCheckpointToTheOthers) {
  constexpr int kSaved = 3, kKilled = 5, kEnd = 8;
  const ToyModel model;
  SavedFolder folder;
  const std::vector<RankEnd> ends = testing::run_ranks(Ranks::processes, 4, [&](Communicator& comm) {
    Strategy strategy = make(2, comm, model);
    Checkpoints checkpoints(comm, folder.path());
    train_on(strategy, model, comm.rank(), 0, kSaved);
    checkpoints.save(strategy, {.step = kSaved});
    train_on(strategy, model, comm.rank(), kSaved, kKilled);
    checkpoints.save_async(strategy, {.step = kKilled});  // which nobody will finish
    const Error error = error_of([&] {
      strategy.zero_gradients();
      for (std::size_t i = strategy.size(); i-- > 0;) {
        strategy.gradient(i);
        strategy.ready(i);
        if (comm.rank() == 2 && i == 3) ::raise(SIGKILL);
      }
      strategy.step();
    });
    require(error.code() == ErrorCode::peer_lost && error.peer() == 2,
            std::string(name_of(error.code())) + ", " + error.what());
    const Error of_save = error_of([&] { checkpoints.wait(); });
    require(of_save.code() == ErrorCode::peer_lost && of_save.peer() == 2, of_save.what());
    require(checkpoints.steps() == std::vector<std::int64_t>{kSaved}, "the last one that is whole");
  });
  for (const std::size_t rank : {0, 1, 3})
    EXPECT_TRUE(ends[rank].ok()) << "rank " << rank << ": " << ends[rank].message;
  EXPECT_EQ(ends[2].signal, SIGKILL);
  go_on(folder, 3, 2, model, kEnd, undisturbed(model, 4, kSaved, 3, kEnd));
  // The next save clears away what is left of the other.
  on_ranks(3, [&](Communicator& comm) {
    Strategy strategy = make(2, comm, model);
    Checkpoints checkpoints(comm, folder.path());
    checkpoints.load(strategy);
    checkpoints.save(strategy, {.step = kEnd});
  });
  EXPECT_EQ(folder.entries(), 2);
}

// ---- What is not as it was written.

class Damaged : public ::testing::Test {
 protected:
  Damaged() { save_on(folder_, 3, 1, model_, 2); }

  std::string file(const std::string& name) const { return folder_ / ("step-00000002/" + name); }

  // All of three ranks refuse it with the same words, and go on as if they had never tried.
  void refused(const ToyModel& model, const train::Optimizer& optimizer, const std::vector<std::string>& parts,
               int stage = 1) {
    on_ranks(3, [&](Communicator& comm) {
      Strategy strategy = make(stage, comm, model, optimizer);
      train_on(strategy, model, comm.rank(), 0, 3);
      const std::vector<testing::Bytes> before = testing::values_of(strategy, model);
      Checkpoints checkpoints(comm, folder_.path());
      const Error error = error_of([&] { checkpoints.load(strategy); });
      const std::string words = error.what();
      require(error.code() == ErrorCode::invalid_argument, words);
      const std::string rank = "rank " + std::to_string(error.peer());
      require(error.peer() >= 0 && words.find(rank + ": ") != std::string::npos, rank + " is not in " + words);
      for (const std::string& part : parts)
        require(words.find(part) != std::string::npos, part + " is not in " + words);
      require(strategy.updates() == 3 && testing::values_of(strategy, model) == before, "nothing was changed");
      train_on(strategy, model, comm.rank(), 3, 5);
      require(testing::values_of(strategy, model) == undisturbed(model, 3, 5, 3, 5, optimizer), "nor in its states");
    });
  }
  void refused(const std::vector<std::string>& parts) {
    for (const int stage : {0, 1, 3}) refused(model_, kAdamW, parts, stage);
  }

  ToyModel model_;
  SavedFolder folder_;
};

TEST_F(Damaged, FileThatIsCutShort) {
  const std::size_t bytes = testing::content_of(file("rank-00001.safetensors")).size();
  std::filesystem::resize_file(file("rank-00001.safetensors"), bytes - 1);
  refused({file("rank-00001.safetensors") + " is cut short: it has " + std::to_string(bytes - 1) + " bytes of " +
               std::to_string(bytes),
           "put the file back from a copy, or remove the folder to load the checkpoint before"});
}

TEST_F(Damaged, FileThatIsMissing) {
  std::filesystem::remove(file("rank-00002.safetensors"));
  refused({file("rank-00002.safetensors") + " is missing"});
}

TEST_F(Damaged, BitThatFlipped) {
  const std::size_t bytes = testing::content_of(file("rank-00000.safetensors")).size();
  for (const std::size_t at : {bytes - 1, bytes / 2, std::size_t{20}}) {
    testing::flip_bit(file("rank-00000.safetensors"), at);
    refused(model_, kAdamW,
            {file("rank-00000.safetensors") + " is damaged: bytes 0 to " + std::to_string(bytes - 1),
             "put the file back from a copy, or remove the folder to load the checkpoint before"});
    testing::flip_bit(file("rank-00000.safetensors"), at);
  }
  go_on(folder_, 2, 0, model_, 4, undisturbed(model_, 3, 2, 2, 4));
}

TEST_F(Damaged, Index) {
  const std::string index = testing::content_of(file("index.json"));
  testing::overwrite(file("index.json"), index.substr(0, index.size() / 2));
  refused({file("index.json") + " is not the index of a checkpoint"});
  testing::overwrite(file("index.json"), "");
  refused({file("index.json") + " is not the index of a checkpoint"});
  std::string other = index;
  other.replace(other.find("\"updates\": 2"), 12, "\"updates\": 3");
  testing::overwrite(file("index.json"), other);
  refused({file("index.json") + " is damaged"});
  std::filesystem::remove(file("index.json"));
  refused({file("index.json") + " is missing"});
}

TEST_F(Damaged, IsWhatAnotherModelWrote) {
  ToyModel other;
  other.parameters[1].shape = {33, 64};
  const std::string remedy = "build the model that it was saved from";
  refused(other, kAdamW,
          {"parameter \"w1\" is float32 [33, 64] in this model and float32 [64, 33] in " + folder_.path(), remedy});
  other = ToyModel();
  other.parameters[4].name = "w3";
  refused(other, kAdamW, {"parameter \"w3\", float32 [33, 70], of this model is not in " + folder_.path(), remedy});
  refused(ToyModel(DType::bfloat16), kAdamW,
          {"parameter \"embedding\" is bfloat16 [50, 31] in this model and float32", remedy});
}

TEST_F(Damaged, IsWhatAnotherOptimizerWrote) {
  refused(model_, train::Lion{},
          {"was saved with the optimizer AdamW with 2 states, and this strategy has Lion with 1 state;",
           "make the strategy with the same one"});
}

TEST_F(Damaged, ModelWithFewerParametersIsAnother) {
  ToyModel fewer;
  fewer.parameters.pop_back();
  fewer.parameters.pop_back();  // which empties unit 3
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, fewer);
    const std::string words = error_of([&] { Checkpoints(comm, folder_.path()).load(strategy); }).what();
    require(words.find("parameter \"head\", float32 [3, 1024], of " + folder_.path()) != std::string::npos, words);
  });
}

}  // namespace
}  // namespace tutti
