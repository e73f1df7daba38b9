// Actors and learners: trajectories in bounded queues, weights that wait for nobody, actors that die; v-trace.
#include "tutti/train/actor_learner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <map>
#include <random>
#include <thread>

#include "check.h"
#include "train/ones.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::on_ranks;
using testing::Ranks;
using testing::require;
using train::Actor;
using train::ActorOptions;
using train::Learner;
using train::Trajectory;

constexpr ActorOptions kOptions{.most_floats = 3000, .queue = 2};
constexpr std::size_t kWeights = 500;

std::vector<float> weights_of(std::int64_t version) {
  return std::vector<float>(kWeights, static_cast<float>(version));
}

// Trajectory number n of an actor: the version of its weights, then numbers that depend on both, as its length does.
std::vector<float> trajectory_of(int actor, std::uint64_t number, std::int64_t version) {
  std::vector<float> floats(1 + (number * 37 + static_cast<std::uint64_t>(actor)) % kOptions.most_floats);
  floats[0] = static_cast<float>(version);
  for (std::size_t i = 1; i < floats.size(); ++i)
    floats[i] = static_cast<float>(actor * 100'000 + static_cast<int>(number) * 10 + static_cast<int>(i % 7));
  return floats;
}

// Until the learner stops: sends trajectories, and looks whether the weights are those of their version.
void act(Actor& actor, int rank) {
  std::int64_t last = -1;
  while (actor.running()) {
    const std::span<const float> weights = actor.weights();
    if (actor.version() < 0) break;  // the learner has stopped before
    require(weights.front() == static_cast<float>(actor.version()) && weights.back() == weights.front(), "weights");
    require(actor.version() >= last, "versions grow");
    last = actor.version();
    actor.send(trajectory_of(rank, actor.trajectories(), actor.version()));
  }
}

void require_send_recv(const Counters& counters, const train::Sentence& sentence) {
  const train::Spoken said = spoken(sentence, Verb::send_recv);
  require(counters[Verb::send_recv].calls == said.calls && counters[Verb::send_recv].bytes == said.bytes,
          "calls " + std::to_string(counters[Verb::send_recv].calls) + " of " + std::to_string(said.calls) +
              ", bytes " + std::to_string(counters[Verb::send_recv].bytes) + " of " + std::to_string(said.bytes));
}

void learn_and_stop(Communicator& comm, std::uint64_t least) {
  if (comm.rank() != kOptions.learner) {
    Actor actor(comm, kWeights, kOptions);
    act(actor, comm.rank());
    require(actor.versions() > 0, "weights came");
    require(!actor.send(trajectory_of(1, 1, actor.version())), "the learner has stopped");
    require_send_recv(actor.counters(), actor.sentence());
    return;
  }
  Learner learner(comm, weights_of(0), kOptions);
  std::map<int, std::uint64_t> taken;
  std::uint64_t takes = 0;
  for (; takes < least || static_cast<int>(taken.size()) < comm.size() - 1; ++takes) {  // one may be slow to start
    const Trajectory trajectory = learner.take();
    const std::vector<float> expected = trajectory_of(trajectory.actor, taken[trajectory.actor]++, trajectory.version);
    require(std::equal(expected.begin(), expected.end(), trajectory.data.begin(), trajectory.data.end()),
            "trajectory " + std::to_string(taken[trajectory.actor]) + " of " + std::to_string(trajectory.actor));
    require(trajectory.version <= learner.version(), "of a version that was published");
    if (takes % 3 == 0) learner.publish(weights_of(learner.version() + 1));
  }
  const train::PolicyLag lag = learner.lag();
  require(lag.trajectories == takes && lag.mean >= 0 && static_cast<double>(lag.most) >= lag.mean, "lag");
  learner.stop();
  require(learner.actors() == 0 && learner.lost().empty(), "all have ended well");
  require(contains(error_of([&] { learner.take(); }).what(), "take: the learner has stopped"), "words");
}

TEST(ActorLearner, TrajectoriesComeInOrderFromAllActors) {
  for (const int ranks : {2, 3, 5}) on_ranks(ranks, [](Communicator& comm) { learn_and_stop(comm, 120); });
}

TEST(ActorLearner, TheyDoSoBetweenProcessesAndOverTcp) {
  for (const Ranks kind : {Ranks::processes, Ranks::tcp, Ranks::mixed})
    testing::expect_all_ok(testing::run_ranks(kind, 4, [](Communicator& comm) { learn_and_stop(comm, 60); }));
}

TEST(ActorLearner, AnActorIsNeverFurtherAheadThanItsQueue) {
  constexpr ActorOptions kThree{.most_floats = 8, .queue = 3};
  std::atomic<int> sent{0};
  on_ranks(2, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      Actor actor(comm, 1, kThree);
      static_cast<void>(actor.weights());
      while (actor.send(std::vector<float>(8))) ++sent;
      return;
    }
    Learner learner(comm, std::vector<float>(1), kThree);
    for (int taken = 0; taken < 50; ++taken) {
      while (sent < taken + 3) std::this_thread::yield();  // so far it goes
      for (int i = 0; i < 20; ++i) std::this_thread::yield();
      require(sent == taken + 3, "and no further: " + std::to_string(sent) + " at " + std::to_string(taken));
      static_cast<void>(learner.take());
    }
    learner.stop();
  });
}

