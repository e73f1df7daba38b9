// Checkpoints of several strategies that train one model between them, and of ranks that have other parts of it: one
// checkpoint, whole or not at all, with what compression keeps on each rank.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "check.h"
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
using train::Checkpoints;
using train::Strategy;
using train::StrategyOptions;

constexpr int kRanks = 4, kSaved = 3, kEnd = 6;

// Over 2 x 2 ranks: what all have, trained by all of them; and an expert and half of a weight, trained by the two ranks
// that have the same ones.
struct Shared {
  Shared(Communicator& comm, int stage, const StrategyOptions& options = {}, bool pairs_are_neighbours = false,
         const train::Optimizer& optimizer = train::AdamW{}, const train::Optimizer& of_parts = train::AdamW{})
      : rank(comm.rank()), part(pairs_are_neighbours ? rank / 2 : rank % 2), pair(comm.split(part)) {
    StrategyOptions with = options;
    with.bucket_bytes = 10'000;
    add(dense, {.name = "embedding", .shape = {50, 31}});
    add(dense, {.name = "w1", .shape = {64, 33}});
    add(dense, {.name = "b1", .shape = {33}});
    add(parts, {.name = "expert" + std::to_string(part), .shape = {40, 64}});
    const auto first = static_cast<std::size_t>(35 * part);
    add(parts, {.name = "w2", .shape = {33, 35}, .part = train::ParameterPart{{33, 70}, 70, first, 35}});
    strategies.push_back(make(stage, comm, dense, with, optimizer));
    strategies.push_back(make(stage, pair, parts, with, of_parts));
  }

  void add(train::Parameters& to, train::Parameter parameter) {
    std::vector<float>& values = memory.emplace_back(parameter.elements());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = testing::noise(static_cast<std::uint32_t>(memory.size()), part, i);
    if (&to == &dense)
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = testing::noise(7, 0, i);
    parameter.values = values.data();
    to.push_back(std::move(parameter));
  }
  std::vector<Strategy*> all() { return {&strategies[0], &strategies[1]}; }
  // Gradients come in an order of their own.
  void train_on(int from, int to) {
    for (int step = from; step < to; ++step) {
      for (Strategy& strategy : strategies) {
        strategy.zero_gradients();
        for (std::size_t turn = 0; turn < strategy.size(); ++turn) {
          const std::size_t i = (turn + 1) % strategy.size();
          const Bytes gradient =
              testing::gradient_of(strategy.parameters()[i], i + 8 * strategy.size(), strategy.values(i), rank, step);
          std::memcpy(strategy.gradient(i), gradient.data(), gradient.size());
          strategy.ready(i);
        }
        strategy.step();
      }
    }
  }
  std::vector<Bytes> values() {
    std::vector<Bytes> all_values;
    for (Strategy& strategy : strategies)
      for (std::size_t i = 0; i < strategy.size(); ++i) {
        const auto* const place = static_cast<const std::byte*>(strategy.values(i));
        all_values.emplace_back(place, place + strategy.elements(i) * sizeof(float));
      }
    return all_values;
  }

  int rank, part;
  Communicator pair;
  train::Parameters dense, parts;
  std::vector<std::vector<float>> memory;
  std::vector<Strategy> strategies;
};

// Trains, saves in passing, trains on; what it comes to.
std::vector<Bytes> save_in_passing(const SavedFolder& folder, Communicator& comm, int stage,
                                   const StrategyOptions& options) {
  Shared shared(comm, stage, options);
  shared.train_on(0, kSaved);
  Checkpoints checkpoints(comm, folder.path());
  checkpoints.save_async(shared.all(), {.step = kSaved});
  shared.train_on(kSaved, kEnd);
  checkpoints.wait();
  return shared.values();
}

std::vector<Bytes> go_on(const SavedFolder& folder, Communicator& comm, int stage, const StrategyOptions& options,
                         bool pairs_are_neighbours = false) {
  Shared shared(comm, stage, options, pairs_are_neighbours);
  Checkpoints checkpoints(comm, folder.path());
  require(checkpoints.load(shared.all()).has_value(), "a checkpoint");
  for (const Strategy& strategy : shared.strategies) require(strategy.updates() == kSaved, "updates");
  shared.train_on(kSaved, kEnd);
  for (Strategy& strategy : shared.strategies) strategy.verify();
  return shared.values();
}

// From the same masters and states, saved by strategies that keep nothing.
std::vector<Bytes> go_on_with_nothing(const SavedFolder& folder, const SavedFolder& bare, Communicator& comm, int stage,
                                      const StrategyOptions& options, bool pairs_are_neighbours) {
  Shared plain(comm, stage, {}, pairs_are_neighbours);
  Checkpoints(comm, folder.path()).load(plain.all());
  Checkpoints(comm, bare.path()).save(plain.all(), {.step = kSaved});
  return go_on(bare, comm, stage, options, pairs_are_neighbours);
}

