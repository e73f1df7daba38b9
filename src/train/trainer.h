// What is behind a Strategy: data parallel (stage 0) and ZeRO 1 to 3.
//
// A step: ready() counts a bucket's gradients; one that is complete is submitted once all before it are, so that all
// ranks submit in one order. step() waits for each bucket in turn, updates the own part of its values and, from
// stage 1 on, submits the gathering of the values, while later buckets are still being reduced; where a norm is
// needed, all are waited for first.
//
//   stage 0   all_reduce ........ update all ......................
//   stage 1   reduce_scatter .... update the own shard .... all_gather
//   stage 3   the same, but units are gathered when they are used
//
// In the first step of stages 0 and 1 nothing is submitted before step(): it records in which order gradients become
// ready, rank 0's order counts, and the buckets are laid out by it before anything else depends on where they lie.
//
// A bucket that is compressed has an exchange in stages instead (bucket_exchange.h, trainer_compression.cc).
//
// mutex_ guards everything but units_, which has a mutex and a communicator of its own: ready() comes from any thread.
// It is held while step() waits.
//
// A rank that cannot take a step leaves comm_ and units_, so that the others' calls there fail wherever they are; then
// all of them meet once more, in parting_, where it says why.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategy/buckets.h"
#include "strategy/sentence.h"
#include "train/bucket_exchange.h"
#include "train/bucket_memory.h"
#include "train/call_times.h"
#include "train/frozen_adam.h"
#include "train/gathered_units.h"
#include "tutti/communicator.h"
#include "tutti/train/strategy.h"

