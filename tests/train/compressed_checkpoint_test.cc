// What compression keeps is in checkpoints: a run that goes on comes to the bits of one that was never stopped, where
// as many ranks go on with the same settings. Elsewhere it begins anew, on all ranks.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "check.h"
#include "train/checkpoint_index.h"
#include "train/one_process.h"
#include "train/ones.h"
#include "train/saved_folder.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/strategy.h"

namespace tutti {
namespace {

using testing::Bytes;
using testing::contains;
using testing::error_of;
using testing::make;
using testing::on_ranks;
using testing::require;
using testing::SavedFolder;
using testing::ToyModel;
using testing::train_step;
using testing::values_of;
using train::Checkpoints;
using train::Quantise;
using train::QuantisedType;
using train::Strategy;
using train::StrategyOptions;

constexpr int kSaved = 4, kEnd = 7;

StrategyOptions options_for(const train::Compression& compression) {
  return {.bucket_bytes = 10'000, .compression = compression, .compress_from_step = 1};
}

void train_on(Strategy& strategy, const ToyModel& model, int rank, int from, int to) {
  for (int step = from; step < to; ++step) train_step(strategy, model, rank, step);
}

// Trains, saves and trains on; what it comes to.
std::vector<Bytes> save_in_passing(const SavedFolder& folder, int stage, Communicator& comm, const ToyModel& model,
                                   const StrategyOptions& options) {
  Strategy strategy = make(stage, comm, model.parameters, options);
  train_on(strategy, model, comm.rank(), 0, kSaved);
  Checkpoints checkpoints(comm, folder.path());
  checkpoints.save_async(strategy, {.step = kSaved});
  train_on(strategy, model, comm.rank(), kSaved, kEnd);  // what is written meanwhile is a copy
  checkpoints.wait();
  return values_of(strategy, model);
}

std::vector<Bytes> go_on(const SavedFolder& folder, int stage, Communicator& comm, const ToyModel& model,
                         const StrategyOptions& options) {
  Strategy strategy = make(stage, comm, model.parameters, options);
  Checkpoints checkpoints(comm, folder.path());
  require(checkpoints.load(strategy).has_value(), "a checkpoint");
  train_on(strategy, model, comm.rank(), kSaved, kEnd);
  strategy.verify();
  return values_of(strategy, model);
}

const std::vector<std::pair<const char*, train::Compression>> kKeeping = {
    {"int4", Quantise{.type = QuantisedType::int4}},
    {"int4 by chance", Quantise{.type = QuantisedType::int4, .stochastic = true}},
    {"top-k", train::TopK{.share = 0.1}},
    {"top-k with momentum", train::TopK{.share = 0.1, .momentum = 0.5}},
    {"PowerSGD", train::PowerSgd{.rank = 2}},
    {"1-bit Adam", train::OneBitAdam{}},
    {"top-k by deviation", train::TopK{.share = 0.1, .by_deviation = true}},
    {"PowerSGD by deviation", train::PowerSgd{.rank = 2, .by_deviation = true}}};

// What the states of all ranks are needed for goes without ZeRO.
bool is_cut(const train::Compression& compression) {
  const auto* const top = std::get_if<train::TopK>(&compression);
  const auto* const power = std::get_if<train::PowerSgd>(&compression);
  return (top == nullptr || !top->by_deviation) && (power == nullptr || !power->by_deviation) &&
         !std::holds_alternative<train::OneBitAdam>(compression);
}

TEST(CompressedCheckpoints, GoOnToTheBitsOfAnUndisturbedRun) {
  const ToyModel model;
  for (const auto& [name, compression] : kKeeping) {
    for (const int stage : {0, 1, 3}) {
      if (stage > 0 && !is_cut(compression)) continue;
      SavedFolder folder;
      on_ranks(3, [&](Communicator& comm) {
        const StrategyOptions options = options_for(compression);
        const std::vector<Bytes> whole = save_in_passing(folder, stage, comm, model, options);
        require(go_on(folder, stage, comm, model, options) == whole,
                std::string(name) + ", stage " + std::to_string(stage) + ": the bits of an undisturbed run");
      });
    }
  }
}

// Chances that are drawn are another step's, and not those of the first one again.
TEST(CompressedCheckpoints, GoOnDrawingChancesWhereNothingIsKept) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    StrategyOptions options = options_for(Quantise{.type = QuantisedType::int4, .stochastic = true});
    options.error_feedback = false;
    const std::vector<Bytes> whole = save_in_passing(folder, 0, comm, model, options);
    require(go_on(folder, 0, comm, model, options) == whole, "the bits of an undisturbed run");
  });
}

