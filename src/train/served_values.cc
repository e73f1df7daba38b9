#include "train/served_values.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "train/float_arrays.h"
#include "train/row_update.h"

namespace tutti::train {

ServedValues::ServedValues(const ServerPlan& plan, std::size_t server, const ServedParameters& parameters,
                           const Optimizer& optimizer)
    : optimizer_(optimizer) {
  const std::size_t servers = plan.servers.size();
  for (std::size_t key = 0; key < plan.keys.size(); ++key) {
    const strategy::KeyPart part = plan.cuts[key][server];
    HeldKey held{.width = plan.width_of(key)};
    held.values.resize(part.count * held.width);
    for (int state = 0; state < state_arrays(optimizer); ++state) held.states[state].resize(held.values.size());
    const float* const from = parameters[key].values;
    for (std::size_t row = 0; from != nullptr && plan.keys[key].table && row < part.count; ++row)
      std::memcpy(held.values.data() + row * held.width, from + (server + row * servers) * held.width,
                  held.width * sizeof(float));
    if (from != nullptr && !plan.keys[key].table && part.count > 0)
      std::memcpy(held.values.data(), from + part.first, part.count * sizeof(float));
    keys_.push_back(std::move(held));
  }
}

std::size_t ServedValues::rows_of(std::size_t key) const {
  return keys_[key].width == 0 ? 0 : keys_[key].values.size() / keys_[key].width;
}

std::int64_t ServedValues::begin_step(std::size_t key) {
  ++steps_;
  return ++keys_[key].step;
}

void ServedValues::update(std::size_t key, std::int64_t step, std::size_t first, std::size_t rows,
                          const float* gradient, double scale) {
  HeldKey& held = keys_[key];
  const std::size_t begin = first * held.width;
  Shard shard{.count = rows * held.width, .master = held.values.data() + begin, .gradient = gradient};
  for (int state = 0; state < state_arrays(optimizer_); ++state)
    shard.states[state] = held.states[state].data() + begin;
  train::update(optimizer_, step, shard, scale);
}

void ServedValues::update(std::size_t key, std::int64_t step, std::span<const std::int64_t> rows, const float* gradient,
                          double scale) {
  HeldKey& held = keys_[key];
  update_rows(
      optimizer_, step,
      {.master = held.values.data(), .states = {held.states[0].data(), held.states[1].data()}, .width = held.width},
      rows, gradient, scale);
}

void ServedValues::copy(std::size_t key, std::size_t first, std::size_t rows, float* values) const {
  const HeldKey& held = keys_[key];
  std::memcpy(values, held.values.data() + first * held.width, rows * held.width * sizeof(float));
}

void ServedValues::copy(std::size_t key, std::span<const std::int64_t> rows, float* values) const {
  const HeldKey& held = keys_[key];
  constexpr std::size_t kAhead = 8;  // rows lie anywhere: they are asked for before they are needed
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size())
      __builtin_prefetch(held.values.data() + static_cast<std::size_t>(rows[i + kAhead]) * held.width);
    std::memcpy(values + i * held.width, held.values.data() + static_cast<std::size_t>(rows[i]) * held.width,
                held.width * sizeof(float));
  }
}

ClockGradients::ClockGradients(const ServerPlan& plan, std::span<const int> hosts)
    : keys_(plan.keys), hosts_(hosts.begin(), hosts.end()), pushed_(hosts.size()) {
  for (std::vector<Pushed>& of_worker : pushed_) of_worker.resize(keys_.size());
}

float* ClockGradients::place(std::size_t worker, std::size_t key, std::size_t rows) {
  Pushed& pushed = pushed_[worker][key];
  if (keys_[key].table) {
    const std::size_t before = pushed.gradient.size();
    pushed.gradient.resize(before + rows * keys_[key].width);
    return pushed.gradient.data() + before;
  }
  std::vector<float>& landing = pushed.any ? pushed.landing : pushed.gradient;
  landing.resize(rows);
  return landing.data();
}

void ClockGradients::landed(std::size_t worker, std::size_t key, std::span<const std::int64_t> rows) {
  Pushed& pushed = pushed_[worker][key];
  if (keys_[key].table) pushed.rows.insert(pushed.rows.end(), rows.begin(), rows.end());
  if (!keys_[key].table && pushed.any)
    add_floats(pushed.gradient.data(), pushed.landing.data(), pushed.gradient.size());
  pushed.any = true;
}

