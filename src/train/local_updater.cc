#include "train/local_updater.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <span>
#include <utility>

#include "strategy/fragments.h"
#include "train/agreement.h"
#include "train/counting.h"
#include "train/words.h"

namespace tutti::train {
namespace {

double lasted_us(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }

bool all_finite(std::span<const float> numbers) {
  return std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); });
}

}  // namespace

bool LocalUpdater::Fragment::has_ended() const {
  return (!codes || codes->has_ended()) && std::ranges::all_of(works, [](const Work& work) { return work.ended(); });
}

LocalUpdater::~LocalUpdater() {
  // A Work that is dropped is waited for; others need not be on their way where something went wrong, or nobody waits.
  if (!failed_ && !options_.asynchronous && std::uncaught_exceptions() == 0) return;
  if (std::ranges::all_of(fragments_, [](const Fragment& fragment) { return fragment.has_ended(); })) return;
  between_.abort();
}

void LocalUpdater::as_one(const std::function<void()>& part) {
  if (inside_.size() == 1) return part();
  all_or_none(inside_, part);
}

void LocalUpdater::guarded(const std::function<void()>& part) {
  const Clock::time_point began = Clock::now();
  try {
    part();
  } catch (...) {
    failed_ = true;
    throw;
  }
  held_us_ += lasted_us(Clock::now() - began);
}

std::int64_t LocalUpdater::begin_of(std::int64_t exchange) const {
  return origin_ + strategy::begin_of_exchange(exchange, options_.every, options_.fragments);
}

bool LocalUpdater::is_time_to_begin(std::int64_t exchange) {
  if (!options_.asynchronous) return begin_of(exchange) <= steps_;
  const std::int64_t before = exchange == 0 ? origin_ : begin_of(exchange - 1);
  return !fragment_of(exchange).under_way && steps_ - last_begin_ >= begin_of(exchange) - before;
}

void LocalUpdater::copy_values_to_send(Fragment& fragment) const {
  float* to = fragment.values();
  fragment.not_finite.reset();
  for (const OwnedPart& part : fragment.parts) {
    const std::span<const float> values(part.shard.master, part.count);
    if (!fragment.not_finite && !all_finite(values)) fragment.not_finite = part.parameter;
    to = std::ranges::copy(values, to).out;
  }
}

void LocalUpdater::begin(Fragment& fragment) {
  copy_values_to_send(fragment);
  if (options_.asynchronous) fragment.sent.assign(fragment.values(), fragment.values() + fragment.elements);
  if (fragment.codes)
    for (std::size_t i = 0; i < fragment.elements; ++i) fragment.values()[i] = fragment.start[i] - fragment.values()[i];
  fragment.made_of = steps_ - std::exchange(fragment.begun_at, steps_);
  fragment.began = Clock::now();
  if (options_.asynchronous) {
    fragment.steps_of_all.assign(static_cast<std::size_t>(between_.size()), 0);
    std::uint64_t& own = fragment.steps_of_all[static_cast<std::size_t>(between_.rank())];
    own = static_cast<std::uint64_t>(fragment.made_of);
    fragment.works.push_back(between_.all_gather_async(std::span<const std::uint64_t>(&own, 1), fragment.steps_of_all));
  }
  fragment.under_way = true;
  fragment.published = !fragment.codes;
  fragment.end = std::make_shared<std::atomic<Clock::rep>>(0);
  last_begin_ = steps_;
  if (fragment.codes) {
    // Chances are those of the step, so that a run that goes on from a checkpoint draws the same.
    fragment.codes->go_on(static_cast<std::uint64_t>(steps_));
    fragment.codes->send(between_,
                         {.values = fragment.values(), .count = fragment.elements, .residual = fragment.lost.data()});
    return;
  }
  fragment.works.push_back(between_.submit({.verb = Verb::all_reduce,
                                            .input = fragment.values(),
                                            .output = fragment.values(),
                                            .input_count = fragment.elements,
                                            .output_count = fragment.elements,
                                            .element = DType::float32,
                                            .op = ReduceOp::average}));
  fragment.works.back().on_end(
      [end = fragment.end] { end->store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed); });
}

// The second call of a quantised exchange. What fails is told in settle(), where ranks of a replica throw alike.
void LocalUpdater::publish(Fragment& fragment) {
  fragment.published = true;
  try {
    fragment.codes->publish(between_, static_cast<float>(between_.size()), fragment.lost);
  } catch (...) {
    fragment.failure = std::current_exception();
  }
}