// Gradients that become ready in another order lie otherwise in buckets, and so do codes.
TEST(CompressedCheckpoints, GoOnInTheOrderThatWasFoundOut) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    const StrategyOptions options = options_for(Quantise{.type = QuantisedType::int4});
    const int other_order = 1;  // of run_passes(), on all ranks
    const auto steps = [&](Strategy& strategy, int from, int to) {
      for (int step = from; step < to; ++step) train_step(strategy, model, other_order + 2 * comm.rank(), step);
    };
    Strategy strategy = make(0, comm, model.parameters, options);
    steps(strategy, 0, kSaved);
    Checkpoints checkpoints(comm, folder.path());
    checkpoints.save(strategy, {.step = kSaved});
    steps(strategy, kSaved, kEnd);
    Strategy again = make(0, comm, model.parameters, options);
    require(checkpoints.load(again).has_value(), "a checkpoint");
    steps(again, kSaved, kEnd);
    require(values_of(again, model) == values_of(strategy, model), "the bits of an undisturbed run");
  });
}

// As in a first step, who asked before is told.
TEST(CompressedCheckpoints, TellTheNewPlacesWhereBucketsAreLaidOutAnew) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    StrategyOptions options = options_for(Quantise{.type = QuantisedType::int4});
    Strategy saved = make(0, comm, model.parameters, options);
    const int other_order = 1;  // of run_passes(), on all ranks
    for (int step = 0; step < kSaved; ++step) train_step(saved, model, other_order + 2 * comm.rank(), step);
    Checkpoints(comm, folder.path()).save(saved, {.step = kSaved});
    std::vector<std::pair<void*, void*>> places(model.parameters.size());
    options.placed = [&](std::size_t i, void* values, void* gradient) { places[i] = {values, gradient}; };
    Strategy strategy = make(0, comm, model.parameters, options);
    const auto before = places;
    require(Checkpoints(comm, folder.path()).load(strategy).has_value(), "a checkpoint");
    require(places != before, "the order that was saved is another one than that of the parameters");
    for (std::size_t i = 0; i < places.size(); ++i)
      require(places[i] == std::pair(strategy.values(i), strategy.gradient(i)), "where they are now");
  });
}

// A loss scale is the unit of what was lost.
TEST(CompressedCheckpoints, FollowTheLossScale) {
  const ToyModel model;
  SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    StrategyOptions options = options_for(Quantise{.type = QuantisedType::int4});
    options.loss_scale = train::LossScale{.initial = 8, .interval = 3};
    const std::vector<Bytes> whole = save_in_passing(folder, 0, comm, model, options);
    require(go_on(folder, 0, comm, model, options) == whole, "the bits of an undisturbed run");
  });
}

// What goes on from the same masters and states, saved by a strategy that keeps nothing.
std::vector<Bytes> go_on_with_nothing(const SavedFolder& folder, const SavedFolder& bare, Communicator& comm,
                                      const ToyModel& model, const StrategyOptions& options) {
  Strategy plain = make(0, comm, model.parameters);
  Checkpoints(comm, folder.path()).load(plain);
  Checkpoints(comm, bare.path()).save(plain, {.step = kSaved});
  return go_on(bare, 0, comm, model, options);
}