const std::vector<std::pair<const char*, train::Compression>> kCompressions = {
    {"none", train::Compression{}},
    {"int4 by chance", train::Quantise{.type = train::QuantisedType::int4, .stochastic = true}},
    {"top-k with momentum", train::TopK{.share = 0.1, .momentum = 0.5}},
    {"PowerSGD", train::PowerSgd{.rank = 2}}};

TEST(SharedCheckpoints, GoOnToTheBitsOfAnUndisturbedRun) {
  for (const auto& [name, compression] : kCompressions) {
    for (const int stage : {0, 1, 2}) {
      SavedFolder folder;
      on_ranks(kRanks, [&](Communicator& comm) {
        const StrategyOptions options{.compression = compression, .compress_from_step = 1};
        const std::vector<Bytes> whole = save_in_passing(folder, comm, stage, options);
        require(go_on(folder, comm, stage, options) == whole,
                std::string(name) + ", stage " + std::to_string(stage) + ": the bits of an undisturbed run");
      });
    }
  }
}

// As many ranks with the same settings, but other ones have the parts: what was kept is not theirs.
TEST(SharedCheckpoints, BeginCompressingAnewOnAnotherMesh) {
  for (const auto& [name, compression] : kCompressions) {
    const StrategyOptions options{.compression = compression, .compress_from_step = 1};
    const bool keeps = !std::holds_alternative<std::monostate>(compression);
    for (const bool is_other : {false, true}) {
      SavedFolder folder, bare;
      on_ranks(kRanks, [&](Communicator& comm) {
        save_in_passing(folder, comm, 0, options);
        const bool alike =
            go_on(folder, comm, 0, options, is_other) == go_on_with_nothing(folder, bare, comm, 0, options, is_other);
        require(alike == (is_other || !keeps), std::string(name) + (is_other ? ": nothing" : ": all") + " of it");
      });
    }
  }
}

// A job that ends between, as by a kill, has the last checkpoint of both, and goes on saving from there.
TEST(SharedCheckpoints, AreNeverOfOneStrategyAlone) {
  SavedFolder folder;
  on_ranks(kRanks, [&](Communicator& comm) {
    Shared shared(comm, 0);
    shared.train_on(0, 2);
    Checkpoints checkpoints(comm, folder.path());
    checkpoints.save(shared.all(), {.step = 2});
    shared.train_on(2, 4);
    checkpoints.save_async(shared.all(), {.step = 4});  // nobody waits, so that it gets no name
  });
  on_ranks(kRanks, [&](Communicator& comm) {
    Shared shared(comm, 1);
    Checkpoints checkpoints(comm, folder.path());
    const std::optional<train::TrainingPosition> position = checkpoints.load(shared.all());
    require(position && position->step == 2, "the step that is whole");
    for (const Strategy& strategy : shared.strategies) require(strategy.updates() == 2, "updates");
    shared.train_on(2, 3);
    checkpoints.save(shared.all(), {.step = 3});
    require(checkpoints.steps() == std::vector<std::int64_t>{2, 3}, "it goes on saving");
  });
}

// Each counts by itself.
TEST(SharedCheckpoints, HaveTheCountsOfEachStrategy) {
  SavedFolder folder;
  StrategyOptions options;
  options.loss_scale = train::LossScale{.initial = 8, .interval = 2};
  on_ranks(kRanks, [&](Communicator& comm) {
    Shared shared(comm, 0, options);
    shared.train_on(0, 1);
    shared.strategies[0].restored(5, 32, 1);
    Checkpoints(comm, folder.path()).save(shared.all(), {.step = 1});
  });
  on_ranks(kRanks, [&](Communicator& comm) {
    Shared shared(comm, 0, options);
    require(Checkpoints(comm, folder.path()).load(shared.all()).has_value(), "a checkpoint");
    const Strategy &first = shared.strategies[0], &second = shared.strategies[1];
    require(first.updates() == 5 && first.loss_scale() == 32 && first.steps_since_overflow() == 1, "of the first");
    require(second.updates() == 1 && second.loss_scale() == 8 && second.steps_since_overflow() == 1, "of the second");
  });
}

TEST(SharedCheckpoints, RefuseOptimizersOfOtherKinds) {
  SavedFolder folder;
  on_ranks(kRanks, [&](Communicator& comm) {
    Shared shared(comm, 0, {}, false, train::AdamW{}, train::Lion{});
    Checkpoints checkpoints(comm, folder.path());
    const Error error = error_of([&] { checkpoints.save(shared.all(), {.step = 0}); });
    require(contains(error.what(), "strategies with AdamW and Lion"), error.what());
  });
}

}  // namespace
}  // namespace tutti
