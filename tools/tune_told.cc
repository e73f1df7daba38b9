#include "tools/tune_told.h"

#include <fmt/format.h>

#include <optional>

#include "tools/clusters.h"
#include "topology/rates.h"

namespace tutti::tools {
namespace {

Json json_of(const TunedCall& call) {
  return {{"verb", name_of(call.verb)},
          {"algorithm", call.algorithm},
          {"bytes", call.bytes},
          {"memory", call.on_device ? "device" : "host"},
          {"measured_us", call.measured_us},
          {"predicted_us", call.predicted_us}};
}

std::string words_of_device(const topology::DeviceRates& rates) {
  std::string text = "  GPU 0 of every rank:\n";
  const auto line = [&](const char* what, const std::string& fixed, double bytes_per_s, const char* of) {
    text += fmt::format("    {:<22} {:>10} and {:>12} {}\n", what, fixed, rounded_bandwidth(bytes_per_s), of);
  };
  if (rates.launches()) {
    line("one launch for all", rounded_time(rates.launch_s), rates.touch_bytes_per_s,
         fmt::format("read and written, {:.2f} of a copy", rates.touch_bytes_per_s / (2 * rates.copy_bytes_per_s))
             .c_str());
  } else {
    text += "    no launch for all: calls go through host memory\n";
  }
  line("staging to the host", rounded_time(rates.to_host_s), rates.to_host_bytes_per_s, "for each rank");
  line("staging to the device", rounded_time(rates.to_device_s), rates.to_device_bytes_per_s, "for each rank");
  text += fmt::format("    {:<22} {:>10}     {:>12} copied\n", "a copy within it", "",
                      rounded_bandwidth(rates.copy_bytes_per_s));
  return text;
}

std::string words_of_steps(const Json& steps) {
  std::string text = fmt::format("  {:<15} {:>10} {:>10} {:>16}\n", "step of", "buckets", "bytes each", "under way us");
  for (const Json& step : steps) {
    const int stage = step.at("stage").get<int>();
    text += fmt::format("  {:<15} {:>10} {:>10} {:>16.2f}\n", stage == 0 ? "dp" : fmt::format("zero{}", stage),
                        step.at("buckets").get<int>(), step.at("bytes").get<std::size_t>(),
                        step.at("seconds").get<double>() * 1e6);
  }
  return text;
}

}  // namespace

Json told_of(const Tuned& tuned, const std::string& what, bool with_calls) {
  const topology::Survey survey = topology::costs_from_text(tuned.costs).surveys.front();
  Json told{{"group", what},           {"ranks", survey.ranks},   {"hosts", survey.hosts},
            {"memory", survey.memory}, {"error", tuned.error},    {"regret", tuned.regret},
            {"device", nullptr},       {"device_error", nullptr}, {"why_no_device", nullptr}};
  if (survey.device) told["device"] = Json::parse(topology::to_text(*survey.device));
  if (tuned.device_error > 0) told["device_error"] = tuned.device_error;
  if (!tuned.why_no_device.empty()) told["why_no_device"] = tuned.why_no_device;
  if (!with_calls) return told;
  told["calls"] = Json::array();
  for (const TunedCall& call : tuned.calls) told["calls"].push_back(json_of(call));
  return told;
}

std::string words_of_tuned(const Json& told) {
  std::string text = fmt::format(
      "{}: the rates are off by a factor of {:.2f}; trusting them alone would cost {:.1f} %\n",
      told.at("group").get<std::string>(), told.at("error").get<double>(), (told.at("regret").get<double>() - 1) * 100);
  if (!told.at("why_no_device").is_null())
    text += fmt::format("  GPUs: nothing is measured of them: {}\n", told.at("why_no_device").get<std::string>());
  if (!told.at("device").is_null()) text += words_of_device(topology::device_rates_from_text(told.at("device").dump()));
  if (!told.at("device_error").is_null())
    text += fmt::format("    predictions of calls on its memory are off by a factor of {:.2f}\n",
                        told.at("device_error").get<double>());
  if (!told.contains("calls")) return text;
  if (told.contains("steps")) text += words_of_steps(told.at("steps"));
  text += fmt::format("  {:<15} {:<19} {:<6} {:>10} {:>12} {:>12}\n", "verb", "algorithm", "memory", "bytes",
                      "measured us", "predicted us");
  for (const Json& call : told.at("calls")) {
    text += fmt::format("  {:<15} {:<19} {:<6} {:>10} {:>12.2f} {:>12.2f}\n", call.at("verb").get<std::string>(),
                        call.at("algorithm").get<std::string>(), call.at("memory").get<std::string>(),
                        call.at("bytes").get<std::size_t>(), call.at("measured_us").get<double>(),
                        call.at("predicted_us").get<double>());
  }
  return text;
}

}  // namespace tutti::tools