namespace tutti::train {

// Numbers that compression keeps on this rank, [first, first + count) of a parameter's; by name, so that they are found
// again where buckets are laid out otherwise.
struct KeptPart {
  std::string name;
  std::size_t parameter = 0;
  std::size_t first = 0, count = 0;
  float* values = nullptr;
  bool by_owner = false;  // other ranks have the rest of them
};

class Trainer {
 public:
  Trainer(Communicator& communicator, const Parameters& parameters, const Optimizer& optimizer,
          const StrategyOptions& options, int stage);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  std::size_t size() const { return parameters_.size(); }
  std::size_t elements(std::size_t parameter) const { return sizes_[checked(parameter)].elements; }
  std::byte* values(std::size_t parameter) const;
  std::byte* gradient(std::size_t parameter);
  // Added to what came before, or in its place.
  void take_gradient(std::size_t parameter, const void* gradient, bool added);
  void check_gradient(std::size_t parameter, DType type, std::span<const std::int64_t> shape) const;
  void gather(std::size_t unit);
  void release(std::size_t unit);
  void ready(std::size_t parameter, std::optional<std::span<const std::int64_t>> shape);
  StepResult step(std::optional<double> learning_rate);
  void zero_gradients();
  void forget_gradients();
  void pause();
  void resume();
  double weight(double examples);
  double loss_scale() const { return scale_; }
  void verify();
  // Throws where owned() and restored() would, on this rank alone; talks to nobody.
  void check_between_steps(const std::string& call) const;
  std::vector<OwnedPart> owned();
  std::int64_t updates() const { return updates_; }
  int steps_since_overflow() const { return steps_since_overflow_; }
  void restored(std::int64_t updates, std::optional<double> loss_scale, int steps_since_overflow);
  // What compression keeps, for checkpoints: between steps, behind owned() or restored(). What has the settings and the
  // ranks of another trainer may go into that, then kept_restored() says after how many steps that compressed, and in
  // the units of which loss scale.
  std::vector<KeptPart> kept();
  // In which order buckets are filled. Before the first step it may be given instead of found out; collective.
  const std::vector<std::size_t>& order() const { return order_; }
  void settle_in(std::span<const std::size_t> order);
  std::string compression_settings() const;
  std::int64_t compressed_steps() const { return compressed_steps_; }
  void kept_restored(std::int64_t compressed_steps, double loss_scale);
  Sentence refresh(std::span<const std::size_t> parameters);
  const Parameters& parameters() const { return parameters_; }
  const Optimizer& optimizer() const { return optimizer_; }
  const StrategyOptions& options() const { return options_; }
  int stage() const { return stage_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Counters counters() const;
  Report report() const;
  StateBytes allocated() const;

  // After an error of one of the above: where another rank caused it and says why, throws that, on all ranks alike.
  void explain(const Error& error);

 private:
  using Clock = StepClock;

  // One bucket in one step.
  struct BucketRun {
    std::size_t missing = 0;  // gradients
    Clock::time_point ready, start;
    NotedEnd end;
    TimeSpan waited;        // for its buffer, before others are waited for
    Work work;              // where the bucket is not compressed
    bool finished = false;  // where it is
  };

  // ---- Making it (trainer_setup.cc).
  void check_parameters() const;
  void check_models();
  std::size_t agreed_cap();
  void set_layout(std::span<const std::size_t> order);
  void make_units();
  void copy_values_in();
  void scatter_values_in();
  void tell_places() const;
  std::vector<strategy::ShardPart> own_parts(std::size_t bucket) const;
  void begin_states();
  // Lays the buckets out in rank 0's order, once it is known.
  void settle();
  void move_to(std::span<const std::size_t> order);

  // ---- Where gradients come in (trainer_gradients.cc).
  std::byte* whole_gradients(std::size_t bucket);
  std::byte* gradient_place(std::size_t parameter);
  void zero_gaps(std::size_t bucket);
  void zero_untouched(std::size_t bucket);
  std::byte* zero_gradients_of(std::size_t bucket);
  void take_gradients_back();
  void drop_gradients(const std::string& call);

  // ---- Buckets that are compressed (trainer_compression.cc).
  bool compresses(const Parameter& parameter) const;
  void check_rank_pays() const;
  void check_freezing() const;
  void check_places() const;
  // Whether variances stay as they are; where they do, whether gradients are divided by them, not momentum.
  bool freezes() const;
  bool is_by_deviation() const;
  Frozen frozen() const;
  bool sends_directions(std::size_t bucket) const;
  const std::byte* directions_of(std::size_t bucket, const std::byte* gradients);
  void sum_directed_squares(std::size_t bucket, const strategy::ShardPart& part, double* sums);
  void decide_compression();
  void make_exchanges();
  bool is_compressed(std::size_t bucket) const;
  bool passes_not_finite() const;
  void start_exchange(std::size_t bucket, const std::byte* gradients);
  void publish_up_to(std::size_t bucket);
  void publish_what_is_there();
  void finish_exchange(std::size_t bucket);
  void take_not_finite(std::size_t bucket, const NotFinitePlace& place);
  void change_scale(double factor);
  void rescale_exchanges(double factor);
  void abort_all();
  void leave_beside();

  // ---- A step (trainer.cc).
  std::size_t checked(std::size_t parameter) const;
  void check_shape(std::size_t parameter, std::span<const std::int64_t> shape) const;
  void check_unit(std::size_t unit) const;
  void check_released(const std::string& call) const;
  void check_nothing_begun(const std::string& call) const;
  std::string words_for(std::size_t parameter) const;
  bool has_no_examples() const { return examples_ && *examples_ == 0; }
  void use_units_as_others();
  void launch();
  void start(std::size_t bucket);
  TimeSpan await(std::size_t bucket);
  // What others have to take part in, and this rank waits for.
  template <class Call>
  TimeSpan waiting(const Call& call) {
    return waits_.emplace_back(span_of(call));
  }
  void complete_missing();
  void agree_on_used();
  double measure_rank_squares();
  double measure_squares();
  struct Squares {
    double all = 0, of_ranks = 0;
  };
  Squares over_model(Squares own);
  double counted_squares(std::size_t bucket, const std::byte* gradients) const;
  bool is_measured() const { return options_.clip_norm || options_.loss_scale || options_.measure_noise; }
  void update_bucket(std::size_t bucket, double clip, std::optional<double> learning_rate);
  Work gather_values(std::size_t bucket);
  void make_values(std::span<const std::size_t> buckets);
  void exchange_and_update(double clip, std::optional<double> learning_rate);
  double clip_for(double norm) const;
  bool overflows(double norm);
  void begin_step();
  void record_times(Clock::time_point called);
  void record_trace(Clock::time_point now) const;
  // Leaves the group, and throws on all ranks; `words` are behind this rank's name.
  [[noreturn]] void fail(const std::string& words);

  Communicator comm_;                   // of our own
  Communicator parting_;                // only for words of a rank that leaves
  std::optional<Communicator> beside_;  // ranks with other parts of the model, where they have to agree
  int rank_ = 0, ranks_ = 1;
  Parameters parameters_;
  std::vector<strategy::TensorSize> sizes_;
  Optimizer optimizer_;
  StrategyOptions options_;
  int stage_;
  std::size_t cap_ = 0;
  std::size_t unit_count_ = 1;
  std::vector<std::size_t> order_;
  strategy::BucketLayout layout_;
  std::optional<Communicator> gathering_;  // stage 3: of units_
  BucketMemory memory_;
  std::unique_ptr<GatheredUnits> units_;                    // stage 3
  std::vector<std::size_t> first_block_;                    // of each parameter, in the sums of squares
  std::vector<std::uint8_t> counted_;                       // by parameter, whether this rank's part is in the norm
  std::optional<Communicator> returning_;                   // second calls of exchanges
  std::vector<std::unique_ptr<BucketExchange>> exchanges_;  // by bucket; nullptr where it is not compressed
  std::vector<std::vector<float>> directions_;              // by bucket, of OneBitAdam, in the place of gradients

  mutable std::mutex mutex_;
  bool settled_ = false;
  int paused_ = 0;
  std::vector<BucketRun> runs_;
  std::size_t next_ = 0;                                   // bucket to submit
  std::size_t published_ = 0;                              // buckets whose second call was submitted, or that have none
  bool not_finite_ = false;                                // a gradient of this step, on some rank
  bool compresses_now_ = false, compressed_last_ = false;  // this step and the one before
  std::vector<std::uint8_t> ready_, used_;
  std::vector<std::uint8_t> touched_;  // 0: a gradient whose memory has yet to be zeroed or written
  std::vector<std::size_t> seen_;      // in which order gradients became ready
  std::optional<double> examples_;
  double own_squares_ = 0;  // of this rank's gradients, before they are averaged
  double share_ = 0;        // of all examples, where examples_ is known

  double scale_ = 1;
  int steps_since_overflow_ = 0;
  std::int64_t steps_ = 0, updates_ = 0;
  std::int64_t compressed_steps_ = 0;  // that the exchanges have seen

  Sentence once_;
  bool weighted_ = false;  // the last step was
  Clock::time_point step_began_;
  Clock::duration updated_{};
  std::vector<TimeSpan> waits_;         // of this step, for whatever it was
  std::vector<ValuesGather> gathered_;  // in this step
  std::vector<BucketTimes> timeline_;
  std::vector<strategy::CallTimesUs> value_times_;  // by bucket
  StepTimes times_;
  double gamma_raw_ = 0, gamma_exposed_ = 0;

  std::mutex parting_mutex_;
  bool parted_ = false;
};

}  // namespace tutti::train
