#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "kernels/kernels.h"
#include "strategy/timeline.h"
#include "train/agreement.h"
#include "train/counting.h"
#include "train/frozen_adam.h"
#include "train/gradient_norm.h"
#include "train/words.h"
#include "tutti/trace.h"

namespace tutti::train {
namespace {

constexpr std::size_t kNamedParameters = 3;  // in a sentence

double us_of(StepClock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

std::size_t Trainer::checked(std::size_t parameter) const {
  if (parameter < size()) return parameter;
  refuse_call("there is no parameter " + std::to_string(parameter) + "; the strategy has 0 .. " +
              std::to_string(size() - 1));
}

std::string Trainer::words_for(std::size_t parameter) const {
  return "rank " + std::to_string(rank_) + ", parameter \"" + parameters_[parameter].name + "\"";
}

std::byte* Trainer::values(std::size_t parameter) const {
  const strategy::BucketPlace& place = layout_.places[checked(parameter)];
  std::byte* bucket = units_ ? units_->values(place.bucket) : memory_.values(place.bucket);
  if (bucket == nullptr) {
    const std::string unit = std::to_string(parameters_[parameter].unit);
    refuse_call(words_for(parameter) + ": its unit " + unit + " is not gathered; call gather(" + unit + ") first");
  }
  return bucket + place.offset * size_of(sizes_[parameter].type);
}

void Trainer::check_unit(std::size_t unit) const {
  if (unit < unit_count_) return;
  refuse_call("there is no unit " + std::to_string(unit) + "; the strategy has 0 .. " +
              std::to_string(unit_count_ - 1));
}

void Trainer::check_released(const std::string& call) const {
  const std::size_t unit = units_ ? units_->first_in_use() : unit_count_;
  if (unit == unit_count_) return;
  refuse_call(call + " while unit " + std::to_string(unit) +
              " is gathered: its values are about to change; call release(" + std::to_string(unit) + ") first");
}

void Trainer::gather(std::size_t unit) {
  check_unit(unit);
  if (!units_) return;
  units_->gather(unit);
  for (std::size_t i = 0; options_.placed && i < size(); ++i)
    if (parameters_[i].unit == unit) options_.placed(i, values(i), nullptr);
}

void Trainer::release(std::size_t unit) {
  check_unit(unit);
  if (units_) units_->release(unit);
}

Counters Trainer::counters() const {
  Counters all = comm_.counters();
  if (units_) add_counters(all, units_->counters());
  if (returning_) add_counters(all, returning_->counters());
  if (beside_) add_counters(all, beside_->counters());
  return all;
}

// A rank without examples has no forward and backward, but in stage 3 others cannot gather without it.
void Trainer::use_units_as_others() {
  if (!units_ || !has_no_examples() || units_->is_begun()) return;
  if (steps_ == 0) {
    fail(
        "has no examples in the first step, where stage 3 learns in which order units are used; give every rank one "
        "there, or call gather() and release() as the others do");
  }
  units_->repeat_pass();
}

void Trainer::check_shape(std::size_t parameter, std::span<const std::int64_t> shape) const {
  if (std::ranges::equal(shape, parameters_[parameter].shape)) return;
  refuse_call(words_for(parameter) + ": its shape was " + in_words(parameters_[parameter].shape) +
              " when the strategy was made and its gradient's is " + in_words(shape) +
              "; make a new strategy for a changed model");
}

void Trainer::check_gradient(std::size_t parameter, DType type, std::span<const std::int64_t> shape) const {
  check_shape(checked(parameter), shape);
  if (type == sizes_[parameter].type) return;
  refuse_call(words_for(parameter) + ": its type is " + std::string(name_of(sizes_[parameter].type)) +
              " and its gradient's " + std::string(name_of(type)) + "; convert the gradient");
}

void Trainer::ready(std::size_t parameter, std::optional<std::span<const std::int64_t>> shape) {
  const std::scoped_lock lock(mutex_);
  checked(parameter);
  if (shape) check_shape(parameter, *shape);
  used_[parameter] = 1;
  if (paused_ > 0) return;
  if (ready_[parameter] != 0) {
    refuse_call(words_for(parameter) +
                ": ready() came twice in one step; call step() after each backward pass, or make "
                "all but the last one under no_sync()");
  }
  if (has_no_examples())
    refuse_call(words_for(parameter) + ": this rank said that it has no examples in this step; call only step()");
  ready_[parameter] = 1;
  seen_.push_back(parameter);
  BucketRun& run = runs_[layout_.places[parameter].bucket];
  if (--run.missing == 0) run.ready = Clock::now();
  if (settled_) launch();
  publish_what_is_there();
}

void Trainer::launch() {
  for (; next_ < runs_.size() && runs_[next_].missing == 0; ++next_) start(next_);
}

// Of what counts in the norm.
double Trainer::counted_squares(std::size_t bucket, const std::byte* gradients) const {
  const strategy::Bucket& shape = layout_.buckets[bucket];
  if (std::ranges::all_of(shape.parameters, [&](std::size_t parameter) { return counted_[parameter] != 0; }))
    return kernels::sum_of_squares(gradients, shape.type, shape.filled);
  double squares = 0;
  for (const std::size_t parameter : shape.parameters) {
    if (counted_[parameter] == 0) continue;
    const std::byte* const own = gradients + layout_.places[parameter].offset * size_of(shape.type);
    squares += kernels::sum_of_squares(own, shape.type, sizes_[parameter].elements);
  }
  return squares;
}

void Trainer::start(std::size_t bucket) {
  const strategy::Bucket& shape = layout_.buckets[bucket];
  BucketRun& run = runs_[bucket];
  std::byte* gradients = has_no_examples() ? zero_gradients_of(bucket) : whole_gradients(bucket);
  if (!has_no_examples()) zero_untouched(bucket);
  if (options_.measure_noise) own_squares_ += counted_squares(bucket, gradients);
  if (is_compressed(bucket)) return start_exchange(bucket, gradients);
  Request request{
      .input = gradients, .element = shape.type, .op = examples_ ? Op::premul_sum(share_) : Op(ReduceOp::average)};
  if (stage_ == 0) {
    request.verb = Verb::all_reduce;
    request.output = gradients;
    request.input_count = request.output_count = shape.filled;
  } else {
    request.verb = Verb::reduce_scatter;
    request.output = memory_.own_gradients(bucket);
    request.input_count = shape.elements;
    request.output_count = memory_.own_count(bucket);
  }
  run.start = Clock::now();
  run.work = comm_.submit(request);
  run.end = note_end(run.work);
}

TimeSpan Trainer::await(std::size_t bucket) {
  return waiting([&] {
    if (is_compressed(bucket)) {
      finish_exchange(bucket);
    } else {
      runs_[bucket].work.wait();
    }
  });
}

// Gradients that did not come count as zeros, where that is allowed.
void Trainer::complete_missing() {
  std::string names;
  std::size_t lacking = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (ready_[i] != 0) continue;
    if (++lacking <= kNamedParameters) names += (lacking == 1 ? "\"" : ", \"") + parameters_[i].name + "\"";
  }
  if (lacking == 0) return;
  if (!has_no_examples() && !options_.unused_parameters) {
    if (lacking > kNamedParameters) names += " and " + std::to_string(lacking - kNamedParameters) + " more";
    fail("no gradient came of " + names +
         " in this step; call ready() for every parameter, or set unused_parameters where some may be left out");
  }
  if (has_no_examples()) take_gradients_back();  // what an earlier pass left is nothing that this rank contributes
  for (BucketRun& run : runs_) {
    if (run.missing == 0) continue;
    run.missing = 0;
    run.ready = Clock::now();
  }
}

void Trainer::agree_on_used() {
  if (!options_.unused_parameters) {
    std::ranges::fill(used_, std::uint8_t{1});
    return;
  }
  waiting([&] { comm_.all_reduce(used_, ReduceOp::maximum); });
}

double Trainer::measure_rank_squares() {
  waiting([&] { comm_.all_reduce(std::span(&own_squares_, 1), ReduceOp::average); });
  return own_squares_ / (scale_ * scale_);
}

// Adds up what ranks with the other parts of the model have: squares of gradients, those of ranks before they are
// averaged, and whether any is not finite. In the order of ranks, so that all replicas of the model come to the same
// bits, wherever their ranks lie.
Trainer::Squares Trainer::over_model(Squares own) {
  if (!beside_) return own;
  const double numbers[] = {own.all, own.of_ranks, not_finite_ ? 1.0 : 0.0};
  std::vector<double> parts(std::size(numbers) * static_cast<std::size_t>(beside_->size()));
  waiting([&] { beside_->all_gather(numbers, parts); });
  Squares sum;
  for (std::size_t i = 0; i < parts.size(); i += std::size(numbers)) {
    sum.all += parts[i];
    sum.of_ranks += parts[i + 1];
    not_finite_ = not_finite_ || parts[i + 2] != 0;
  }
  return sum;
}

double Trainer::measure_squares() {
  std::vector<double> sums(strategy::blocks_of(sizes_));
  for (std::size_t b = 0; b < runs_.size(); ++b) {
    await(b);
    const bool directed = sends_directions(b);
    if (directed && !is_by_deviation()) continue;  // momentum is no gradient
    const std::size_t element = size_of(layout_.buckets[b].type);
    for (const strategy::ShardPart& part : own_parts(b)) {
      if (used_[part.parameter] == 0 || counted_[part.parameter] == 0) continue;
      double* const own = sums.data() + first_block_[part.parameter] + part.first / strategy::kBlock;
      if (directed) {
        sum_directed_squares(b, part, own);
      } else {
        sum_squares(memory_.own_gradients(b) + part.offset * element, layout_.buckets[b].type, part.count, own);
      }
    }
  }
  // Of every block but one rank has a sum, the others a zero, which changes nothing.
  if (stage_ > 0) waiting([&] { comm_.all_reduce(sums); });
  return sum_of_blocks(sums);
}

double Trainer::clip_for(double norm) const {
  return options_.clip_norm ? std::min(1.0, *options_.clip_norm / (norm + 1e-6)) : 1.0;
}

// Keeps the loss scale.
bool Trainer::overflows(double norm) {
  if (!options_.loss_scale) return false;
  if (!std::isfinite(norm) || not_finite_) {
    change_scale(options_.loss_scale->backoff);
    return true;
  }
  return false;
}

void Trainer::update_bucket(std::size_t bucket, double clip, std::optional<double> learning_rate) {
  const Clock::time_point began = Clock::now();
  const auto update_range = [&](std::size_t first, std::size_t count) {
    Shard shard = memory_.shard(bucket, first, count);
    if (!sends_directions(bucket)) return update(optimizer_, updates_, shard, clip / scale_, learning_rate);
    float* const directions = directions_[bucket].data() + first;
    if (is_by_deviation()) add_momentum(optimizer_, frozen(), shard, clip, directions);
    shard.gradient = directions;
    shard.gradient_type = DType::float32;
    follow_directions(optimizer_, updates_, frozen(), shard, learning_rate);
  };
  const auto is_used = [&](std::size_t parameter) { return used_[parameter] != 0; };
  const bool by_parts = state_type(optimizer_) == StateType::eight_bits;
  if (!by_parts && std::ranges::all_of(layout_.buckets[bucket].parameters, is_used)) {
    update_range(0, memory_.own_count(bucket));  // what only fills up is zero and stays so
  } else {
    for (const strategy::ShardPart& part : own_parts(bucket))
      if (is_used(part.parameter)) update_range(part.offset, part.count);
  }
  updated_ += Clock::now() - began;
}

Work Trainer::gather_values(std::size_t bucket) {
  return comm_.submit({.verb = Verb::all_gather,
                       .input = memory_.own_values(bucket),
                       .output = memory_.values(bucket),
                       .input_count = memory_.own_count(bucket),
                       .output_count = layout_.buckets[bucket].elements,
                       .element = layout_.buckets[bucket].type});
}

void Trainer::exchange_and_update(double clip, std::optional<double> learning_rate) {
  std::vector<ValuesGather> gathers;
  memory_.hide_states();
  for (std::size_t b = 0; b < runs_.size(); ++b) {
    await(b);
    update_bucket(b, clip, learning_rate);
    if (stage_ != 1 && stage_ != 2) continue;
    ValuesGather& gather = gathers.emplace_back();
    gather.bucket = b;
    gather.start = Clock::now();
    gather.work = gather_values(b);
    gather.end = note_end(gather.work);
  }
  for (ValuesGather& gather : gathers) gather.waited = waiting([&] { gather.work.wait(); });
  gathered_ = std::move(gathers);
}

StepResult Trainer::step(std::optional<double> learning_rate) {
  const std::scoped_lock lock(mutex_);
  const Clock::time_point called = Clock::now();
  if (paused_ > 0) refuse_call("step() under no_sync(): let the last backward pass of a step send its gradients");
  check_released("step()");
  complete_missing();
  if (!settled_) settle();
  launch();
  use_units_as_others();
  agree_on_used();

  StepResult result;
  Squares squares;
  if (options_.measure_noise) squares.of_ranks = measure_rank_squares();
  if (is_measured()) squares.all = measure_squares();
  for (std::size_t b = 0; passes_not_finite() && b < runs_.size(); ++b) await(b);
  squares = over_model(squares);
  result.gradient_norm = std::sqrt(squares.all) / scale_;
  result.rank_squares = squares.of_ranks;
  const double clip = clip_for(result.gradient_norm);
  result.skipped = overflows(result.gradient_norm) || not_finite_;
  if (!result.skipped) {
    ++updates_;
    exchange_and_update(clip, learning_rate);
    // A run that goes on may have counted more of them than this interval.
    if (options_.loss_scale && ++steps_since_overflow_ >= options_.loss_scale->interval)
      change_scale(options_.loss_scale->growth);
  }
  ++steps_;
  if (compresses_now_ && std::ranges::any_of(exchanges_, [](const auto& exchange) { return exchange != nullptr; }))
    ++compressed_steps_;
  if (units_) units_->end_step();
  record_times(called);
  weighted_ = examples_.has_value();
  compressed_last_ = compresses_now_;
  begin_step();
  return result;
}

void Trainer::begin_step() {
  runs_.resize(layout_.buckets.size());
  for (std::size_t b = 0; b < runs_.size(); ++b) {
    runs_[b].missing = layout_.buckets[b].parameters.size();
    runs_[b].work = {};
    runs_[b].waited = {};
    runs_[b].finished = false;
  }
  take_gradients_back();
  next_ = published_ = 0;
  not_finite_ = false;
  decide_compression();
  ready_.assign(size(), 0);
  used_.assign(size(), 0);
  seen_.clear();
  examples_.reset();
  own_squares_ = 0;
  waits_.clear();
  gathered_.clear();
  updated_ = {};
  step_began_ = Clock::now();
}

void Trainer::record_times(Clock::time_point called) {
  const Clock::time_point now = Clock::now();
  if (units_) {
    GatheredUnits::Times times = units_->take_times();
    waits_.insert(waits_.end(), times.waits.begin(), times.waits.end());
    gathered_ = std::move(times.gathers);
  }
  const auto us = [&](Clock::time_point at) { return us_of(at - step_began_); };
  const auto span = [&](TimeSpan of) { return strategy::SpanUs{us(of.begin), us(of.end)}; };
  std::vector<strategy::SpanUs> under_way, waits, waits_before;
  for (const TimeSpan& wait : waits_) {
    waits.push_back(span(wait));
    if (wait.end <= called) waits_before.push_back(waits.back());
  }
  under_way = waits;
  timeline_.clear();
  for (std::size_t b = 0; b < runs_.size(); ++b) {
    const BucketRun& run = runs_[b];
    const strategy::SpanUs call = span({run.start, end_of(run.end, now)});
    const strategy::SpanUs waited{us(run.waited.begin), us(std::min(run.waited.end, called))};
    under_way.push_back(call);
    timeline_.push_back(
        {stage_ == 0 ? layout_.buckets[b].filled_bytes() : layout_.buckets[b].bytes(),
         layout_.buckets[b].parameters.size(), us(run.ready), call.begin_us, call.end_us,
         strategy::exposed_us(call.begin_us, call.end_us, us(called)) + strategy::overlap_us(call, waited)});
  }
  record_trace(now);
  value_times_.assign(runs_.size(), {});
  for (const ValuesGather& gather : gathered_) {
    const strategy::SpanUs call = span({gather.start, end_of(gather.end, now)});
    under_way.push_back(call);
    value_times_[gather.bucket].under_way_us += call.end_us - call.begin_us;
    value_times_[gather.bucket].exposed_us += strategy::overlap_us(call, span(gather.waited));
  }
  times_ = {us(called) - strategy::busy_us(waits_before), strategy::busy_us(waits), us_of(updated_), us(now),
            us(called)};
  if (times_.computing_us <= 0) return;
  gamma_raw_ = strategy::busy_us(under_way) / times_.computing_us;
  gamma_exposed_ = times_.waiting_us / times_.computing_us;
}

void Trainer::record_trace(Clock::time_point now) const {
  if (!trace::on()) return;
  const std::int64_t step = steps_ - 1;
  for (std::size_t b = 0; b < runs_.size(); ++b) {
    const Clock::time_point ready = std::clamp(runs_[b].ready, step_began_, std::max(step_began_, runs_[b].start));
    trace::bucket({step, b, timeline_[b].bytes, ready, runs_[b].start, end_of(runs_[b].end, now)});
  }
  trace::train_step(step, step_began_, now);
}

void Trainer::pause() {
  const std::scoped_lock lock(mutex_);
  if (!seen_.empty())
    refuse_call("no_sync() after a ready() of the same step; it comes before the backward pass it is for");
  ++paused_;
}

void Trainer::resume() {
  const std::scoped_lock lock(mutex_);
  --paused_;
}

double Trainer::weight(double examples) {
  const std::scoped_lock lock(mutex_);
  if (!(examples >= 0) || !std::isfinite(examples))
    refuse_call("weight(" + std::to_string(examples) + "): examples are a number from 0 on");
  if (!seen_.empty()) refuse_call("weight() after a ready() of the same step; it comes before the backward pass");
  double total = examples;
  waiting([&] { comm_.all_reduce(std::span(&total, 1)); });
  // Nobody has any: the loop over batches ends, and no step follows.
  if (total == 0) return 0;
  examples_ = examples;
  share_ = examples / total;
  if (units_) units_->begin_pass();
  return total;
}

void Trainer::verify() {
  const std::scoped_lock lock(mutex_);
  if (!seen_.empty()) refuse_call("verify() between ready() and step(): values are compared between steps");
  std::vector<std::uint64_t> hashes(size());
  for (std::size_t unit = 0; unit < unit_count_; ++unit) {
    gather(unit);
    for (std::size_t i = 0; i < size(); ++i)
      if (parameters_[i].unit == unit)
        hashes[i] = hash_of_bytes({values(i), sizes_[i].elements * size_of(sizes_[i].type)});
    release(unit);
  }
  Sentence said;
  require_alike(
      comm_, hashes,
      [&](std::size_t i) { return "values of \"" + parameters_[i].name + "\" with hash " + std::to_string(hashes[i]); },
      "look for what updates values beside the strategy on that rank", said);
}

void Trainer::check_nothing_begun(const std::string& call) const {
  if (!seen_.empty()) refuse_call(call + " between ready() and step(): what a rank owns is looked at between steps");
  check_released(call);
}

void Trainer::check_between_steps(const std::string& call) const {
  const std::scoped_lock lock(mutex_);
  check_nothing_begun(call);
}

std::vector<OwnedPart> Trainer::owned() {
  const std::scoped_lock lock(mutex_);
  check_nothing_begun("owned()");
  if (!settled_) settle();
  memory_.show_states();
  std::vector<OwnedPart> owned;
  for (std::size_t b = 0; b < layout_.buckets.size(); ++b)
    for (const strategy::ShardPart& part : own_parts(b))
      owned.push_back({part.parameter, part.first, part.count, memory_.shard(b, part.offset, part.count)});
  return owned;
}

void Trainer::restored(std::int64_t updates, std::optional<double> loss_scale, int steps_since_overflow) {
  const std::scoped_lock lock(mutex_);
  if (!seen_.empty() || !settled_) refuse_call("restored() comes after owned(), between steps");
  if (updates < 0) refuse_call("restored(" + std::to_string(updates) + "): updates are counted from 0 on");
  if (loss_scale && !(*loss_scale > 0 && std::isfinite(*loss_scale)))
    refuse_call("restored() with a loss scale of " + in_words(*loss_scale) + "; it is a number above 0");
  check_released("restored()");
  if (units_) {
    units_->forget();      // what is held are the values of before
    units_->begin_pass();  // and what was used since the last step is no order of the next
  }
  updates_ = updates;
  memory_.take_states();
  make_exchanges();  // what was lost belongs to the values of before
  compressed_steps_ = 0;
  decide_compression();
  if (loss_scale && options_.loss_scale) {
    scale_ = *loss_scale;
    steps_since_overflow_ = steps_since_overflow;
  }
  std::vector<std::size_t> all(layout_.buckets.size());
  std::iota(all.begin(), all.end(), 0);
  make_values(all);
}

// Of the masters, on all ranks.
void Trainer::make_values(std::span<const std::size_t> buckets) {
  std::vector<Work> gathers;
  for (const std::size_t b : buckets) {
    const Shard shard = memory_.shard(b, 0, memory_.own_count(b));
    if (shard.values != nullptr)
      kernels::find_convert(DType::float32, shard.values_type)(shard.values, shard.master, shard.count);
    if (stage_ == 1 || stage_ == 2) gathers.push_back(gather_values(b));
  }
  wait_all(gathers);
}

Sentence Trainer::refresh(std::span<const std::size_t> parameters) {
  const std::scoped_lock lock(mutex_);
  if (!seen_.empty() || !settled_) refuse_call("refresh() comes after owned(), between steps");
  check_released("refresh()");
  if (units_) units_->forget();
  std::set<std::size_t> changed;
  for (const std::size_t parameter : parameters) changed.insert(layout_.places[checked(parameter)].bucket);
  const std::vector<std::size_t> buckets(changed.begin(), changed.end());
  make_values(buckets);
  Sentence said;
  for (const std::size_t b : buckets)
    if (stage_ == 1 || stage_ == 2)
      said.push_back(
          {Verb::all_gather, "values of bucket " + std::to_string(b), layout_.buckets[b].bytes(), 1, ranks_});
  return said;
}

StateBytes Trainer::allocated() const {
  const std::scoped_lock lock(mutex_);
  StateBytes bytes = memory_.bytes();
  if (units_) bytes.in_flight += units_->allocated_bytes();
  return bytes;
}

Report Trainer::report() const {
  const std::scoped_lock lock(mutex_);
  strategy::StepShape shape{.stage = stage_,
                            .ranks = ranks_,
                            .model_ranks = beside_ ? beside_->size() : 1,
                            .state_arrays = state_arrays(optimizer_),
                            .weighted = weighted_,
                            .may_skip = options_.unused_parameters,
                            .noise = options_.measure_noise,
                            .measured = is_measured(),
                            .parameters = size(),
                            .blocks = strategy::blocks_of(sizes_),
                            .gathers = units_ ? units_->gathers() : std::vector<std::size_t>(),
                            .gathered_bytes = units_ ? units_->bytes() : 0};
  if (state_type(optimizer_) == StateType::eight_bits && settled_) shape.state_bytes = memory_.state_bytes();
  for (const auto& exchange : exchanges_)
    shape.compressed.push_back(exchange ? std::optional(exchange->calls()) : std::nullopt);
  shape.compresses_yet = steps_ == 0 ? compresses_now_ : compressed_last_;
  for (const BucketTimes& bucket : timeline_)
    shape.gradient_times.push_back({bucket.end_us - bucket.start_us, bucket.exposed_us});
  shape.value_times = value_times_;
  Report report{.strategy = stage_ == 0 ? "data parallel" : "ZeRO stage " + std::to_string(stage_),
                .ranks = ranks_,
                .steps = steps_,
                .once = once_,
                .each_step = strategy::sentence_of(layout_, shape),
                .bytes = strategy::state_bytes_of(layout_, shape, sizes_),
                .bucket_bytes = cap_,
                .timeline = timeline_,
                .times = times_,
                .gamma_raw = gamma_raw_,
                .gamma_exposed = gamma_exposed_};
  return report;
}

}  // namespace tutti::train