TEST(ActorLearner, WeightsDoNotWaitForAnActorThatDoesNotTakeThem) {
  on_ranks(3, [](Communicator& comm) {
    int token = 1;
    constexpr std::int64_t kVersions = 50;
    // However slow the machine is, the actor that waits is not given up.
    const ActorOptions options{.most_floats = 3000, .queue = 2, .patience = std::chrono::minutes(10)};
    if (comm.rank() == 0) {
      Learner learner(comm, weights_of(0), options);
      for (int i = 0; i < kVersions; ++i) {
        require(learner.take().actor == 1, "the other one is not there yet");
        learner.publish(weights_of(learner.version() + 1));
      }
      comm.send(one(token), 2);
      while (learner.take().actor == 1) require(learner.lost().empty(), "it is still there");
      require(learner.lag().most <= kVersions, "lag");
      learner.stop();
      return;
    }
    Actor actor(comm, kWeights, options);
    if (comm.rank() == 1) return act(actor, 1);
    comm.recv(one(token), 0);
    while (actor.version() < kVersions) static_cast<void>(actor.weights());
    require(actor.versions() <= 3, "what it was sent first, and the newest: " + std::to_string(actor.versions()));
    actor.send(trajectory_of(2, 0, actor.version()));
    act(actor, 2);
  });
}

// The version that an actor had, though newer weights come while it waits for its turn to send.
TEST(ActorLearner, ATrajectoryTellsTheVersionOfItsWeightsAndHowFarTheyLag) {
  on_ranks(2, [](Communicator& comm) {
    int token = 1;
    constexpr std::int64_t kAhead = 3;
    constexpr ActorOptions kOne{.most_floats = 3000, .queue = 1};
    if (comm.rank() == 1) {
      Actor actor(comm, kWeights, kOne);
      static_cast<void>(actor.weights());
      require(actor.version() == 0, "the first ones");
      actor.send(trajectory_of(1, 0, 0));
      comm.send(one(token), 0);
      actor.send(trajectory_of(1, 1, 0));
      require(actor.version() == 0, "until it asks for others");
      comm.recv(one(token), 0);
      while (actor.version() < kAhead) static_cast<void>(actor.weights());
      actor.send(trajectory_of(1, 2, kAhead));
      while (actor.running()) static_cast<void>(actor.weights());
      return;
    }
    Learner learner(comm, weights_of(0), kOne);
    comm.recv(one(token), 1);
    for (std::int64_t version = 1; version <= kAhead; ++version) learner.publish(weights_of(version));
    for (int i = 0; i < 2; ++i) require(learner.take().version == 0, "it was made with what came first");
    require(learner.lag().most == kAhead && learner.lag().mean == kAhead, "and lags by what came since");
    comm.send(one(token), 1);
    require(learner.take().version == kAhead, "with the newest");
    require(learner.lag().most == kAhead && learner.lag().mean == kAhead * 2 / 3.0, "which lag by nothing");
    learner.stop();
  });
}

