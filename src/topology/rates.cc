#include "topology/rates.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tutti/error.h"

namespace tutti::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "a table of costs: " + what + "; `tutti tune` makes a new one");
}

Json json_of(const Rates& rates) {
  Json json;
#define X(member, meaning) json[#member] = rates.member;
  TUTTI_RATES(X)
#undef X
  json["cache_bytes"] = rates.cache_bytes;
  json["cores"] = rates.cores;
  return json;
}

double number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) reject(std::string("'") + key + "' is not a number");
  const double value = found->get<double>();
  if (!std::isfinite(value) || value < 0) reject(std::string("'") + key + "' is negative or not finite");
  return value;
}

Rates rates_of(const Json& root, const char* kind) {
  const auto found = root.find(kind);
  if (found == root.end() || !found->is_object()) reject(std::string("'") + kind + "' is missing");
  Rates rates;
#define X(member, meaning) rates.member = number(*found, #member);
  TUTTI_RATES(X)
#undef X
  rates.cache_bytes = number(*found, "cache_bytes");
  const double cores = number(*found, "cores");
  if (cores < 1 || cores > 1 << 20) reject("'cores' is out of range");
  rates.cores = static_cast<int>(cores);
  return rates;
}

}  // namespace

CostTable usual_costs(int cores) {
  Rates memory;
  memory.step = 30e-9;
  memory.message = 100e-9;
  memory.progress = 80e-9;
  memory.enter = 100e-9;
  memory.call = 600e-9;
  memory.stream = 50e-12;
  memory.copy = 50e-12;
  memory.peer = 30e-12;
  memory.store = 30e-12;
  memory.reduce = 30e-12;
  memory.far = 1;
  memory.turn = 2e-6;
  memory.cache_bytes = 4 << 20;
  memory.cores = cores;
  Rates streams = memory;
  streams.call = 1e-6;
  streams.message = 3e-6;
  streams.stream = 100e-12;
  return {memory, streams};
}

std::string to_text(const CostTable& costs) {
  Json json;
  json["version"] = kVersion;
  json["memory"] = json_of(costs.memory);
  json["streams"] = json_of(costs.streams);
  return json.dump(2) + "\n";
}

CostTable costs_from_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) reject("not a JSON object");
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer() || version->get<std::int64_t>() != kVersion)
    reject("not of version " + std::to_string(kVersion));
  return {rates_of(json, "memory"), rates_of(json, "streams")};
}

}  // namespace tutti::topology
