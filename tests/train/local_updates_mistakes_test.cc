// What goes wrong in local updates: settings that cannot be, or differ, values that are not finite, replicas that die;
// all told in words, and the strategy is as it was.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <string>
#include <utility>

#include "check.h"
#include "train/one_process.h"
#include "train/ones.h"
#include "tutti/train/local_updates.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::make;
using testing::on_ranks;
using testing::Ones;
using testing::Ranks;
using testing::require;
using testing::ToyModel;
using train::LocalUpdates;
using train::LocalUpdatesOptions;
using train::Strategy;

TEST(LocalMistakes, InOptionsAreRefusedInWords) {
  on_ranks(1, [&](Communicator& comm) {
    const Ones ones;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, replicas.inside, ones.parameters);
    const auto refused = [&](const LocalUpdatesOptions& options, const std::string& words) {
      const Error error = error_of([&] { LocalUpdates(replicas, strategy, options); });
      require(error.code() == ErrorCode::invalid_argument && contains(error.what(), words), error.what());
    };
    refused({.every = 0}, "every 0 steps; give a number of inner steps from 1 on");
    refused({.every = 5, .overlap = 5}, "overlap is 5 and every is 5");
    refused({.every = 5, .overlap = -1}, "give 0 .. 4");
    refused({.fragments = 3}, "3 fragments of 2 parameters; give 1 .. 2");
    refused({.fragments = 0}, "0 fragments of 2 parameters");
    refused({.mixing = 1.0}, "mixing is 1;");
    refused({.learning_rate = 0}, "outer learning rate is 0");
    refused({.learning_rate = INFINITY}, "outer learning rate is inf");
    refused({.momentum = 1}, "outer momentum is 1");
    refused({.most_delay = 2}, "only where asynchronous is set");
    refused({.overlap = 2, .asynchronous = true}, "leave overlap and mixing out");
    refused({.quantise = train::Quantise{.block = 100}}, "a block of 100 values; give a power of two");
    refused({.fragments = 2, .quantise = train::Quantise(), .asynchronous = true}, "give one fragment");
    require(contains(error_of([&] { train::make_replicas(comm, 2); }).what(), "cannot be made of 1 ranks"), "ranks");
  });
  on_ranks(2, [&](Communicator& comm) {
    const Ones ones;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, comm, ones.parameters);
    const Error error = error_of([&] { LocalUpdates(replicas, strategy); });
    require(contains(error.what(), "over 2 ranks and the replica has 1; make it over Replicas::inside"), error.what());
  });
}

TEST(LocalMistakes, InOneReplicasSettingsAreNamed) {
  on_ranks(3, [&](Communicator& comm) {
    const Ones ones;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, replicas.inside, ones.parameters);
    const Error error = error_of([&] { LocalUpdates(replicas, strategy, {.every = comm.rank() == 2 ? 50 : 100}); });
    require(error.code() == ErrorCode::mismatch && error.peer() == 2, error.what());
    require(contains(error.what(), "rank 2 has the settings every 50") &&
                contains(error.what(), "has the settings every 100"),
            error.what());
    Strategy other = make(0, replicas.inside, ones.parameters, {},
                          comm.rank() == 1 ? train::Optimizer(train::Lion{}) : train::Optimizer(train::AdamW{}));
    const Error inner = error_of([&] { LocalUpdates(replicas, other); });
    require(inner.peer() == 1 && contains(inner.what(), "optimizer Lion"), inner.what());
  });
}

