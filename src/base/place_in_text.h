// Where in a text something stands, as people count.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

// "3:7": line and column, from 1, of the byte at this offset.
inline std::string place_in_text(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  return std::to_string(line) + ":" + std::to_string(column);
}

// Where what is between quotes in `words` about a text stands there: of a number that is too large, the JSON parser
// tells nothing else.
inline std::size_t offset_of_quoted(std::string_view text, std::string_view words) {
  const std::size_t begin = words.find('\''), end = words.rfind('\'');
  const std::string_view quoted = begin < end ? words.substr(begin + 1, end - begin - 1) : std::string_view();
  return std::min(text.find(quoted), text.size());
}

}  // namespace tutti