TEST(ActorLearnerDeaths, OfActorsAreNamedAndTheLearnerGoesOn) {
  for (const Ranks kind : {Ranks::processes, Ranks::tcp}) {
    const auto ends = testing::run_ranks(kind, 4, [](Communicator& comm) {
      if (comm.rank() != 0) {
        Actor actor(comm, kWeights, kOptions);
        for (int i = 0; comm.rank() == 2 && i < 5; ++i) {
          static_cast<void>(actor.weights());
          actor.send(trajectory_of(2, actor.trajectories(), actor.version()));
        }
        if (comm.rank() == 2) ::raise(SIGKILL);
        return act(actor, comm.rank());
      }
      Learner learner(comm, weights_of(0), kOptions);
      while (learner.actors() == 3) static_cast<void>(learner.take());
      require(
          learner.lost().size() == 1 && learner.lost()[0].rank == 2 && learner.lost()[0].code == ErrorCode::peer_lost,
          learner.lost()[0].why);
      require(contains(learner.lost()[0].why, "actor rank 2 was lost after"), learner.lost()[0].why);
      for (int i = 0; i < 50; ++i) {
        require(learner.take().actor != 2, "of those that live");
        learner.publish(weights_of(learner.version() + 1));
      }
      learner.stop();
    });
    EXPECT_EQ(ends[2].signal, SIGKILL);
    for (const std::size_t rank : {0u, 1u, 3u}) EXPECT_TRUE(ends[rank].ok()) << rank << ": " << ends[rank].message;
  }
}

TEST(ActorLearnerDeaths, WithoutActorsTheLearnerSaysWhoWasLast) {
  on_ranks(2, [](Communicator& comm) {
    if (comm.rank() == 1) {
      Actor actor(comm, kWeights, kOptions);
      return;
    }
    Learner learner(comm, weights_of(0), kOptions);
    const Error error = error_of([&] { learner.take(); });
    require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
    require(contains(error.what(), "take: no actor is left; the last one: actor rank 1 was lost after 0 trajectories"),
            error.what());
  });
}

// It goes right behind its send, or once the learner has taken what it sent.
TEST(ActorLearnerDeaths, AnActorThatLeavesAfterItHasSentHasLeft) {
  for (const Ranks kind : {Ranks::threads, Ranks::processes, Ranks::tcp}) {
    for (const bool waits : {false, true}) {
      testing::expect_all_ok(testing::run_ranks(kind, 3, [waits](Communicator& comm) {
        Communicator telling = comm.duplicate();
        int token = 1;
        if (comm.rank() != 0) {
          Actor actor(comm, kWeights, kOptions);
          static_cast<void>(actor.weights());
          if (comm.rank() == 1) return act(actor, 1);
          actor.send(trajectory_of(2, 0, actor.version()));
          if (waits) telling.recv(one(token), 0);
          return;
        }
        Learner learner(comm, weights_of(0), kOptions);
        while (learner.take().actor == 1) require(learner.actors() == 2, "what came before it left is not lost");
        if (waits) telling.send(one(token), 2);
        while (learner.actors() == 2) static_cast<void>(learner.take());
        require(learner.lost()[0].rank == 2 && learner.lost()[0].trajectories == 1, learner.lost()[0].why);
        require(learner.lost()[0].code == ErrorCode::peer_lost, learner.lost()[0].why);
        learner.stop();
      }));
    }
  }
}

// The learner finds out by its news, which nobody takes any more.
TEST(ActorLearnerDeaths, WhatAnActorSentBeforeItLeftIsTakenAfterwards) {
  for (const Ranks kind : {Ranks::threads, Ranks::processes, Ranks::tcp}) {
    testing::expect_all_ok(testing::run_ranks(kind, 2, [](Communicator& comm) {
      Communicator telling = comm.duplicate();
      int token = 1;
      if (comm.rank() == 1) {
        {
          Actor actor(comm, kWeights, kOptions);
          static_cast<void>(actor.weights());
          for (std::uint64_t n = 0; n < kOptions.queue; ++n) actor.send(trajectory_of(1, n, actor.version()));
        }
        return telling.send(one(token), 0);
      }
      Learner learner(comm, weights_of(0), kOptions);
      telling.recv(one(token), 1);
      for (int version = 1; version <= 2000; ++version) learner.publish(weights_of(version));
      for (std::uint64_t n = 0; n < kOptions.queue; ++n) {
        const Trajectory trajectory = learner.take();
        const std::vector<float> expected = trajectory_of(1, n, 0);
        require(std::equal(expected.begin(), expected.end(), trajectory.data.begin(), trajectory.data.end()), "whole");
      }
      const Error error = error_of([&] { learner.take(); });
      require(contains(error.what(), "actor rank 1 was lost after 2 trajectories"), error.what());
    }));
  }
}

