// Training on many ranks: data parallel and ZeRO, one model of use.
//
//   tutti::train::Strategy strategy = tutti::train::data_parallel(comm, parameters, tutti::train::AdamW{});
//   for (...) {
//     strategy.zero_gradients();
//     forward and backward: read strategy.values(i), add to strategy.gradient(i), and as soon as a gradient is final:
//       strategy.ready(i);
//     strategy.step();
//   }
//
// Every rank makes the same strategy over the same parameters and computes gradients of its own examples; a step ends
// with the same values on all ranks, updated by the mean of their gradients. Gradients travel in buckets, while
// backward still computes others. docs/training.md teaches the whole.
//
// The strategy owns values and gradients, in memory that all ranks of a host reach. In the first step it learns in
// which order gradients become ready and lays its buckets out anew (stages 2 and 3 keep the order they began with):
// what values() and gradient() returned before that is void then; StrategyOptions::placed tells the new places. So it
// may be when a checkpoint is loaded before the first step.
//
// Stage 3 has values only while their unit is gathered: gather(unit) before a layer's forward and again before its
// backward, release(unit) behind each. In other strategies both do nothing, so that one program serves all.
//
// In a deterministic communicator p ranks train to the bits of one process that adds p partial gradients in canonical
// order, and all stages to the same bits.
//
// Threads: ready(), gradient() and add_gradient() may be called by any thread, several at once; all else by one thread
// at a time, not while a ready() is under way. The strategy talks on a duplicate of the communicator, so that the
// program may use its own meanwhile. Calls throw tutti::Error; one that a peer caused leaves the strategy unusable, and
// others throw, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/compression.h"
#include "tutti/train/optimizer.h"
#include "tutti/train/parameters.h"
#include "tutti/train/report.h"

namespace tutti::train {

class Trainer;

// Gradients in 16 bits lose what is small: the loss is multiplied by a scale, which shrinks where they overflow.
struct LossScale {
  double initial = 65536, growth = 2, backoff = 0.5;
  int interval = 2000;  // steps without overflow until it grows, from 1 on
};
// Whether it is the initial one for ever: steps that overflow are skipped, and that is all.
constexpr bool stays(const LossScale& scale) { return scale.growth == 1 && scale.backoff == 1; }

struct StrategyOptions {
  // Bytes of gradients that travel together; 0: what costs least by the communicator's prices.
  std::size_t bucket_bytes = 0;
  // A parameter may be without a gradient in a step. One that no rank has a gradient of is not updated then. Costs an
  // all_reduce of one byte per parameter.
  bool unused_parameters = false;
  // Gradients whose norm, over all parameters, is larger are scaled down to it.
  std::optional<double> clip_norm = {};
  // Where a model is cut over ranks, and each part trained by a strategy of its own: the ranks that have the model
  // together, this one among them, such as a mesh's group({"pp", "tp"}). The norm is that of the whole model then, and
  // all parts skip a step that one has to skip. Looked at while the strategy is made, by all of them at once.
  Communicator* model_ranks = nullptr;
  // Whether this rank's part of a parameter counts in the norm; without it all do. What several of model_ranks hold
  // alike counts on one of them.
  std::function<bool(const Parameter& parameter)> counts_in_norm = {};
  // Multiply the loss by Strategy::loss_scale(); a step that overflows updates nothing. Each strategy has a scale of
  // its own, which changes with its own gradients: where several train by one loss, which has one scale, give all of
  // them the same one that stays (growth and backoff of 1).
  std::optional<LossScale> loss_scale = {};
  // Also measures how long the ranks' own gradients are: what the gradient noise scale is estimated from. Costs a pass
  // over gradients and an all_reduce of one number.
  bool measure_noise = false;
  // Gradients travel in fewer bytes; values that ZeRO gathers do not. Encoding runs on the thread that calls ready(),
  // and what is on its way then overlaps with backward. docs/fewer-bytes.md tells what each costs.
  Compression compression = {};
  // What was lost is added to what the next step sends: by all but Cast. Costs 4 bytes for each number.
  bool error_feedback = true;
  // The first step that compresses: the number of updates before it, those before a checkpoint among them.
  std::int64_t compress_from_step = 0;
  // Whether a parameter's gradient is compressed; without it those that have two dimensions or more are.
  std::function<bool(const Parameter& parameter)> compresses = {};
  // Stage 3: units that a rank holds whole at once, those that are gathered ahead among them.
  std::size_t gathered_units = 3;
  // Called for every parameter, by the thread that makes the strategy or takes the first step, whenever its places
  // change; in stage 3 for those of a unit in gather(). Stages 2 and 3 have no lasting place for gradients and pass
  // nullptr.
  std::function<void(std::size_t parameter, void* values, void* gradient)> placed = {};
};

struct StepResult {
  // Of the mean gradient, before clipping; only where clip_norm, loss_scale or measure_noise ask for it, else 0. With
  // OneBitAdam of what still travels as gradients.
  double gradient_norm = 0;
  // The squared norm of a rank's own gradient, the mean over ranks; only where measure_noise asks for it, else 0.
  double rank_squares = 0;
  bool skipped = false;  // by the loss scale, or by the compression's not_finite: gradients are not finite
};

// Elements [first, first + count) of a parameter that this rank updates, and where their values, masters and optimizer
// states lie. The gradient there is not of use.
struct OwnedPart {
  std::size_t parameter = 0;
  std::size_t first = 0, count = 0;
  Shard shard;
};

// While it lives, backward passes add to gradients and nothing is sent: all micro-batches of a step but the last.
class TUTTI_API NoSync {
 public:
  explicit NoSync(Trainer& trainer);
  NoSync(NoSync&& other) noexcept;
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync();

