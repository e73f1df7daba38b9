// A model of zeros whose training computes nothing: what is left of a step is what its strategy says and does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tutti/train/strategy.h"

namespace tutti::tools {

struct IdleModel {
  IdleModel() = default;
  IdleModel(IdleModel&&) = default;  // parameters point into memory

  // Units go up from 0, a tensor or more each.
  void add(std::string name, std::size_t elements, std::size_t unit) {
    memory.emplace_back(elements);
    train::Parameter parameter{.name = std::move(name), .shape = {static_cast<std::int64_t>(elements)}};
    parameter.unit = unit;
    parameter.values = memory.back().data();  // which stays there when the list grows
    parameters.push_back(std::move(parameter));
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

}  // namespace tutti::tools
