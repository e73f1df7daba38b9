// A model of ones, and what the tests of strategies do with any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "check.h"
#include "tutti/train/strategy.h"

namespace tutti::testing {

inline constexpr int kStages[] = {0, 1, 2, 3};

inline train::Strategy make(int stage, Communicator& comm, const train::Parameters& parameters,
                            const train::StrategyOptions& options = {},
                            const train::Optimizer& optimizer = train::AdamW{}) {
  return stage == 0 ? train::data_parallel(comm, parameters, optimizer, options)
                    : train::zero(stage, comm, parameters, optimizer, options);
}

inline void on_ranks(int ranks, const RankFunction& body) { expect_all_ok(run_ranks(Ranks::threads, ranks, body)); }

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline void fill(train::Strategy& strategy, std::size_t parameter, float value) {
  for (float& gradient : strategy.gradient_as<float>(parameter)) gradient += value;
}

inline float value_of(train::Strategy& strategy, std::size_t parameter) {
  strategy.gather(0);
  const float value = strategy.values_as<float>(parameter)[0];
  strategy.release(0);
  return value;
}

// Two parameters of four and of two ones, trained by plain gradient descent with rate 1: values say what the mean was.
struct Ones {
  std::vector<float> values = std::vector<float>(6, 1.0F);
  train::Parameters parameters{{.name = "a", .shape = {4}, .values = values.data()},
                               {.name = "b", .shape = {2}, .values = values.data() + 4}};
  train::Optimizer plain = train::Sgd{.learning_rate = 1};
};

}  // namespace tutti::testing