void ClockGradients::forget(std::size_t worker) {
  for (std::size_t key = 0; key < keys_.size(); ++key) {
    Pushed& pushed = pushed_[worker][key];
    pushed.any = false;
    pushed.rows.clear();
    if (keys_[key].table) pushed.gradient.clear();
  }
}

void ClockGradients::step(const std::vector<std::size_t>& workers, ServedValues& values) {
  sort_by_host(workers);
  for (std::size_t key = 0; key < keys_.size(); ++key) {
    const bool any = std::any_of(workers.begin(), workers.end(), [&](std::size_t it) { return pushed_[it][key].any; });
    if (!any) continue;
    if (keys_[key].table)
      step_table(key, workers, values);
    else
      step_dense(key, workers, values);
  }
  for (const std::size_t worker : workers) forget(worker);
}

// Hosts first, as all_reduce among the workers would.
void ClockGradients::average(std::span<float* const> sources, std::size_t count) {
  const auto reduce = kernels::find_reduce(DType::float32, ReduceOp::average);
  const auto fold = [&](const std::vector<const void*>& terms, void* sum, std::uint32_t divisor) {
    reduce(&sum, 1, terms.data(), terms.size(), count, {divisor});
  };
  const auto divisor = static_cast<std::uint32_t>(sources.size());
  if (by_host_.size() == 1) return fold({sources.begin(), sources.end()}, mean_.data(), divisor);
  partial_.resize(by_host_.size() * count);
  std::vector<const void*> sums;
  for (const std::vector<std::size_t>& host : by_host_) {
    float* const sum = partial_.data() + sums.size() * count;
    std::vector<const void*> terms;
    for (const std::size_t place : host) terms.push_back(sources[place]);
    fold(terms, sum, 1);
    sums.push_back(sum);
  }
  fold(sums, mean_.data(), divisor);
}

void ClockGradients::sort_by_host(const std::vector<std::size_t>& workers) {
  std::map<int, std::size_t> number;
  by_host_.clear();
  for (std::size_t place = 0; place < workers.size(); ++place) {
    const auto [at, is_new] = number.emplace(hosts_[workers[place]], by_host_.size());
    if (is_new) by_host_.emplace_back();
    by_host_[at->second].push_back(place);
  }
}

void ClockGradients::step_dense(std::size_t key, const std::vector<std::size_t>& workers, ServedValues& values) {
  const std::size_t count = values.rows_of(key);
  const std::int64_t number = values.begin_step(key);
  zeros_.resize(std::max(zeros_.size(), kTile));
  mean_.resize(std::max(mean_.size(), kTile));
  std::vector<float*> sources(workers.size());
  for_tiles(count, [&](std::size_t begin, std::size_t tile) {
    for (std::size_t i = 0; i < workers.size(); ++i) {
      Pushed& pushed = pushed_[workers[i]][key];
      sources[i] = pushed.any ? pushed.gradient.data() + begin : zeros_.data();
    }
    average(sources, tile);
    values.update(key, number, begin, tile, mean_.data(), 1);
  });
}

void ClockGradients::step_table(std::size_t key, const std::vector<std::size_t>& workers, ServedValues& values) {
  const std::size_t width = keys_[key].width;
  const std::int64_t number = values.begin_step(key);
  zeros_.resize(std::max(zeros_.size(), width));
  mean_.resize(std::max(mean_.size(), width));
  std::vector<std::tuple<std::int64_t, std::size_t, float*>> rows;  // row, place in `workers`, gradient
  for (std::size_t i = 0; i < workers.size(); ++i) {
    Pushed& pushed = pushed_[workers[i]][key];
    for (std::size_t row = 0; row < pushed.rows.size(); ++row)
      rows.emplace_back(pushed.rows[row], i, pushed.gradient.data() + row * width);
  }
  std::sort(rows.begin(), rows.end());  // of one worker in the order they came
  std::vector<float*> sources(workers.size());
  for (std::size_t at = 0; at < rows.size();) {
    const std::int64_t row = std::get<0>(rows[at]);
    std::fill(sources.begin(), sources.end(), zeros_.data());
    for (; at < rows.size() && std::get<0>(rows[at]) == row; ++at) {
      const auto [same, i, gradient] = rows[at];
      const bool first = sources[i] == zeros_.data();
      if (first)
        sources[i] = gradient;
      else
        add_floats(sources[i], gradient, width);
    }
    average(sources, width);
    values.update(key, number, std::span(&row, 1), mean_.data(), 1);
  }
}

}  // namespace tutti::train
