#include "topology/device_rates.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tutti/error.h"

namespace tutti::topology {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "rates of a device: " + what + "; `tutti tune` measures them anew");
}

// Nothing is measured to more digits.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

double number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) reject(std::string("'") + key + "' is not a number");
  const double value = found->get<double>();
  if (!std::isfinite(value) || value < 0) reject(std::string("'") + key + "' is negative or not finite");
  return value;
}

}  // namespace

std::string to_text(const DeviceRates& rates) {
  Json json;
#define X(member, meaning) json[#member] = rounded(rates.member);
  TUTTI_DEVICE_RATES(X)
#undef X
  return json.dump();
}

DeviceRates device_rates_from_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) reject("not a JSON object");
  DeviceRates rates;
#define X(member, meaning) rates.member = number(json, #member);
  TUTTI_DEVICE_RATES(X)
#undef X
  if (rates.to_host_bytes_per_s == 0 || rates.to_device_bytes_per_s == 0)
    reject("a device to and from which nothing can be copied");
  if ((rates.launch_s == 0) != (rates.touch_bytes_per_s == 0))
    reject("'launch_s' and 'touch_bytes_per_s' are known both or not at all");
  return rates;
}

}  // namespace tutti::topology
