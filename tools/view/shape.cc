#include "tools/view/shape.h"

#include <string_view>

namespace tutti::view {
namespace {

using Json = nlohmann::ordered_json;

// What the page reads, by example: a member whose name ends with "?" may be left out, and a list has any number of
// elements like its first.
const Json& example_of_plan() {
  static const Json kPlan = Json::parse(R"({
    "model": "", "strategy": "", "gpus": 0, "accelerator": "", "fits": true, "step_seconds": 0, "mfu": 0,
    "gamma_raw": 0, "gamma_exposed": 0,
    "sentence": [{"times": 0, "verb": "", "bytes": 0, "what": "", "ranks": 0, "group": "", "algorithm": "",
                  "seconds": 0, "exposed_seconds": 0}],
    "bill": {"seconds": {}, "memory_bytes": {}, "memory_capacity_bytes?": 0, "stages": [{"backward_seconds": 0}],
             "timeline?": [{"bytes": 0, "ready_us": 0, "start_us": 0, "end_us": 0, "exposed_us": 0}]}})");
  return kPlan;
}

const Json& example_of_pipeline() {
  static const Json kPipeline = Json::parse(R"({
    "schedule": "", "stages": 0, "microbatches": 0, "chunks": 0, "span": 0, "work": 0, "bubble": 0, "message": 0,
    "programs": [{"stage": 0, "activations_held": 0,
                  "steps": [{"batch": [{"sends": true, "cargo": "", "peer": 0, "microbatch": 0, "boundary": 0}],
                             "action?": {"work": "", "microbatch": 0, "chunk": 0, "begin": 0, "end": 0}}]}]})");
  return kPipeline;
}

const Json& example_of_simulation() {
  static const Json kSimulation =
      Json::parse(R"({"verb": "", "topology": "", "hosts?": 0, "bytes?": 0, "algorithms": [{}]})");
  return kSimulation;
}

bool is_alike(const Json& value, const Json& example) {
  return value.is_number() ? example.is_number() : value.type() == example.type();
}

std::string_view kind_of(const Json& example) {
  if (example.is_number()) return "a number";
  if (example.is_boolean()) return "true or false";
  if (example.is_string()) return "a string";
  return example.is_array() ? "a list" : "an object";
}

std::string wrong_with(const Json& value, const Json& example, const std::string& place) {
  if (!is_alike(value, example))
    return (place.empty() ? "the document" : place) + " should be " + std::string(kind_of(example));
  if (example.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string wrong = wrong_with(value[i], example[0], place + "[" + std::to_string(i) + "]");
      if (!wrong.empty()) return wrong;
    }
  }
  if (!example.is_object()) return "";
  for (const auto& [marked, wanted] : example.items()) {
    const bool optional = marked.back() == '?';
    const std::string name = optional ? marked.substr(0, marked.size() - 1) : marked;
    const std::string where = place.empty() ? name : place + "." + name;
    const auto found = value.find(name);
    if (found == value.end() && optional) continue;
    if (found == value.end()) return where + " is missing";
    if (const std::string wrong = wrong_with(*found, wanted, where); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

std::string wrong_with_plan(const Json& plan) {
  if (const std::string wrong = wrong_with(plan, example_of_plan(), ""); !wrong.empty()) return wrong;
  return plan.at("bill").at("stages").empty() ? "bill.stages is empty" : "";
}

std::string wrong_with_pipeline(const Json& pipeline) {
  if (const std::string wrong = wrong_with(pipeline, example_of_pipeline(), ""); !wrong.empty()) return wrong;
  const Json& programs = pipeline.at("programs");
  if (programs.empty()) return "programs is empty";
  if (pipeline.at("stages") != programs.size())
    return "stages is " + pipeline.at("stages").dump() + ", and programs has " + std::to_string(programs.size());
  return pipeline.at("microbatches") < 1 ? "microbatches should be 1 at least" : "";
}

bool is_simulation(const Json& document) { return wrong_with(document, example_of_simulation(), "").empty(); }

}  // namespace tutti::view