void LocalUpdater::begin_due() {
  for (; is_time_to_begin(begun_); ++begun_) begin(fragment_of(begun_));
}

// By fragment, whether its exchange has ended, on all ranks of the replica alike.
std::vector<std::uint8_t> LocalUpdater::poll() {
  std::vector<std::uint8_t> ended(fragments_.size());
  for (std::size_t i = 0; i < ended.size(); ++i) ended[i] = fragments_[i].has_ended() ? 1 : 0;
  if (inside_.size() > 1) inside_.all_reduce(ended, ReduceOp::minimum);
  return ended;
}

void LocalUpdater::publish_due(const std::vector<std::uint8_t>& ended) {
  for (std::int64_t exchange = merged_; exchange < begun_; ++exchange) {
    Fragment& fragment = fragment_of(exchange);
    if (fragment.published) continue;
    if (options_.asynchronous ? ended[0] == 0 : 2 * (steps_ - fragment.begun_at) < options_.overlap) return;
    publish(fragment);
  }
}

bool LocalUpdater::is_ripe(const Fragment& fragment, const std::vector<std::uint8_t>& ended) const {
  const std::int64_t age = steps_ - fragment.begun_at;
  if (!options_.asynchronous) return age >= options_.overlap;
  if (options_.most_delay > 0 && age >= options_.most_delay) return true;
  return fragment.published && ended[static_cast<std::size_t>(&fragment - fragments_.data())] != 0;
}

void LocalUpdater::merge_due(LocalStep& result) {
  std::vector<std::uint8_t> ended;
  if (options_.asynchronous) ended = poll();
  for (; merged_ < begun_ && is_ripe(fragment_of(merged_), ended); ++result.merged) {
    result.delay = steps_ - fragment_of(merged_).begun_at;
    merge_next();
  }
  publish_due(ended);
}

void LocalUpdater::settle(Fragment& fragment) {
  const Clock::time_point began = Clock::now();
  as_one([&] {
    wait_all(fragment.works);
    if (!fragment.published) publish(fragment);
    if (fragment.failure) std::rethrow_exception(fragment.failure);
    if (fragment.codes) fragment.codes->receive(fragment.values(), DType::float32, fragment.elements);
    require_finite(fragment);
  });
  const Clock::time_point now = Clock::now();
  fragment.exposed_us = lasted_us(now - began);
  waited_us_ += fragment.exposed_us;
  const Clock::rep ended = fragment.end->load(std::memory_order_relaxed);
  fragment.under_way_us =
      lasted_us((ended == 0 ? now : std::min(now, Clock::time_point(Clock::duration(ended)))) - fragment.began);
  fragment.exposed_us = std::min(fragment.exposed_us, fragment.under_way_us);
  fragment.works.clear();
  fragment.under_way = false;
}

// The mean is the same everywhere, so that all replicas ask, or none.
void LocalUpdater::require_finite(const Fragment& fragment) {
  if (all_finite({fragment.values(), fragment.elements})) return;
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t own = fragment.not_finite.value_or(kNone);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(control_.size()));
  control_.all_gather(std::span(&own, 1), all);
  const auto culprit = std::ranges::find_if(all, [&](std::uint64_t parameter) { return parameter != kNone; });
  if (culprit == all.end())
    refuse_call(
        "values of the replicas are finite and their mean is not: they are too large to be added up in float32");
  const auto replica = static_cast<int>(culprit - all.begin());
  throw Error(ErrorCode::invalid_argument,
              "replica " + std::to_string(replica) + ", parameter \"" +
                  strategy_.parameters()[static_cast<std::size_t>(*culprit)].name +
                  "\": its values are not finite, and so is no outer gradient; nothing was merged. Lower the learning "
                  "rate or clip gradients, and go on from a checkpoint",
              replica);
}

// The outer optimizer; what was the mean becomes the outer gradient.
void LocalUpdater::advance_start(Fragment& fragment) {
  const std::span mean(fragment.values(), fragment.elements);
  if (options_.learning_rate == 1 && options_.momentum == 0 && !fragment.codes) {
    std::ranges::copy(mean, fragment.start.begin());
    return;
  }
  if (!fragment.codes)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = fragment.start[i] - mean[i];
  update(Sgd{.learning_rate = options_.learning_rate, .momentum = options_.momentum, .nesterov = options_.momentum > 0},
         exchanges_ + 1,
         {.count = mean.size(),
          .master = fragment.start.data(),
          .gradient = mean.data(),
          .states = {fragment.momentum.data(), nullptr}});
}

