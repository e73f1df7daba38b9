#include "topology/measured_steps.h"

#include <nlohmann/json.hpp>

#include "topology/rate_numbers.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kStages = 4, kMostBytes = 1ULL << 40, kMostBuckets = 1 << 20;

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "steps of strategies: " + what + "; `tutti tune` measures them anew");
}

// From `least` on, below `end`, without a fraction.
double whole_number(const Json& json, const char* key, double least, double end) {
  const double value = number_of(json, key, reject);
  if (value < least || value >= end || value != std::floor(value)) reject(std::string("'") + key + "' is out of range");
  return value;
}

MeasuredStep step_of(const Json& json) {
  if (!json.is_object()) reject("one is not an object");
  const MeasuredStep step{.stage = static_cast<int>(whole_number(json, "stage", 0, kStages)),
                          .bytes = static_cast<std::uint64_t>(whole_number(json, "bytes", 1, kMostBytes)),
                          .buckets = static_cast<int>(whole_number(json, "buckets", 1, kMostBuckets)),
                          .seconds = number_of(json, "seconds", reject)};
  if (step.seconds == 0) reject("one that takes no time");
  return step;
}

}  // namespace

std::string to_text(const std::vector<MeasuredStep>& steps) {
  std::string text = "[";
  for (const MeasuredStep& step : steps) {
    const Json json{{"stage", step.stage},
                    {"bytes", step.bytes},
                    {"buckets", step.buckets},
                    {"seconds", four_digits(step.seconds)}};
    text += (&step == &steps.front() ? "\n" : ",\n") + json.dump();
  }
  return text + "]";
}

std::vector<MeasuredStep> steps_from_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_array()) reject("not a JSON list");
  std::vector<MeasuredStep> steps;
  for (const Json& each : json) {
    const MeasuredStep step = step_of(each);
    for (const MeasuredStep& other : steps)
      if (step.is_like(other)) reject("one is there twice");
    steps.push_back(step);
  }
  return steps;
}

}  // namespace tutti::topology
