// JSON as it is printed and written. Names of files, hosts and programs need not be UTF-8: what is not stands
// as U+FFFD, where dump() alone would throw.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tutti {

// `indent`: -1: all in one line.
template <class Json>
std::string json_text(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tutti
