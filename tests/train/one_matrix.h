// A model of one matrix, for tests of what becomes of its gradients on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "train/one_process.h"
#include "tutti/train/strategy.h"

namespace tutti::testing {

struct OneMatrix {
  static constexpr std::size_t kRows = 64, kColumns = 33, kElements = kRows * kColumns;
  std::vector<float> values = std::vector<float>(kElements);
  train::Parameters parameters{{.name = "w", .shape = {kRows, kColumns}, .values = values.data()}};

  static std::vector<float> gradient(int rank, int step) {
    std::vector<float> gradient(kElements);
    for (std::size_t i = 0; i < kElements; ++i) gradient[i] = noise(static_cast<std::uint32_t>(step), rank, i);
    return gradient;
  }
  static train::StepResult step(train::Strategy& strategy, const std::vector<float>& gradient) {
    strategy.zero_gradients();
    strategy.gather(0);
    strategy.release(0);
    std::memcpy(strategy.gradient(0), gradient.data(), gradient.size() * sizeof(float));
    strategy.ready(0);
    return strategy.step();
  }
  static std::vector<float> values_in(train::Strategy& strategy) {
    strategy.gather(0);
    const auto span = strategy.values_as<float>(0);
    std::vector<float> values(span.begin(), span.end());
    strategy.release(0);
    return values;
  }
};

}  // namespace tutti::testing