TEST(ActorLearnerDeaths, ALearnerThatGoesWithoutStoppingIsNamedByActors) {
  for (const Ranks kind : {Ranks::threads, Ranks::processes}) {
    testing::expect_all_ok(testing::run_ranks(kind, 3, [](Communicator& comm) {
      if (comm.rank() == 0) {
        Learner learner(comm, weights_of(0), kOptions);
        for (int i = 0; i < 5; ++i) static_cast<void>(learner.take());
        return;
      }
      Actor actor(comm, kWeights, kOptions);
      const Error error = error_of([&] { act(actor, comm.rank()); });
      require(error.peer() == 0 && contains(error.what(), "learner rank 0 "), error.what());
      require(error.code() == ErrorCode::peer_failed || error.code() == ErrorCode::peer_lost, error.what());
    }));
  }
}

// It does not die, and waits for what only comes once it has been given up.
TEST(ActorLearnerDeaths, AnActorThatStallsIsNamed) {
  on_ranks(3, [](Communicator& comm) {
    const ActorOptions options{.most_floats = 3000, .queue = 2, .patience = std::chrono::milliseconds(1500)};
    int token = 1;
    if (comm.rank() != 0) {
      Actor actor(comm, kWeights, options);
      if (comm.rank() == 1) return act(actor, 1);
      static_cast<void>(actor.weights());
      comm.recv(one(token), 0);
      const Error error = error_of([&] {
        while (actor.running()) actor.send(trajectory_of(2, 0, actor.version()));
      });
      require(contains(error.what(), "actor rank 2, ") && error.peer() == 0, error.what());
      return;
    }
    Learner learner(comm, weights_of(0), options);
    while (learner.actors() == 2) static_cast<void>(learner.take());
    require(learner.lost()[0].rank == 2 && learner.lost()[0].code == ErrorCode::timeout, learner.lost()[0].why);
    comm.send(one(token), 2);
    learner.stop();
  });
}

