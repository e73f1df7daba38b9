#include "topology/device_rates.h"

#include <nlohmann/json.hpp>

#include "topology/rate_numbers.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "rates of a device: " + what + "; `tutti tune` measures them anew");
}

double number(const Json& json, const char* key) { return number_of(json, key, reject); }

}  // namespace

std::string to_text(const DeviceRates& rates) {
  Json json;
#define X(member, meaning) json[#member] = four_digits(rates.member);
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
