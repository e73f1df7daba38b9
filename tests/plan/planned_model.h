// A model of zeros in the tensors and units of a plan, and steps that compute nothing: for the test and the measurement
// that hold plans against runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/training.h"
#include "tutti/train/strategy.h"

namespace tutti::plan {

struct PlannedModel {
  explicit PlannedModel(const ModelShape& model) {
    for (const ModelTensor& tensor : tensors_of(model)) {
      train::Parameter parameter{.name = tensor.name, .shape = {static_cast<std::int64_t>(tensor.elements)}};
      parameter.unit = unit_of(tensor);
      memory.emplace_back(tensor.elements);
      parameters.push_back(parameter);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].values = memory[i].data();
  }

  // Forward, backward and the update; `compute(parameter)` comes before its gradient is ready.
  template <class Compute>
  void step(train::Strategy& strategy, const Compute& compute) const {
    const std::size_t units = parameters.back().unit + 1;
    for (std::size_t unit = 0; unit < units; ++unit) {
      strategy.gather(unit);
      strategy.release(unit);
    }
    std::size_t next = parameters.size();
    for (std::size_t unit = units; unit-- > 0;) {
      strategy.gather(unit);
      strategy.release(unit);
      for (; next > 0 && parameters[next - 1].unit == unit; --next) {
        compute(next - 1);
        strategy.ready(next - 1);
      }
    }
    strategy.step();
  }

  train::Parameters parameters;
  std::vector<std::vector<float>> memory;
};

}  // namespace tutti::plan
