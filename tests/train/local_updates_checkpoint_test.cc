// Checkpoints of local updates: every replica goes on from its own to the bits of a run that was never stopped.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "train/one_process.h"
#include "train/ones.h"
#include "train/saved_folder.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/local_updates.h"

namespace tutti {
namespace {

using testing::Bytes;
using testing::contains;
using testing::error_of;
using testing::make;
using testing::on_ranks;
using testing::Ones;
using testing::require;
using testing::SavedFolder;
using testing::ToyModel;
using train::LocalUpdates;
using train::LocalUpdatesOptions;
using train::Strategy;

const train::Optimizer kInner = train::AdamW{.learning_rate = 1e-2};

// A replica's strategy, its local updates, and its folder.
struct Trained {
  Trained(Communicator& comm, const ToyModel& toy, int site_ranks, int stage, const LocalUpdatesOptions& options,
          const std::string& folder, const train::CheckpointOptions& keeping = {})
      : model(toy),
        rank(comm.rank()),
        replicas(train::make_replicas(comm, site_ranks)),
        strategy(make(stage, replicas.inside, toy.parameters, {.bucket_bytes = 10'000}, kInner)),
        local(replicas, strategy, options),
        checkpoints(replicas.inside, folder + "/replica-" + std::to_string(replicas.between.rank()), keeping) {}

  void steps(int begin, int end) {
    for (int step = begin; step < end; ++step) {
      testing::run_passes(strategy, model, rank, step);
      local.step();
    }
  }

  const ToyModel& model;
  int rank;
  train::Replicas replicas;
  Strategy strategy;
  LocalUpdates local;
  train::Checkpoints checkpoints;
};

void goes_on(int site_ranks, int stage, const LocalUpdatesOptions& options, int saved_at) {
  constexpr int kSteps = 14;
  const SavedFolder folder;
  on_ranks(4, [&](Communicator& comm) {
    const ToyModel model;
    std::vector<Bytes> values;
    {
      Trained trained(comm, model, site_ranks, stage, options, folder.path());
      trained.steps(0, saved_at);
      trained.checkpoints.save_async(trained.local, {.step = saved_at});
      trained.checkpoints.wait();
      trained.steps(saved_at, kSteps);
      values = testing::values_of(trained.strategy, model);
    }
    Trained again(comm, model, site_ranks, stage, options, folder.path());
    const auto position = again.checkpoints.load(again.local);
    require(position && position->step == saved_at && again.local.steps() == saved_at, "where it was");
    again.steps(saved_at, kSteps);
    require(testing::values_of(again.strategy, model) == values, "the same bits");
    again.local.finish();
    again.local.verify();
  });
}

TEST(SavedLocalUpdates, GoOnToTheSameBits) {
  goes_on(1, 0, {.every = 4}, 6);
  goes_on(1, 0, {.every = 4, .momentum = 0}, 8);
  goes_on(1, 0, {.every = 6, .fragments = 3, .overlap = 1}, 7);
  for (const bool stochastic : {false, true}) {
    const train::Quantise bits{.type = train::QuantisedType::e3m0, .stochastic = stochastic};
    goes_on(1, 0, {.every = 6, .fragments = 2, .quantise = bits}, 7);
  }
  for (const int stage : testing::kStages) goes_on(2, stage, {.every = 4, .fragments = 2}, 7);
}

TEST(SavedLocalUpdates, AreLoadedFromTheLastStepThatAllReplicasHave) {
  const SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    const ToyModel model;
    Trained trained(comm, model, 1, 0, {.every = 4}, folder.path());
    require(!trained.checkpoints.load(trained.local), "there is none");
    trained.steps(0, 4);
    trained.checkpoints.save(trained.local, {.step = 4});
    trained.steps(4, 6);
    if (comm.rank() == 1) trained.checkpoints.save(trained.local, {.step = 6});
    trained.steps(6, 7);
    const auto position = trained.checkpoints.load(trained.local);
    require(position->step == 4 && trained.local.steps() == 4, "step 4");
    // Replica 1 has step 6 and replica 0 has not.
    const Error error = error_of([&] { trained.checkpoints.load(trained.local, 6); });
    require(contains(error.what(), "rank 0: ") && contains(error.what(), "has no checkpoint of step 6"), error.what());
  });
}

TEST(SavedLocalUpdates, AreLoadedFromAStepThatAllHaveAlsoWhereTheLastOnesDiffer) {
  const SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    const ToyModel model;
    Trained trained(comm, model, 1, 0, {.every = 4}, folder.path());
    const bool first = comm.rank() == 0;
    trained.checkpoints.save(trained.local, {.step = 4});
    trained.checkpoints.save(trained.local, {.step = first ? 8 : 6});
    require(trained.checkpoints.load(trained.local)->step == 4, "not the lower one of the last");
    std::filesystem::remove_all(folder / ("replica-" + std::to_string(comm.rank())) + "/step-00000004");
    const Error error = error_of([&] { trained.checkpoints.load(trained.local); });
    require(contains(error.what(),
                     "replica 1 has checkpoints up to step 6, and none of a step that the replicas "
                     "before it have, which is 8 at last; put one back"),
            error.what());
  });
}

// Replica 1 ends before its checkpoint of step 8 has a name, and replica 0 has that of its own.
TEST(SavedLocalUpdates, KeepWhatAllReplicasHave) {
  for (const int site_ranks : {1, 2}) {
    const SavedFolder folder;
    on_ranks(2 * site_ranks, [&](Communicator& comm) {
      const ToyModel model;
      const auto again = [&] {
        return std::make_unique<Trained>(comm, model, site_ranks, 1, LocalUpdatesOptions{.every = 4}, folder.path(),
                                         train::CheckpointOptions{.keep = 1});
      };
      const auto saves = [&](Trained& trained, int step) {
        trained.steps(step - 4, step);
        trained.checkpoints.save_async(trained.local, {.step = step});
      };
      std::unique_ptr<Trained> trained = again();
      saves(*trained, 4);
      saves(*trained, 8);
      if (trained->replicas.between.rank() == 0) trained->checkpoints.wait();
      trained.reset();
      trained = again();
      require(trained->checkpoints.load(trained->local)->step == 4, "all have step 4 alone");
      for (const int step : {8, 12, 16}) saves(*trained, step);
      trained->checkpoints.wait();
      require(trained->checkpoints.steps() == std::vector<std::int64_t>{12, 16}, "the one that all have, and a newer");
    });
  }
}

TEST(SavedLocalUpdates, TellWhatCannotBe) {
  const SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    const ToyModel model;
    const auto words = [](auto&& call) { return std::string(error_of(call).what()); };
    Trained trained(comm, model, 1, 0, {.every = 4, .overlap = 2}, folder.path());
    trained.steps(0, 5);
    require(contains(words([&] { trained.checkpoints.save(trained.local, {.step = 5}); }), "an exchange is under way"),
            "under way");
    trained.steps(5, 6);
    trained.checkpoints.save(trained.local, {.step = 6});

    // A strategy takes its part of it.
    Strategy alone = make(0, trained.replicas.inside, model.parameters, {}, kInner);
    require(trained.checkpoints.load(alone)->step == 6, "it has all that a strategy needs");
    require(testing::values_of(alone, model) == testing::values_of(trained.strategy, model), "the same values");

    Trained other(comm, model, 1, 0, {.every = 4, .momentum = 0}, folder.path());
    require(contains(words([&] { other.checkpoints.load(other.local); }), "with other settings of momentum or bits"),
            "momentum");
    Strategy lion = make(0, trained.replicas.inside, model.parameters, {}, train::Lion{});
    require(contains(words([&] { other.checkpoints.load(lion); }), "the optimizer AdamW with 2 states"), "optimizer");
    other.checkpoints.save(alone, {.step = 7});
    require(contains(words([&] { trained.checkpoints.load(trained.local); }), "was saved without local updates"),
            "without");

    Trained asynchronous(comm, model, 1, 0, {.every = 4, .asynchronous = true}, folder.path() + "/asynchronous");
    asynchronous.steps(0, 3);
    require(contains(words([&] { asynchronous.checkpoints.save(asynchronous.local, {.step = 3}); }), "call finish()"),
            "asynchronous");
    asynchronous.local.finish();
    asynchronous.checkpoints.save(asynchronous.local, {.step = 3});
    require(asynchronous.checkpoints.load(asynchronous.local)->step == 3, "after finish()");
  });
}

}  // namespace
}  // namespace tutti
