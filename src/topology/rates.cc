#include "topology/rates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "topology/rate_numbers.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 6;

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "a table of costs: " + what + "; `tutti tune` makes a new one");
}

Json json_of(const Rates& rates) {
  Json json;
#define X(member, meaning) json[#member] = four_digits(rates.member);
  TUTTI_RATES(X)
#undef X
  json["cache_bytes"] = rates.cache_bytes;
  json["cores"] = rates.cores;
  return json;
}

double number(const Json& json, const char* key) { return number_of(json, key, reject); }

Rates rates_of(const Json& root, const std::string& kind) {
  const auto found = root.find(kind);
  if (found == root.end() || !found->is_object()) reject("'" + kind + "' is missing");
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

std::string text_of(const Survey& survey) {
  std::string text = std::string("{\"kind\": ") + (survey.memory ? "\"memory\"" : "\"streams\"") +
                     ", \"ranks\": " + std::to_string(survey.ranks) + ", \"hosts\": " + std::to_string(survey.hosts) +
                     ",\n\"rates\": " + json_of(survey.rates).dump();
  if (survey.device) text += ",\n\"device\": " + to_text(*survey.device);
  if (!survey.steps.empty()) text += ",\n\"steps\": " + to_text(survey.steps);
  text += ",\n\"factors\": {";
  for (const auto& [name, factors] : survey.factors) {
    Json list = Json::array();
    for (const double factor : factors) list.push_back(four_digits(factor));
    text += (name == survey.factors.begin()->first ? "\n" : ",\n") + Json(name).dump() + ": " + list.dump();
  }
  return text + "}}";
}

Survey survey_of(const Json& json) {
  if (!json.is_object()) reject("a survey is not an object");
  Survey survey;
  const auto kind = json.find("kind"), factors = json.find("factors");
  if (kind == json.end() || (*kind != "memory" && *kind != "streams")) reject("'kind' is not 'memory' or 'streams'");
  survey.memory = *kind == "memory";
  const double ranks = number(json, "ranks");
  if (ranks < 2 || ranks > 1 << 20) reject("'ranks' is out of range");
  survey.ranks = static_cast<int>(ranks);
  const double hosts = json.contains("hosts") ? number(json, "hosts") : 1;
  if (hosts < 1 || hosts > ranks) reject("'hosts' is out of range");
  survey.hosts = static_cast<int>(hosts);
  survey.rates = rates_of(json, "rates");
  if (const auto device = json.find("device"); device != json.end())
    survey.device = device_rates_from_text(device->dump());
  if (const auto steps = json.find("steps"); steps != json.end()) survey.steps = steps_from_text(steps->dump());
  if (factors == json.end() || !factors->is_object()) reject("'factors' is missing");
  for (const auto& [name, list] : factors->items()) {
    if (!list.is_array() || list.size() != kSurveySizes) reject("'" + name + "' is not a list of factors");
    for (std::size_t i = 0; i < kSurveySizes; ++i) {
      const double factor = list[i].is_number() ? list[i].get<double>() : -1;
      if (!(factor > 1e-6 && factor < 1e6)) reject("'" + name + "' holds what is no factor");
      survey.factors[name][i] = factor;
    }
  }
  return survey;
}

Json json_of(const Speeds& speeds) {
  Json json;
#define X(member, meaning) json[#member] = four_digits(speeds.member);
  TUTTI_SPEEDS(X)
#undef X
  return json;
}

Speeds speeds_of(const Json& json) {
  if (!json.is_object()) reject("'speeds' is missing");
  Speeds speeds;
#define X(member, meaning) speeds.member = number(json, #member);
  TUTTI_SPEEDS(X)
#undef X
  return speeds;
}

// Whether they have wires between them counts for most, and whether ranks have a core each for more than how many they
// are.
double distance(const Survey& survey, int ranks, int hosts, int cores) {
  constexpr double kWires = 1000;
  const auto crowd = [](double many, double on) { return std::max(1.0, many / on); };
  const double sizes = std::log(static_cast<double>(survey.ranks) / ranks);
  const double crowds = std::log(crowd(static_cast<double>(survey.ranks) / survey.hosts, survey.rates.cores) /
                                 crowd(static_cast<double>(ranks) / hosts, cores));
  return std::abs(sizes) + 2 * std::abs(crowds) + ((survey.hosts > 1) == (hosts > 1) ? 0 : kWires);
}

bool crowded(int ranks, int hosts, int cores) { return ranks > static_cast<std::int64_t>(hosts) * cores; }

// Of one machine, and alike in everything but size.
bool same_make(const Survey& a, const Survey& b) {
  return a.memory == b.memory && a.hosts == b.hosts && a.rates.cores == b.rates.cores &&
         crowded(a.ranks, a.hosts, a.rates.cores) == crowded(b.ranks, b.hosts, b.rates.cores);
}

// By equal factors from step to step, as sizes of groups grow.
double between(double here, double there, double part) {
  return here > 0 && there > 0 ? here * std::pow(there / here, part) : here;
}

Survey between(const Survey& here, const Survey& there, int ranks) {
  const double part =
      std::log(static_cast<double>(ranks) / here.ranks) / std::log(static_cast<double>(there.ranks) / here.ranks);
  Survey survey = here;
  survey.ranks = ranks;
#define X(member, meaning) survey.rates.member = between(here.rates.member, there.rates.member, part);
  TUTTI_RATES(X)
#undef X
  if (here.device && there.device) {
#define X(member, meaning) survey.device->member = between(here.device->member, there.device->member, part);
    TUTTI_DEVICE_RATES(X)
#undef X
  }
  for (MeasuredStep& step : survey.steps) {
    const auto like = std::ranges::find_if(there.steps, [&](const MeasuredStep& other) { return other.is_like(step); });
    if (like != there.steps.end()) step.seconds = between(step.seconds, like->seconds, part);
  }
  for (auto& [name, factors] : survey.factors) {
    const auto found = there.factors.find(name);
    for (std::size_t i = 0; found != there.factors.end() && i < kSurveySizes; ++i)
      factors[i] = between(factors[i], found->second[i], part);
  }
  survey.factors.insert(there.factors.begin(), there.factors.end());
  return survey;
}

// Those alone of which this holds.
template <class Holds>
CostTable with_surveys(CostTable table, const Holds& holds) {
  std::erase_if(table.surveys, [&](const Survey& survey) { return !holds(survey); });
  return table;
}

}  // namespace