void LocalUpdater::take_start(Fragment& fragment) {
  const float* start = fragment.start.data();
  for (const OwnedPart& part : fragment.parts) {
    std::copy_n(start, part.count, part.shard.master);
    start += part.count;
  }
  fragment.refreshed = strategy_.refresh(fragment.parameters);
}

void LocalUpdater::mix(Fragment& fragment) {
  const float* start = fragment.start.data();
  const float* sent = fragment.sent.data();
  const auto kept = static_cast<float>(mixing_), taken = static_cast<float>(1 - mixing_);
  for (const OwnedPart& part : fragment.parts) {
    const std::span masters(part.shard.master, part.count);
    if (options_.asynchronous) {
      for (std::size_t i = 0; i < part.count; ++i) masters[i] += start[i] - sent[i];
      sent += part.count;
    } else {
      for (std::size_t i = 0; i < part.count; ++i) masters[i] = kept * masters[i] + taken * start[i];
    }
    start += part.count;
  }
  fragment.refreshed = strategy_.refresh(fragment.parameters);
}

void LocalUpdater::merge(Fragment& fragment, bool whole) {
  advance_start(fragment);
  if (whole || (!options_.asynchronous && mixing_ == 0)) {
    take_start(fragment);
  } else {
    mix(fragment);
  }
  ++exchanges_;
  contributions_.assign(static_cast<std::size_t>(between_.size()), fragment.made_of);
  if (options_.asynchronous) contributions_.assign(fragment.steps_of_all.begin(), fragment.steps_of_all.end());
}

LocalStep LocalUpdater::step(std::optional<double> learning_rate) {
  if (failed_)
    refuse_call(
        "an exchange of these local updates has failed; the strategy is as it was: save it, or go on by "
        "Strategy::step() alone");
  LocalStep result;
  result.inner = strategy_.step(learning_rate);
  held_before_us_ = std::exchange(held_us_, 0);
  waited_before_us_ = std::exchange(waited_us_, 0);
  ++steps_;
  guarded([&] {
    merge_due(result);
    begin_due();
    if (!options_.asynchronous && options_.overlap == 0) merge_due(result);
  });
  return result;
}

void LocalUpdater::require_same_steps() {
  std::vector<std::int64_t> all(static_cast<std::size_t>(between_.size()));
  between_.all_gather(std::span(&steps_, 1), all);
  once_.push_back({Verb::all_gather, "steps of replicas", all.size() * sizeof steps_, 1, between_.size()});
  const auto other = std::ranges::find_if(all, [&](std::int64_t steps) { return steps != all[0]; });
  if (other == all.end()) return;
  const auto replica = static_cast<int>(other - all.begin());
  throw Error(ErrorCode::mismatch,
              "replica " + std::to_string(replica) + " ends after " + std::to_string(*other) +
                  " steps and replica 0 after " + std::to_string(all[0]) +
                  "; let all replicas make the same number, or set asynchronous",
              replica);
}

// What another replica has begun waits for this one's contribution.
void LocalUpdater::catch_up_with_others() {
  std::int64_t most = begun_;
  as_one([&] { control_.all_reduce(std::span(&most, 1), ReduceOp::maximum); });
  once_.push_back({Verb::all_reduce, "exchanges begun", sizeof most, 1, control_.size()});
  for (; begun_ < most; ++begun_) {
    while (fragment_of(begun_).under_way) merge_next();
    begin(fragment_of(begun_));
  }
}

void LocalUpdater::merge_next() {
  Fragment& fragment = fragment_of(merged_);
  settle(fragment);
  merge(fragment, fragment.begun_at == steps_ && mixing_ == 0);
  ++merged_;
}

// By fragment, whether some replica has moved since it was exchanged.
std::vector<std::uint8_t> LocalUpdater::moved_since() {
  std::vector<std::uint8_t> moved;
  for (const Fragment& fragment : fragments_) moved.push_back(fragment.begun_at != steps_ ? 1 : 0);
  if (!options_.asynchronous) return moved;
  as_one([&] { control_.all_reduce(moved, ReduceOp::maximum); });
  once_.push_back({Verb::all_reduce, "what has moved", moved.size(), 1, control_.size()});
  return moved;
}

