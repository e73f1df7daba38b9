// Numbers of what was measured, as files hold them.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::topology {

// Nothing is measured to more digits.
inline double four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

// `reject(what)` throws.
template <class Reject>
double number_of(const nlohmann::ordered_json& json, const char* key, Reject&& reject) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) reject(std::string("'") + key + "' is not a number");
  const double value = found->template get<double>();
  if (!std::isfinite(value) || value < 0) reject(std::string("'") + key + "' is negative or not finite");
  return value;
}

}  // namespace tutti::topology
