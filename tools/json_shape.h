// Whether JSON that others wrote has what is read of it. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tutti::tools {

// What is wrong with the value, such as "bill.stages[0].seconds is missing"; empty where nothing is. The example has
// what is read: a member whose name ends with "?" may be left out, and a list has any number of elements like its
// first. `place` is what the value is called.
std::string wrong_with(const nlohmann::ordered_json& value, const nlohmann::ordered_json& example,
                       const std::string& place);

}  // namespace tutti::tools