TEST(ActorLearnerDeaths, OfTheLearnerAreToldByActors) {
  const auto ends = testing::run_ranks(Ranks::processes, 3, [](Communicator& comm) {
    if (comm.rank() == 0) {
      Learner learner(comm, weights_of(0), kOptions);
      for (int i = 0; i < 10; ++i) static_cast<void>(learner.take());
      ::raise(SIGKILL);
    }
    Actor actor(comm, kWeights, kOptions);
    const Error error = error_of([&] { act(actor, comm.rank()); });
    require(error.code() == ErrorCode::peer_lost && error.peer() == 0, error.what());
    require(contains(error.what(), "learner rank 0 is gone"), error.what());
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  for (const std::size_t rank : {1u, 2u}) EXPECT_TRUE(ends[rank].ok()) << rank << ": " << ends[rank].message;
}

TEST(ActorLearnerMistakes, AreRefused) {
  on_ranks(2, [](Communicator& comm) {
    const auto refused = [&](const ActorOptions& options, std::size_t weights, const std::string& part) {
      const Error error = error_of([&] {
        if (comm.rank() == 0) Learner(comm, std::vector<float>(weights), options);
        if (comm.rank() == 1) Actor(comm, weights, options);
      });
      require(contains(error.what(), part), error.what());
    };
    refused({.most_floats = 8, .queue = 0}, 1, "a queue of 0 trajectories would never let an actor send");
    refused({.most_floats = 0}, 1, "say how many they have in most_floats");
    refused({.learner = 1, .most_floats = 8}, 1, "a Learner is made here, and the learner is rank 1");
    refused({.learner = 7, .most_floats = 8}, 1, "learner rank 7 of 2 ranks");
    refused({.most_floats = 8}, comm.rank() == 0 ? 3 : 4, "rank 1 has the settings learner 0, weights 4");
    if (comm.rank() == 0) {
      Learner learner(comm, std::vector<float>(3), {.most_floats = 8});
      require(contains(error_of([&] { learner.publish(std::vector<float>(2)); }).what(),
                       "publish: 2 numbers, and a version has 3"),
              "publish");
      learner.stop();
      return;
    }
    Actor actor(comm, 3, {.most_floats = 8});
    require(contains(error_of([&] { actor.send(std::vector<float>(8)); }).what(), "call weights() first"), "send");
    static_cast<void>(actor.weights());
    require(contains(error_of([&] { actor.send(std::vector<float>(9)); }).what(),
                     "actor rank 1, send: a trajectory of 9 numbers, and ActorOptions::most_floats is 8"),
            "most_floats");
    while (actor.running()) actor.send(std::vector<float>(8));
  });
}

// ---- V-trace, against its definition in float64: sums of products, without the recursion.

struct Random {
  explicit Random(unsigned seed, std::size_t steps) : random(seed) {
    for (std::vector<float>* numbers : {&log_ratios, &rewards, &values}) {
      for (std::size_t i = 0; i < steps; ++i) numbers->push_back(std::normal_distribution<float>(0, 1)(random));
    }
    for (std::size_t i = 0; i < steps; ++i) discounts.push_back(random() % 7 == 0 ? 0 : 0.97F);
  }
  train::VTraceInput input() const { return {log_ratios, rewards, discounts, values, 0.7F}; }

  std::mt19937 random;
  std::vector<float> log_ratios, rewards, discounts, values;
};

double target_by_definition(const train::VTraceInput& in, std::size_t s, const train::VTraceOptions& options) {
  const std::size_t n = in.rewards.size();
  if (s == n) return in.bootstrap;
  double target = in.values[s], product = 1;
  for (std::size_t t = s; t < n; ++t) {
    const double ratio = std::exp(static_cast<double>(in.log_ratios[t]));
    const double next = t + 1 < n ? in.values[t + 1] : in.bootstrap;
    target += product * std::min(options.most_rho, ratio) *
              (in.rewards[t] + static_cast<double>(in.discounts[t]) * next - in.values[t]);
    product *= in.discounts[t] * std::min(options.most_c, ratio);
  }
  return target;
}

TEST(VTrace, IsItsDefinition) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::size_t steps = seed % 13;
    const Random random(seed, steps);
    const train::VTraceInput input = random.input();
    for (const train::VTraceOptions options : {train::VTraceOptions{}, train::VTraceOptions{2.5, 0.4}}) {
      std::vector<float> targets(steps), advantages(steps);
      v_trace(input, targets, advantages, options);
      for (std::size_t t = 0; t < steps; ++t) {
        EXPECT_NEAR(targets[t], target_by_definition(input, t, options), 1e-6 * (1 + std::abs(targets[t])));
        const double rho = std::min(options.most_rho, std::exp(static_cast<double>(input.log_ratios[t])));
        const double expected =
            rho *
            (input.rewards[t] + static_cast<double>(input.discounts[t]) * target_by_definition(input, t + 1, options) -
             input.values[t]);
        EXPECT_NEAR(advantages[t], expected, 1e-6 * (1 + std::abs(expected)));
      }
    }
  }
}

TEST(VTrace, OfThePolicyItselfIsTheSumOfRewards) {
  const std::vector<float> zeros(4), rewards{1, 2, 4, 8}, discounts(4, 0.5F), values{3, 1, 4, 1};
  std::vector<float> targets(4), advantages(4);
  train::v_trace({zeros, rewards, discounts, values, 16}, targets, advantages);
  EXPECT_FLOAT_EQ(targets[0], 1 + 1 + 1 + 1 + 1);
  EXPECT_FLOAT_EQ(advantages[3], 8 + 8 - 1);
}

TEST(VTrace, LengthsMustAgree) {
  const std::vector<float> four(4), three(3);
  std::vector<float> out(4);
  EXPECT_TRUE(contains(error_of([&] {
                         train::v_trace({four, four, three, four, 0}, out, out);
                       }).what(),
                       "v_trace: arrays of different lengths"));
}

}  // namespace
}  // namespace tutti
