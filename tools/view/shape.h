// Whether documents that others wrote have what the page reads of them: it would stop half drawn where something is
// missing. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tutti::view {

// What is wrong with a plan of `tutti plan --json`, or a pipeline of `tutti show pipeline --json`, such as
// "bill.stages[0].backward_seconds is missing"; empty where nothing is.
std::string wrong_with_plan(const nlohmann::ordered_json& plan);
std::string wrong_with_pipeline(const nlohmann::ordered_json& pipeline);
// Whether it is what `tutti sim --json` prints, which is not played.
bool is_simulation(const nlohmann::ordered_json& document);

}  // namespace tutti::view