 private:
  Trainer* trainer_;
};

class TUTTI_API Strategy {
 public:
  explicit Strategy(std::unique_ptr<Trainer> trainer);
  Strategy(Strategy&&) noexcept;
  Strategy& operator=(Strategy&&) noexcept;
  ~Strategy();

  // Where a parameter's values and its gradient are. Stages 2 and 3 hand out a gradient's memory, zeroed, with the
  // first call for it in a step, and take it back when the bucket is complete.
  void* values(std::size_t parameter) const;
  void* gradient(std::size_t parameter);
  template <class T>
  std::span<T> values_as(std::size_t parameter) const {
    return {static_cast<T*>(values(parameter)), elements(parameter)};
  }
  template <class T>
  std::span<T> gradient_as(std::size_t parameter) {
    return {static_cast<T*>(gradient(parameter)), elements(parameter)};
  }
  // Adds to the gradient what lies elsewhere, as many elements of the parameter's type: a copy where it is the first.
  // Or puts it in the place of what came before.
  void add_gradient(std::size_t parameter, const void* gradient);
  void set_gradient(std::size_t parameter, const void* gradient);
  // Refuses a gradient of another type or shape than the parameter's: before one of those that read it as it should be.
  void check_gradient(std::size_t parameter, DType type, std::span<const std::int64_t> shape) const;
  std::size_t elements(std::size_t parameter) const;
  std::size_t size() const;  // parameters

  // Stage 3: values() of the unit's parameters are there from gather() to release(). All ranks use units in the same
  // order; that of the last step is gathered ahead.
  void gather(std::size_t unit);
  void release(std::size_t unit);

  // This rank's gradient of the parameter is final; its memory is the strategy's until step() has returned. With a
  // shape, which must be the one that the parameter had when the strategy was made.
  void ready(std::size_t parameter);
  void ready(std::size_t parameter, std::span<const std::int64_t> shape);

  // Collective. Ends the exchange and updates the values. The learning rate is the optimizer's unless given.
  StepResult step(std::optional<double> learning_rate = {});
  // All gradients become 0: before the first backward of a step, as they are added to.
  void zero_gradients();
  // The same for who brings gradients by add_gradient() and set_gradient(), or asks gradient() for the place of each:
  // nothing is written now, the first that comes of a gradient is copied, and what no backward came to is zero.
  void forget_gradients();
  [[nodiscard]] NoSync no_sync();

  // Collective. How many examples this rank's gradients of the coming step are the mean of: the step then takes the
  // mean over all examples of all ranks, not over ranks. A rank that ran out says 0 and only calls step(). Returns the
  // examples of all ranks: while (strategy.weight(batch.size()) > 0) { ...; strategy.step(); }
  double weight(double examples);

  // What the loss is to be multiplied with; 1 without StrategyOptions::loss_scale.
  double loss_scale() const;
  // Collective. Throws Error(mismatch) that names the first rank and parameter whose values are not rank 0's.
  void verify();

  // ---- For checkpoints, between steps. Collective.

  // What this rank owns: all of the model in data parallel, its shards in ZeRO. Masters and states may be written, from
  // a checkpoint of any strategy on any number of ranks; then restored() makes values of the masters on all ranks.
  // Before the first step it settles where all lies, as registered. States of 8 bits are float32 here, until a step or
  // restored().
  std::vector<OwnedPart> owned();
  std::int64_t updates() const;      // so far, as optimizers count them
  int steps_since_overflow() const;  // or since the loss scale last grew
  // A loss scale counts only where the strategy was made with one.
  void restored(std::int64_t updates, std::optional<double> loss_scale = {}, int steps_since_overflow = 0);
  // As restored(), for whoever has changed masters of these parameters only: their values, on all ranks, are the
  // masters again. Returns what that said.
  Sentence refresh(std::span<const std::size_t> parameters);
  // What it was made with; `values` are where they were then. Stage 0 is data parallel.
  const Parameters& parameters() const;
  const Optimizer& optimizer() const;
  const StrategyOptions& options() const;
  int stage() const;
  // Of the communicator it was made over.
  int rank() const;
  int ranks() const;
  Trainer& trainer() const { return *trainer_; }  // for Checkpoints

  // Of the strategy's own communicator: what it has really called.
  Counters counters() const;
  Report report() const;
  // The memory for model states that this rank has really allocated, where report().bytes has what formulas say. Of
  // what compression keeps nothing is said.
  StateBytes allocated() const;

 private:
  std::unique_ptr<Trainer> trainer_;
};

// Collective. All ranks begin with rank 0's values. Error(mismatch) on all ranks where one has other parameters or
// settings; it names the rank and the parameter.
TUTTI_API Strategy data_parallel(Communicator& communicator, const Parameters& parameters, const Optimizer& optimizer,
                                 const StrategyOptions& options = {});
// The same with optimizer states (stage 1), gradients (stage 2) and values (stage 3) cut into a shard for every rank.
TUTTI_API Strategy zero(int stage, Communicator& communicator, const Parameters& parameters, const Optimizer& optimizer,
                        const StrategyOptions& options = {});

}  // namespace tutti::train