const Survey* nearest_survey(const CostTable& table, bool memory, int ranks, int hosts) {
  const Survey* nearest = nullptr;
  double least = 0;
  for (const Survey& survey : table.surveys) {
    if (survey.memory != memory) continue;
    const double far = distance(survey, ranks, hosts, (memory ? table.memory : table.streams).cores);
    if (nearest != nullptr && far >= least) continue;
    nearest = &survey;
    least = far;
  }
  return nearest;
}

std::optional<Survey> survey_for(const CostTable& table, bool memory, int ranks, int hosts) {
  const Survey* const nearest = nearest_survey(table, memory, ranks, hosts);
  if (nearest == nullptr) return std::nullopt;
  const int cores = (memory ? table.memory : table.streams).cores;
  if (crowded(nearest->ranks, nearest->hosts, nearest->rates.cores) != crowded(ranks, hosts, cores)) return *nearest;
  const Survey* other = nullptr;  // the nearest beyond
  for (const Survey& survey : table.surveys) {
    const bool beyond = (survey.ranks > ranks) == (nearest->ranks < ranks) && survey.ranks != ranks;
    if (!beyond || nearest->ranks == ranks || !same_make(survey, *nearest)) continue;
    const auto apart = [&](const Survey& each) { return std::abs(each.ranks - ranks); };
    if (other == nullptr || apart(survey) < apart(*other)) other = &survey;
  }
  return other == nullptr ? *nearest : between(*nearest, *other, ranks);
}

std::optional<DeviceRates> device_rates_for(const CostTable& table, bool memory, int ranks, int hosts) {
  const auto has_device = [](const Survey& survey) { return survey.device.has_value(); };
  const std::optional<Survey> found = survey_for(with_surveys(table, has_device), memory, ranks, hosts);
  return found ? found->device : std::nullopt;
}

std::optional<Survey> survey_of_steps_for(const CostTable& table, int ranks) {
  const auto has_steps = [](const Survey& survey) { return survey.hosts == 1 && !survey.steps.empty(); };
  return survey_for(with_surveys(table, has_steps), true, ranks);
}

void put_survey(CostTable& table, Survey survey) {
  std::erase_if(table.surveys, [&](const Survey& old) {
    return old.memory == survey.memory && old.ranks == survey.ranks && old.hosts == survey.hosts;
  });
  (survey.memory ? table.memory : table.streams) = survey.rates;
  table.surveys.push_back(std::move(survey));
}

CostTable usual_costs(int cores) {
  Rates memory;
  memory.step = 30e-9;
  memory.line = 50e-9;
  memory.message = 100e-9;
  memory.progress = 80e-9;
  memory.enter = 100e-9;
  memory.call = 600e-9;
  memory.stream = 50e-12;
  memory.copy = 50e-12;
  memory.peer = 30e-12;
  memory.push = 20e-12;
  memory.store = 30e-12;
  memory.reduce = 30e-12;
  memory.far = 1;
  memory.crowd = 0.05;
  memory.turn = 2e-6;
  memory.cache_bytes = 4 << 20;
  memory.cores = cores;
  Rates streams = memory;
  streams.line = streams.push = 0;
  streams.call = 1e-6;
  streams.message = 3e-6;
  streams.stream = 100e-12;
  streams.wire = 800e-12;  // 10 Gbit/s
  return {memory, streams, {}, {}};
}

// A line per part, so that people can read it and compare.
std::string to_text(const CostTable& costs) {
  std::string text = "{\n\"version\": " + std::to_string(kVersion);
  text += ",\n\"memory\": " + json_of(costs.memory).dump();
  text += ",\n\"streams\": " + json_of(costs.streams).dump();
  text += ",\n\"speeds\": " + json_of(costs.speeds).dump();
  text += ",\n\"surveys\": [";
  for (const Survey& survey : costs.surveys)
    text += (&survey == &costs.surveys.front() ? "\n" : ",\n") + text_of(survey);
  return text + "]}\n";
}

CostTable costs_from_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) reject("not a JSON object");
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer() || *version != kVersion)
    reject("not of version " + std::to_string(kVersion));
  CostTable table{rates_of(json, "memory"), rates_of(json, "streams"), {}, speeds_of(json.value("speeds", Json()))};
  const auto surveys = json.find("surveys");
  if (surveys == json.end() || !surveys->is_array()) reject("'surveys' is missing");
  for (const Json& survey : *surveys) table.surveys.push_back(survey_of(survey));
  return table;
}

std::string to_text(const Speeds& speeds) { return json_of(speeds).dump(2) + "\n"; }

Speeds speeds_from_text(const std::string& text) { return speeds_of(Json::parse(text, nullptr, false)); }

}  // namespace tutti::topology
