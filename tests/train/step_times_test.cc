// Where a step's time went: what was hidden by computation and what was not, held against a clock of the test's own;
// and that gradients are on their way before step().
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/formatted.h"
#include "check.h"
#include "process_state.h"
#include "train/one_process.h"
#include "train/ones.h"

namespace tutti {
namespace {

using testing::contains;
using testing::fill;
using testing::kStages;
using testing::make;
using testing::on_ranks;
using testing::Ones;
using testing::require;
using testing::ToyModel;
using train::Strategy;
using train::StrategyOptions;

using Clock = std::chrono::steady_clock;

double us_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

TEST(StepTimes, ExposedIsPartOfAllCommunicationWhateverIsWaitedFor) {
  const ToyModel model;
  for (const int stage : kStages) {
    on_ranks(3, [&](Communicator& comm) {
      const StrategyOptions options{
          .bucket_bytes = 10'000, .unused_parameters = true, .clip_norm = 1, .measure_noise = true};
      Strategy strategy = make(stage, comm, model.parameters, options);
      for (int step = 0; step < 10; ++step) {
        strategy.weight(comm.rank() + 1);
        testing::train_step(strategy, model, comm.rank(), step);
        const train::Report report = strategy.report();
        require(report.gamma_raw >= report.gamma_exposed && report.gamma_exposed > 0,
                "stage " + std::to_string(stage) + ": " + std::to_string(report.gamma_raw) + " raw, " +
                    std::to_string(report.gamma_exposed) + " exposed");
      }
    });
  }
}

// What holds rank 0 back until rank 1 waits, which is when it sleeps, and then for twice as long as it had taken to
// come there. Ranks are threads.
struct Hold {
  void about_to_wait() {
    thread = "self/task/" + std::to_string(::gettid());
    reached = Clock::now();
    is_reached.store(true, std::memory_order_release);
  }
  void hold() {
    while (!is_reached.load(std::memory_order_acquire)) std::this_thread::yield();
    // A sleep that is shorter is not yet the wait; one that waits looks for dead peers now and then.
    const auto enough = std::min<Clock::duration>(2 * (reached - began), std::chrono::milliseconds(5));
    const auto longest = reached + std::chrono::seconds(30);
    asleep = ended = reached;
    while (ended - asleep < enough) {
      require(ended < longest, "rank 1 does not sleep");
      std::this_thread::yield();
      ended = Clock::now();
      if (testing::state_of(thread) != 'S') asleep = ended;
    }
  }

  std::string thread;  // of rank 1, as /proc names it
  Clock::time_point began, reached, asleep, ended;
  std::atomic<bool> is_reached = false;
};

TEST(StepTimes, WhatStepWaitsForIsExposed) {
  for (const int stage : kStages) {
    Hold hold;
    on_ranks(2, [&](Communicator& comm) {
      const Ones ones;
      Strategy strategy = make(stage, comm, ones.parameters, {}, ones.plain);
      const auto backward = [&](bool held) {
        strategy.zero_gradients();
        for (const std::size_t i : {1, 0}) fill(strategy, i, 1);
        if (held && comm.rank() == 0) hold.hold();
        for (const std::size_t i : {1, 0}) strategy.ready(i);
      };
      backward(false);
      strategy.step();
      comm.barrier();
      if (comm.rank() == 1) hold.began = Clock::now();
      backward(true);
      if (comm.rank() == 1) hold.about_to_wait();
      strategy.step();
      comm.barrier();
      if (comm.rank() == 0) return;
      // Times of the report begin before `began`.
      const train::Report report = strategy.report();
      const double called = report.times.called_us, ended = us_between(hold.began, hold.ended);
      require(called >= us_between(hold.began, hold.reached), "step() was called behind backward");
      require(report.timeline[0].exposed_us >= ended - called, "what was waited for is exposed");
      require(report.timeline[0].exposed_us <= report.timeline[0].end_us - report.timeline[0].start_us, "a part of it");
      require(report.times.waiting_us >= us_between(hold.asleep, hold.ended), "and was waited for");
    });
  }
}

// Stages 2 and 3 have three buffers: a fourth bucket waits in backward.
TEST(StepTimes, WhatBackwardWaitsForIsExposedToo) {
  for (const int stage : {2, 3}) {
    Hold hold;
    on_ranks(2, [&](Communicator& comm) {
      constexpr std::size_t kBuckets = 5;
      std::vector<float> values(1024);
      train::Parameters parameters;
      for (std::size_t i = 0; i < kBuckets; ++i)
        parameters.push_back({.name = std::to_string(i), .shape = {1024}, .values = values.data(), .unit = i});
      Strategy strategy = make(stage, comm, parameters, {.bucket_bytes = 1});
      const auto backward = [&](bool held) {
        strategy.zero_gradients();
        for (std::size_t i = kBuckets; i-- > 0;) {
          if (held && comm.rank() == 0 && i == kBuckets - 1) hold.hold();
          if (held && comm.rank() == 1 && i == kBuckets - 4) hold.about_to_wait();
          fill(strategy, i, 1);
          strategy.ready(i);
        }
      };
      backward(false);
      strategy.step();
      comm.barrier();
      if (comm.rank() == 1) hold.began = Clock::now();
      backward(true);
      strategy.step();
      comm.barrier();
      if (comm.rank() == 0) return;
      const train::Report report = strategy.report();
      // Until rank 0 was let go rank 1 computed, and then waited for the first bucket's buffer.
      require(report.times.computing_us + report.timeline[0].exposed_us >= us_between(hold.began, hold.ended),
              "waits in backward are exposed");
      require(report.times.called_us >= us_between(hold.began, hold.ended), "and are before step()");
      for (const train::BucketTimes& bucket : report.timeline)
        require(bucket.exposed_us <= bucket.end_us - bucket.start_us, "a part of it");
      require(contains(to_svg(report), formatted("computing until %.3f ms", report.times.called_us / 1e3)),
              "drawn where it was");
      require(contains(to_json(report), formatted("\"called_us\": %.3f", report.times.called_us)), "for scripts");
    });
  }
}

TEST(StepTimes, EveryPhraseTellsWhatOfItWasHidden) {
  const ToyModel model;
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      Strategy strategy = make(stage, comm, model.parameters, {.bucket_bytes = 10'000});
      for (const train::Phrase& phrase : strategy.report().each_step) require(phrase.under_way_us == 0, "no step yet");
      for (int step = 0; step < 2; ++step) testing::train_step(strategy, model, comm.rank(), step);
      const train::Report report = strategy.report();
      std::size_t bucket = 0, values = 0;
      for (const train::Phrase& phrase : report.each_step) {
        require(phrase.under_way_us > 0 && phrase.exposed_us <= phrase.under_way_us, "a part of it is exposed");
        if (phrase.verb == Verb::all_gather) {
          ++values;
          continue;
        }
        const train::BucketTimes& times = report.timeline[bucket++];
        require(phrase.under_way_us == times.end_us - times.start_us && phrase.exposed_us == times.exposed_us,
                "as the timeline has it");
      }
      require(bucket == report.timeline.size() && values == (stage == 0 ? 0 : bucket), "a phrase for every bucket");
      require(contains(to_text(report), formatted("%.3f ms, of them", report.each_step[0].under_way_us / 1e3)) ||
                  report.each_step.size() > 12,
              "told");
    });
  }
}

// A sentence of many buckets is told in few lines, which have all their times.
TEST(StepTimes, OfPhrasesThatAreToldTogetherAddUp) {
  train::Report report;
  for (int i = 0; i < 20; ++i) {
    report.each_step.push_back({Verb::all_reduce, "gradients of bucket " + std::to_string(i), 1024, 1, 2});
    report.each_step.back().under_way_us = 1000;
    report.each_step.back().exposed_us = 250;
  }
  EXPECT_TRUE(contains(to_text(report), "x 20   gradients of buckets, 20.000 ms, of them 5.000 exposed"))
      << to_text(report);
}

TEST(Overlap, ABucketIsOnItsWayBeforeStep) {
  for (const int stage : {0, 1, 2}) {
    on_ranks(2, [&](Communicator& comm) {
      const Ones ones;
      Strategy strategy = make(stage, comm, ones.parameters, {.bucket_bytes = 1}, ones.plain);
      const auto calls = [&] {
        return strategy.counters()[stage == 0 ? Verb::all_reduce : Verb::reduce_scatter].calls;
      };
      const auto take = [&](std::size_t i) {
        fill(strategy, i, 1);
        strategy.ready(i);
      };
      for (int step = 0; step < 2; ++step) {
        strategy.zero_gradients();
        const std::uint64_t before = calls();
        take(1);
        // In its first step stages 0 and 1 learn the order, and send nothing before.
        require(calls() - before == (step > 0 || stage == 2 ? 1 : 0), "while others are computed");
        take(0);
        strategy.step();
        require(calls() - before == 2, "a call for each bucket");
      }
    });
  }
}

}  // namespace
}  // namespace tutti
