#include "tools/view/shape.h"

#include "tools/json_shape.h"

namespace tutti::view {
namespace {

using tools::wrong_with;
using Json = nlohmann::ordered_json;

// What the page reads, by example.
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
