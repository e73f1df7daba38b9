// A model of arrays whose gradients are made up from values, rank and step, and what one process makes of it that adds
// the ranks' partial gradients in canonical order: the bits that every strategy must come to.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/canonical.h"
#include "check.h"
#include "engine/reference.h"
#include "kernels/kernels.h"
#include "tutti/train/optimizer.h"
#include "tutti/train/strategy.h"

namespace tutti::testing {

using Bytes = std::vector<std::byte>;

inline std::vector<float> to_floats(const void* values, DType type, std::size_t count) {
  std::vector<float> floats(count);
  if (type == DType::float32) {
    if (count != 0) std::memcpy(floats.data(), values, 4 * count);
  } else {
    kernels::find_convert(type, DType::float32)(floats.data(), values, count);
  }
  return floats;
}

inline void from_floats(const std::vector<float>& floats, DType type, void* values) {
  if (type == DType::float32) {
    if (!floats.empty()) std::memcpy(values, floats.data(), 4 * floats.size());
  } else {
    kernels::find_convert(DType::float32, type)(values, floats.data(), floats.size());
  }
}

// A number in (-1, 1) that depends on everything.
inline float noise(std::uint32_t seed, int rank, std::size_t i) {
  return static_cast<float>(static_cast<std::int32_t>(hostile_bits(seed, rank, i))) * 0x1p-31F;
}

// Names, shapes and first values of a small model with all that is awkward: an odd size, a scalar, nothing at all.
struct ToyModel {
  explicit ToyModel(DType type = DType::float32) : ToyModel(type, type) {}
  // Types by turns.
  ToyModel(DType even, DType odd) {
    const std::pair<const char*, std::vector<std::int64_t>> shapes[] = {
        {"embedding", {50, 31}}, {"w1", {64, 33}}, {"b1", {33}},  {"empty", {0, 7}},
        {"w2", {33, 70}},        {"b2", {70}},     {"scale", {}}, {"head", {3, 1024}}};
    for (const auto& [name, shape] : shapes) {
      const DType type = parameters.size() % 2 == 0 ? even : odd;
      train::Parameter parameter{.name = name, .type = type, .shape = shape};
      std::vector<float> values(parameter.elements());
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = noise(static_cast<std::uint32_t>(parameters.size()), 99, i);
      memory.emplace_back(values.size() * size_of(type));
      from_floats(values, type, memory.back().data());
      parameters.push_back(std::move(parameter));
    }
    constexpr std::size_t kUnits[] = {0, 1, 1, 2, 2, 2, 3, 3};
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].values = memory[i].data();
      parameters[i].unit = kUnits[i];
    }
  }
  static constexpr std::size_t kUnitCount = 4;

  train::Parameters parameters;
  std::vector<Bytes> memory;
};

// What backward on one rank gives for a parameter.
inline Bytes gradient_of(const train::Parameter& parameter, std::size_t index, const void* values, int rank, int step) {
  std::vector<float> floats = to_floats(values, parameter.type, parameter.elements());
  const auto seed = static_cast<std::uint32_t>(step * 64 + static_cast<int>(index));
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = 0.1F * floats[i] + noise(seed, rank, i);
  Bytes gradient(floats.size() * size_of(parameter.type));
  from_floats(floats, parameter.type, gradient.data());
  return gradient;
}

