#include "tools/json_shape.h"

#include <string_view>

namespace tutti::tools {
namespace {

using Json = nlohmann::ordered_json;

bool is_alike(const Json& value, const Json& example) {
  return value.is_number() ? example.is_number() : value.type() == example.type();
}

std::string_view kind_of(const Json& example) {
  if (example.is_number()) return "a number";
  if (example.is_boolean()) return "true or false";
  if (example.is_string()) return "a string";
  return example.is_array() ? "a list" : "an object";
}

}  // namespace

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

}  // namespace tutti::tools
