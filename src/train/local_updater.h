// What is behind LocalUpdates: fragments of what this rank owns, and their exchanges.
//
// An exchange goes through begin() (the masters are copied into memory that travels), the call, which may take as long
// as it likes, settle() (all ranks of the replica have the mean, and it is finite) and merge(), which is the first to
// change anything: the start, the momentum, the masters, and the strategy makes values of them. So whatever fails
// before leaves the strategy as it was.
//
// Exchanges are begun and merged in the order of their numbers, on all ranks alike; between_ sees calls in no other
// order. A quantised exchange is two calls, the second of which publish() begins. What is asked at moments that
// asynchronous replicas do not share goes by control_.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strategy/fragments.h"
#include "train/checkpoint_folder.h"
#include "train/checkpoint_index.h"
#include "train/quantised_exchange.h"
#include "tutti/communicator.h"
#include "tutti/train/local_updates.h"

namespace tutti::train {

class LocalUpdater {
 public:
  LocalUpdater(Replicas& replicas, Strategy& strategy, const LocalUpdatesOptions& options);
  LocalUpdater(const LocalUpdater&) = delete;
  LocalUpdater& operator=(const LocalUpdater&) = delete;
  ~LocalUpdater();

  LocalStep step(std::optional<double> learning_rate);
  void finish();
  void verify();
  std::int64_t steps() const { return steps_; }
  std::int64_t exchanges() const { return exchanges_; }
  const std::vector<std::int64_t>& contributions() const { return contributions_; }
  Strategy& strategy() const { return strategy_; }
  const LocalUpdatesOptions& options() const { return options_; }
  Counters counters() const;
  Report report() const;

  // ---- For checkpoints (local_updater_saved.cc).
  // Throws where an exchange is under way.
  OuterArrays outer_arrays();
  void restored(const SavedRounds& rounds);
  // Collective over all replicas. `own`: the steps of this replica's checkpoints, asked on its first rank. Those that
  // all have, in order; with `must_match` it throws where each has some and none is everybody's.
  std::vector<std::int64_t> shared_steps(const StepsOf& own, bool must_match);
  // Collective over all replicas: `load` gets the last step that all have; nothing where one has none.
  std::optional<TrainingPosition> load_alike(const StepsOf& own,
                                             const std::function<std::optional<TrainingPosition>(std::int64_t)>& load);

 private:
  using Clock = std::chrono::steady_clock;

  // A part of the model, and the exchange of it that was begun last.
  struct Fragment {
    std::vector<std::size_t> parameters;
    std::vector<OwnedPart> parts;
    std::size_t elements = 0;
    std::vector<float> start, momentum;  // the same on all replicas
    std::shared_ptr<void> memory;        // what travels: this replica's values, then the mean
    std::vector<float> sent;             // asynchronous: the values again
    std::vector<float> lost;             // quantised: what earlier exchanges could not say
    std::unique_ptr<QuantisedExchange> codes;
    Sentence refreshed;  // what it says to make values of masters

    std::int64_t begun_at = 0;  // inner steps
    std::int64_t made_of = 0;   // inner steps of the contribution
    std::optional<std::size_t> not_finite;
    std::vector<std::uint64_t> steps_of_all;
    bool under_way = false, published = false;
    std::exception_ptr failure;  // of publishing
    std::vector<Work> works;
    Clock::time_point began;
    // Set by whichever thread takes the call to its end; 0 before.
    std::shared_ptr<std::atomic<Clock::rep>> end;
    double under_way_us = 0, exposed_us = 0;

    float* values() const { return static_cast<float*>(memory.get()); }
    bool has_ended() const;
  };

  // ---- Making it (local_updater_setup.cc).
  void check_options() const;
  void check_alike(const std::vector<OwnedPart>& owned);
  void make_fragments(const std::vector<OwnedPart>& owned);
  void set_out_alike();

  // ---- Exchanges.
  // All ranks of the replica do `part`, or throw alike.
  void as_one(const std::function<void()>& part);
  // What fails in there has failed for good.
  void guarded(const std::function<void()>& part);
  Fragment& fragment_of(std::int64_t exchange) {
    return fragments_[static_cast<std::size_t>(exchange) % fragments_.size()];
  }
  std::int64_t begin_of(std::int64_t exchange) const;
  bool is_time_to_begin(std::int64_t exchange);
  void copy_values_to_send(Fragment& fragment) const;
  void begin(Fragment& fragment);
  void begin_due();
  void publish(Fragment& fragment);
  void publish_due(const std::vector<std::uint8_t>& ended);
  bool is_ripe(const Fragment& fragment, const std::vector<std::uint8_t>& ended) const;
  std::vector<std::uint8_t> poll();
  void merge_due(LocalStep& result);
  void settle(Fragment& fragment);
  void require_finite(const Fragment& fragment);
  void advance_start(Fragment& fragment);
  void take_start(Fragment& fragment);
  void mix(Fragment& fragment);
  // `whole`: the replica takes the new start as it is.
  void merge(Fragment& fragment, bool whole);
  void merge_next();
  void catch_up_with_others();
  void require_same_steps();
  std::vector<std::uint8_t> moved_since();
  strategy::FragmentBytes bytes_of(const Fragment& fragment) const;

  Communicator inside_, between_, control_;  // of our own
  Strategy& strategy_;
  LocalUpdatesOptions options_;
  double mixing_ = 0;
  std::vector<Fragment> fragments_;

  std::int64_t steps_ = 0, exchanges_ = 0;
  // Numbers of exchanges count from when finish() came last, which was after so many steps.
  std::int64_t origin_ = 0, begun_ = 0, merged_ = 0, last_begin_ = 0;
  std::vector<std::int64_t> contributions_;
  bool failed_ = false;

  Sentence once_;
  // Between the last steps of the strategy: what exchanges took, and what of it was waiting.
  double held_us_ = 0, waited_us_ = 0, held_before_us_ = 0, waited_before_us_ = 0;
};

}  // namespace tutti::train