class OneProcess {
 public:
  OneProcess(const ToyModel& model, train::Optimizer optimizer, std::optional<double> clip)
      : parameters_(model.parameters), values_(model.memory), optimizer_(optimizer), clip_(clip) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      masters_.push_back(to_floats(values_[i].data(), parameters_[i].type, parameters_[i].elements()));
      for (auto& states : states_) states.emplace_back(parameters_[i].elements());
      for (auto& codes : codes_) codes.emplace_back(train::state_bytes(optimizer_, parameters_[i].elements()));
    }
  }

  // Gradients that `average` makes of the partial ones of all ranks, by parameter.
  template <class Average>
  void step(const Average& average) {
    std::vector<Bytes> gradients;
    for (std::size_t i = 0; i < parameters_.size(); ++i) gradients.push_back(average(i, values_[i].data()));
    norm_ = norm_of(gradients);
    const double factor = clip_ ? std::min(1.0, *clip_ / (norm_ + 1e-6)) : 1.0;
    ++steps_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) update_parameter(i, gradients[i], factor);
  }

  // The mean over ranks of what each has.
  void step_of_means(int ranks, int step_number) {
    step([&](std::size_t i, const void* values) {
      std::vector<Bytes> partial;
      for (int rank = 0; rank < ranks; ++rank)
        partial.push_back(gradient_of(parameters_[i], i, values, rank, step_number));
      return reduce_naively(parameters_[i].type, ReduceOp::average, std::move(partial), parameters_[i].elements());
    });
  }

  const std::vector<Bytes>& values() const { return values_; }
  double norm() const { return norm_; }

 private:
  double norm_of(const std::vector<Bytes>& gradients) const {
    std::vector<double> blocks;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::size_t elements = parameters_[i].elements(), bytes = size_of(parameters_[i].type);
      for (std::size_t first = 0; first < elements; first += 1024)
        blocks.push_back(kernels::sum_of_squares(gradients[i].data() + first * bytes, parameters_[i].type,
                                                 std::min<std::size_t>(1024, elements - first)));
    }
    canonical_fold(std::span(blocks), [](double& left, double right) { left += right; });
    return std::sqrt(blocks[0]);
  }

  void update_parameter(std::size_t i, const Bytes& gradient, double factor) {
    train::Shard shard{.count = parameters_[i].elements(),
                       .master = masters_[i].data(),
                       .gradient = gradient.data(),
                       .gradient_type = parameters_[i].type,
                       .states = {states_[0][i].data(), states_[1][i].data()},
                       .codes = {codes_[0][i].data(), codes_[1][i].data()}};
    if (shard.count == 0) return;
    train::update(optimizer_, steps_, shard, factor);
    from_floats(masters_[i], parameters_[i].type, values_[i].data());
  }

  train::Parameters parameters_;
  std::vector<Bytes> values_;
  train::Optimizer optimizer_;
  std::optional<double> clip_;
  std::vector<std::vector<float>> masters_;
  std::vector<std::vector<float>> states_[2];
  std::vector<Bytes> codes_[2];  // in their place where the optimizer keeps 8 bits
  double norm_ = 0;
  std::int64_t steps_ = 0;
};

// What a rank has, gathered unit by unit.
inline std::vector<Bytes> values_of(train::Strategy& strategy, const ToyModel& model) {
  std::vector<Bytes> values(model.parameters.size());
  for (std::size_t unit = 0; unit < ToyModel::kUnitCount; ++unit) {
    strategy.gather(unit);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (model.parameters[i].unit != unit) continue;
      const auto* place = static_cast<const std::byte*>(strategy.values(i));
      values[i].assign(place, place + model.memory[i].size());
    }
    strategy.release(unit);
  }
  return values;
}

// A forward pass of a rank, and every gradient, in an order of this rank's own.
inline void run_passes(train::Strategy& strategy, const ToyModel& model, int rank, int step) {
  strategy.zero_gradients();
  const std::vector<Bytes> values = values_of(strategy, model);
  for (std::size_t unit = ToyModel::kUnitCount; unit-- > 0;) {
    strategy.gather(unit);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (model.parameters[i].unit != unit || values[i].empty()) continue;
      require(std::memcmp(strategy.values(i), values[i].data(), values[i].size()) == 0, "the values of forward");
    }
    strategy.release(unit);
  }
  for (std::size_t turn = 0; turn < strategy.size(); ++turn) {
    const std::size_t i = rank % 2 == 0 ? strategy.size() - 1 - turn : (turn + 3) % strategy.size();
    const Bytes gradient = gradient_of(model.parameters[i], i, values[i].data(), rank, step);
    void* place = strategy.gradient(i);
    if (!gradient.empty()) std::memcpy(place, gradient.data(), gradient.size());
    strategy.ready(i);
  }
}

inline train::StepResult train_step(train::Strategy& strategy, const ToyModel& model, int rank, int step) {
  run_passes(strategy, model, rank, step);
  return strategy.step();
}

}  // namespace tutti::testing