// On all ranks, also where some find everything that is theirs.
TEST(CompressedCheckpoints, BeginAnewElsewhere) {
  const ToyModel model;
  for (const auto& [name, compression] : kKeeping) {
    SavedFolder folder;
    on_ranks(3, [&](Communicator& comm) { save_in_passing(folder, 0, comm, model, options_for(compression)); });
    StrategyOptions others = options_for(compression);  // one parameter more than was saved
    others.compresses = [](const train::Parameter& parameter) {
      return parameter.name == "b2" || parameter.shape.size() >= 2;
    };
    if (std::holds_alternative<train::PowerSgd>(compression)) others = options_for(train::PowerSgd{.rank = 3});
    for (const auto& [ranks, options] : {std::pair(2, options_for(compression)), std::pair(3, others)}) {
      SavedFolder bare;
      on_ranks(ranks, [&](Communicator& comm) {
        require(go_on(folder, 0, comm, model, options) == go_on_with_nothing(folder, bare, comm, model, options),
                std::string(name) + " on " + std::to_string(ranks) + " ranks: nothing of what was lost");
      });
    }
    SavedFolder bare;
    on_ranks(3, [&](Communicator& comm) {
      const StrategyOptions options = options_for(compression);
      require(go_on(folder, 0, comm, model, options) != go_on_with_nothing(folder, bare, comm, model, options),
              std::string(name) + ": and what was lost matters");
    });
  }
}

// Half of what rank 1 keeps as an owner is there twice, from both ranks, and the other half not at all: as many numbers
// as there should be.
TEST(CompressedCheckpoints, BeginAnewWhereNumbersAreThereTwiceAndOthersNot) {
  const ToyModel model;
  const StrategyOptions options = options_for(train::OneBitAdam{});
  SavedFolder folder, bare;
  on_ranks(2, [&](Communicator& comm) { save_in_passing(folder, 0, comm, model, options); });
  const std::string file = folder / "step-00000004/index.json";
  train::CheckpointIndex index = train::index_from_text(testing::content_of(file));
  std::vector<train::CheckpointPiece>& pieces = index.compression->pieces;
  std::size_t twice = 0;
  for (train::CheckpointSlice& slice : pieces[1].slices) {
    if (slice.array != "owners_lost") continue;
    train::CheckpointSlice& again = pieces[0].slices.emplace_back(slice);
    again.count -= slice.count /= 2;
    again.offsets = {pieces[0].bytes - again.count * sizeof(float)};
    ++twice;
  }
  EXPECT_GT(twice, 0U);
  testing::overwrite(file, to_text(index));
  on_ranks(2, [&](Communicator& comm) {
    require(go_on(folder, 0, comm, model, options) == go_on_with_nothing(folder, bare, comm, model, options),
            "nothing of what was lost");
  });
}

TEST(CompressedCheckpoints, ThatAreDamagedChangeNothing) {
  const ToyModel model;
  const StrategyOptions options = options_for(train::TopK{.share = 0.1});
  SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) { save_in_passing(folder, 0, comm, model, options); });
  const std::string file = folder / "step-00000004/compression-00001.safetensors";
  testing::flip_bit(file, testing::content_of(file).size() - 1);
  on_ranks(2, [&](Communicator& comm) {
    Strategy strategy = make(0, comm, model.parameters, options);
    const std::vector<Bytes> before = values_of(strategy, model);
    Checkpoints checkpoints(comm, folder.path());
    const Error error = error_of([&] { checkpoints.load(strategy); });
    require(contains(error.what(), "rank 1: ") && contains(error.what(), "compression-00001.safetensors is damaged"),
            error.what());
    require(values_of(strategy, model) == before && strategy.updates() == 0, "nothing is changed");
  });
}

}  // namespace
}  // namespace tutti