// Replicas whose buckets were laid out in different orders own other shards; without shards that does not matter.
TEST(LocalMistakes, AfterAFirstStepAreToldWhereShardsDiffer) {
  for (const int stage : {0, 1}) {
    on_ranks(4, [&](Communicator& comm) {
      const ToyModel model;
      train::Replicas replicas = train::make_replicas(comm, 2);
      Strategy strategy = make(stage, replicas.inside, model.parameters, {.bucket_bytes = 10'000});
      strategy.zero_gradients();
      for (std::size_t i = 0; i < strategy.size(); ++i) strategy.ready(comm.rank() < 2 ? i : strategy.size() - 1 - i);
      strategy.step();
      if (stage == 0) {
        LocalUpdates local(replicas, strategy, {.every = 1});
        testing::run_passes(strategy, model, comm.rank(), 1);
        local.step();
        local.finish();
        local.verify();
        return;
      }
      const Error error = error_of([&] { LocalUpdates(replicas, strategy, {.every = 1}); });
      require(contains(error.what(), "rank 1 has buckets that its first step has laid out") &&
                  contains(error.what(), "before the first step"),
              error.what());
    });
  }
}

// In sites of two ranks every rank hears of it.
TEST(LocalMistakes, InOneSiteAreHeardByAllItsRanks) {
  on_ranks(4, [&](Communicator& comm) {
    const Ones ones;
    train::Replicas replicas = train::make_replicas(comm, 2);
    Strategy strategy = make(1, replicas.inside, ones.parameters);
    const Error error = error_of([&] { LocalUpdates(replicas, strategy, {.every = comm.rank() < 2 ? 50 : 100}); });
    require(error.code() == ErrorCode::mismatch && contains(error.what(), "rank 1 has the settings every 100"),
            error.what());
  });
}

void step_with(LocalUpdates& local, float of_a, float of_b) {
  local.strategy().zero_gradients();
  testing::fill(local.strategy(), 0, of_a);
  testing::fill(local.strategy(), 1, of_b);
  for (const std::size_t i : {1, 0}) local.strategy().ready(i);
  local.step();
}

TEST(LocalMistakes, OfValuesThatAreNotFiniteNameReplicaAndParameter) {
  for (const auto& [site_ranks, few] : {std::pair(1, false), {2, false}, {1, true}, {2, true}}) {
    on_ranks(4, [&, site_ranks = site_ranks, few = few](Communicator& comm) {
      const Ones ones;
      train::Replicas replicas = train::make_replicas(comm, site_ranks);
      Strategy strategy = make(site_ranks - 1, replicas.inside, ones.parameters, {}, ones.plain);
      LocalUpdatesOptions options{.every = 2};
      if (few) options.quantise = train::Quantise();
      LocalUpdates local(replicas, strategy, options);
      const bool is_bad = replicas.between.rank() == 1;
      step_with(local, 1, 1);
      const Error error = error_of([&] { step_with(local, 1, is_bad ? NAN : 1); });
      require(error.code() == ErrorCode::invalid_argument, error.what());
      require(contains(error.what(), "replica 1, parameter \"b\": its values are not finite"), error.what());
      require(testing::value_of(strategy, 0) == -1, "nothing was merged");
      if (!is_bad) require(testing::value_of(strategy, 1) == -1, "nothing was merged");
      require(contains(error_of([&] { local.step(); }).what(), "has failed"), "for good");
    });
  }
}

TEST(LocalMistakes, OfAnotherNumberOfStepsAreNamed) {
  on_ranks(3, [&](Communicator& comm) {
    const Ones ones;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, replicas.inside, ones.parameters);
    LocalUpdates local(replicas, strategy, {.every = 10});
    for (int step = 0; step < (comm.rank() == 1 ? 4 : 5); ++step) step_with(local, 1, 1);
    const Error error = error_of([&] { local.finish(); });
    require(error.peer() == 1 && contains(error.what(), "replica 1 ends after 4 steps and replica 0 after 5"),
            error.what());
  });
}

std::vector<std::vector<float>> inner_state(Strategy& strategy) {
  std::vector<std::vector<float>> state;
  for (const train::OwnedPart& part : strategy.owned())
    for (const float* array : {part.shard.master, part.shard.states[0], part.shard.states[1]})
      state.emplace_back(array, array + part.count);
  return state;
}

// A replica that dies between exchanges is named at the next one; the others' inner state is that of a twin that
// trained without any exchange, and they go on by themselves.
void loses_replica_one(Ranks kind, const LocalUpdatesOptions& options, int steps) {
  const auto ends = testing::run_ranks(kind, 3, [&](Communicator& comm) {
    const ToyModel model;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, replicas.inside, model.parameters), twin = make(0, replicas.inside, model.parameters);
    LocalUpdates local(replicas, strategy, options);
    const auto step = [&](int number) {
      testing::run_passes(strategy, model, comm.rank(), number);
      testing::train_step(twin, model, comm.rank(), number);
      local.step();
    };
    for (int early = 0; early + 1 < steps; ++early) step(early);
    if (comm.rank() == 1) ::raise(SIGKILL);
    int number = steps - 1;
    const Error error = error_of([&] {
      // Asynchronous replicas train on until it is known.
      for (; options.asynchronous || number < steps + 5; ++number) step(number);
    });
    require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
    require(inner_state(strategy) == inner_state(twin), "the inner state is intact");
    for (Strategy* each : {&strategy, &twin}) testing::train_step(*each, model, comm.rank(), number + 1);
    require(inner_state(strategy) == inner_state(twin), "and goes on");
  });
  EXPECT_EQ(ends[1].signal, SIGKILL);
  EXPECT_TRUE(ends[0].ok()) << ends[0].message;
  EXPECT_TRUE(ends[2].ok()) << ends[2].message;
}

TEST(LocalMistakes, AReplicaThatDiesIsNamedAtTheNextExchange) {
  loses_replica_one(Ranks::processes, {.every = 4}, 4);
  loses_replica_one(Ranks::tcp, {.every = 4}, 4);
  loses_replica_one(Ranks::processes, {.every = 4, .overlap = 2}, 4);
  loses_replica_one(Ranks::processes, {.every = 6, .fragments = 2, .overlap = 2}, 2);
  loses_replica_one(Ranks::processes, {.every = 4, .asynchronous = true}, 4);
  loses_replica_one(Ranks::processes, {.every = 4, .quantise = train::Quantise()}, 4);
}

}  // namespace
}  // namespace tutti