void LocalUpdater::finish() {
  if (failed_) refuse_call("an exchange of these local updates has failed; there is nothing to finish");
  guarded([&] {
    if (options_.asynchronous) {
      catch_up_with_others();
    } else {
      as_one([&] { require_same_steps(); });
    }
    while (merged_ < begun_) merge_next();
    const std::vector<std::uint8_t> moved = moved_since();
    for (std::size_t i = 0; i < moved.size(); ++i)
      if (moved[i] != 0) begin(fragments_[i]);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      if (moved[i] == 0) {
        take_start(fragments_[i]);
        continue;
      }
      settle(fragments_[i]);
      merge(fragments_[i], true);
    }
    origin_ = last_begin_ = steps_;
    begun_ = merged_ = 0;
  });
}

void LocalUpdater::verify() {
  std::vector<std::uint64_t> hashes;
  for (const Fragment& fragment : fragments_) {
    hashes.push_back(hash_of_bytes(std::as_bytes(std::span(fragment.start))));
    hashes.push_back(hash_of_bytes(std::as_bytes(std::span(fragment.momentum))));
  }
  Sentence said;
  const auto describe = [&](std::size_t i) {
    return std::string(i % 2 == 0 ? "a start" : "a momentum") + " of fragment " + std::to_string(i / 2) +
           " with hash " + std::to_string(hashes[i]);
  };
  as_one([&] {
    require_alike(between_, hashes, describe, "look for replicas whose libraries or processors differ", said);
  });
}

Counters LocalUpdater::counters() const {
  Counters all = between_.counters();
  add_counters(all, inside_.counters());
  add_counters(all, control_.counters());
  return all;
}

strategy::FragmentBytes LocalUpdater::bytes_of(const Fragment& fragment) const {
  if (!fragment.codes) return {.sent = fragment.elements * sizeof(float)};
  const auto replicas = static_cast<std::size_t>(between_.size());
  const std::size_t chunk = (fragment.elements + replicas - 1) / replicas;
  return {exchanged_bytes(*options_.quantise, between_.size(), chunk), true,
          returned_bytes(*options_.quantise, between_.size(), chunk)};
}

Report LocalUpdater::report() const {
  Report report = strategy_.report();
  strategy::ExchangeShape shape{.every = options_.every,
                                .replicas = between_.size(),
                                .site_ranks = inside_.size(),
                                .asynchronous = options_.asynchronous};
  for (const Fragment& fragment : fragments_) {
    shape.fragments.push_back(bytes_of(fragment));
    report.bytes.outer += (fragment.start.size() + fragment.momentum.size() + fragment.lost.size()) * sizeof(float);
    report.bytes.in_flight += (fragment.elements + fragment.sent.size()) * sizeof(float);
    if (fragment.codes) report.bytes.in_flight += fragment.codes->memory_bytes();
  }
  std::size_t fragment = 0;
  for (Phrase& phrase : strategy::sentence_of(shape)) {
    if (phrase.what.starts_with("outer gradients")) {
      phrase.under_way_us = fragments_[fragment].under_way_us;
      phrase.exposed_us = fragments_[fragment++].exposed_us;
    }
    report.each_step.push_back(std::move(phrase));
  }
  for (const Fragment& each : fragments_) {
    for (Phrase phrase : each.refreshed) {
      phrase.every = options_.every;
      report.each_step.push_back(std::move(phrase));
    }
  }
  report.once.insert(report.once.end(), once_.begin(), once_.end());
  report.strategy = "local updates every " + std::to_string(options_.every) + " steps, " +
                    std::to_string(between_.size()) + " replicas of " + report.strategy;
  report.ranks = inside_.size() * between_.size();
  StepTimes& times = report.times;
  const double computing = times.computing_us;
  times.computing_us -= held_before_us_;
  times.waiting_us += waited_before_us_;
  times.updating_us += held_before_us_ - waited_before_us_;
  if (times.computing_us <= 0) return report;
  report.gamma_raw = (report.gamma_raw * computing + waited_before_us_) / times.computing_us;
  report.gamma_exposed = times.waiting_us / times.computing_us;
  return report;
}

}  // namespace tutti::train
