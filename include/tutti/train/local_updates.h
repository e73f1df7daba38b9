// Local updates (DiLoCo): replicas of a model train by themselves and exchange what they have learned every so many
// steps. Where links between them are slow, that is a small part of the bytes that data parallel sends.
//
//   tutti::train::Replicas replicas = tutti::train::make_replicas(comm);       // every rank is one, or every 4 ranks
//   tutti::train::Strategy strategy = tutti::train::data_parallel(replicas.inside, parameters, tutti::train::AdamW{});
//   tutti::train::LocalUpdates local(replicas, strategy, {.every = 100});
//   for (...) {
//     strategy.zero_gradients();
//     forward, backward and strategy.ready(i), of this replica's examples
//     local.step();                                                            // in the place of strategy.step()
//   }
//   local.finish();                                                            // all replicas have the same values
//
// Inside a replica any strategy trains: on one rank, or on several by data parallel or ZeRO. Ranks of different
// replicas that own the same part of the model exchange it: all of it with data parallel, a shard with ZeRO, which
// is why ZeRO sends least between sites. docs/fewer-bytes.md teaches the whole.
//
// An exchange: with `start` the point that all replicas set out from and `mean` the mean over replicas of their values
// now, the outer gradient start - mean (which is the mean of what each has moved) goes through Nesterov's momentum,
// start becomes start - learning_rate * (...), and the replicas go on from there. Inner optimizers keep their states.
// It is the values that travel (differences where they are quantised), and where learning_rate is 1 and there is no
// momentum the new start is `mean` itself: with every = 1 that is parameter averaging, bit for bit. All replicas come
// to the same start, with the same bits.
//
// Streaming: the model is cut into fragments, which are exchanged in turn; an exchange may overlap with so many steps.
// What replicas have moved meanwhile is mixed in (`mixing`). In a deterministic communicator the bits depend on nothing
// but the settings; with one fragment and no overlap they are those of the plain form.
//
// Asynchronous: nobody waits. An exchange is merged in the first step that finds it ended, so that a slow replica
// holds nobody up: the others train on, and begin their next exchange once the one before was merged. A contribution is
// all that its replica has moved since its last one, however many steps that took (contributions() tells how many), and
// what it moves after that, until it has the result, stays on top of it: new values = new start + (values now - values
// sent). Every inner step counts in one exchange, once. One contribution of every replica makes an outer step, so that
// momentum is updated once a round, as delayed Nesterov does. When a result is merged depends on timing, and so
// do the bits of later steps; but all replicas still come to the same start.
//
// A failed exchange, a replica that died say, is told before anything was changed: the strategy is as it was, and goes
// on by its own step(), or into a checkpoint.
//
// Threads: as Strategy::step(). It talks on duplicates of both communicators. The strategy stays where it is, and lives
// longer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/quantised.h"
#include "tutti/train/report.h"
#include "tutti/train/strategy.h"

namespace tutti::train {

class LocalUpdater;

// A mesh of two axes: this rank's replica (a site), and the ranks of all replicas that have its place there. The rank
// in `between` is the number of the replica.
struct Replicas {
  Communicator inside, between;
};
// Collective. So many ranks in a row are a replica; the communicator's size is a multiple of it.
TUTTI_API Replicas make_replicas(Communicator& communicator, int replica_ranks = 1);

struct LocalUpdatesOptions {
  std::int64_t every = 100;  // inner steps from one exchange to the next: H
  // Of the outer optimizer. A momentum of 0: none.
  double learning_rate = 0.7, momentum = 0.9;
  // Streaming: parts of the model that are exchanged in turn, and inner steps that an exchange overlaps with, less than
  // `every`: tau.
  std::size_t fragments = 1;
  std::int64_t overlap = 0;
  // The share of its own values that a replica keeps when an exchange is merged: alpha. 0 drops what it has moved since
  // the exchange began, 1 would drop the exchange. Unless given, 0.5 with overlap and 0 without.
  std::optional<double> mixing = {};
  // Outer gradients travel in few bits: Quantise{.type = QuantisedType::e3m0} as streaming DiLoCo does, or int4, int8.
  // What is lost is added to the next one's, which takes one float more for each value. An exchange is two calls then,
  // the second of them begun half-way through the overlap.
  std::optional<Quantise> quantise = {};
  // See above; overlap and mixing have no meaning then. A replica waits for an exchange once it has made most_delay
  // steps since it began; 0: never.
  bool asynchronous = false;
  std::int64_t most_delay = 0;
  // How long a replica waits for a slower one; one that dies is told at once.
  std::chrono::milliseconds timeout{1'800'000};
};

struct LocalStep {
  StepResult inner;
  std::size_t merged = 0;  // exchanges whose result is in the values since this step
  std::int64_t delay = 0;  // inner steps since the last of those began
};

class TUTTI_API LocalUpdates {
 public:
  // Collective over all replicas, before the first step. All begin with the values of replica 0. Error(mismatch) on all
  // ranks where one has other settings or another model; it names the replica. Places of values are settled, as by
  // Strategy::owned().
  LocalUpdates(Replicas& replicas, Strategy& strategy, const LocalUpdatesOptions& options = {});
  LocalUpdates(LocalUpdates&&) noexcept;
  LocalUpdates& operator=(LocalUpdates&&) noexcept;
  // Waits for exchanges that are under way; those of asynchronous replicas fail on the others, unless finish() came
  // before.
  ~LocalUpdates();

  // Strategy::step(), and what is due of exchanges. All replicas make the same number of steps; asynchronous ones may
  // differ.
  LocalStep step(std::optional<double> learning_rate = {});
  // Collective over all replicas: ends what is under way, exchanges what has been moved since, and all replicas have
  // the same values. step() may follow.
  void finish();
  // Collective over all replicas, between steps that all have made. Throws Error(mismatch) that names the first replica
  // and fragment whose outer state is not replica 0's.
  void verify();

  std::int64_t steps() const;      // inner, so far
  std::int64_t exchanges() const;  // merged so far
  // Of the exchange that was merged last: how many inner steps the contribution of each replica is made of.
  const std::vector<std::int64_t>& contributions() const;
  Strategy& strategy() const;
  const LocalUpdatesOptions& options() const;

  // Of its own communicators; those of the strategy are the strategy's.
  Counters counters() const;
  // The strategy's, with what exchanges say besides: phrases that are said every so many steps, with the times of the
  // last exchange.
  Report report() const;

  LocalUpdater& updater() const { return *updater_; }  // for Checkpoints

 private:
  std::unique_ptr<LocalUpdater> updater_;
};

}  // namespace tutti::train
