#include "plan/json_places.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace tutti::plan {
namespace {

// Behind the string that begins here.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

}  // namespace

std::optional<std::size_t> place_of_key(std::string_view text, std::string_view key) {
  std::optional<std::size_t> found;
  int depth = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '"') {
      depth += text[at] == '{' || text[at] == '[' ? 1 : text[at] == '}' || text[at] == ']' ? -1 : 0;
      ++at;
      continue;
    }
    const std::size_t end = end_of_string(text, at), next = text.find_first_not_of(" \t\r\n", end);
    const bool is_key = depth == 1 && next != std::string_view::npos && text[next] == ':';
    if (is_key && text.substr(at + 1, end - at - 2) == key) found = at;
    at = end;
  }
  return found;
}

std::optional<std::size_t> place_of_overflow(std::string_view text) {
  constexpr std::string_view kOfNumbers = "+-.0123456789eE";
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at = end_of_string(text, at);
    } else if (text[at] == '-' || (text[at] >= '0' && text[at] <= '9')) {
      const std::size_t end = std::min(text.find_first_not_of(kOfNumbers, at), text.size());
      if (!std::isfinite(std::strtod(std::string(text.substr(at, end - at)).c_str(), nullptr))) return at;
      at = end;
    } else {
      ++at;
    }
  }
  return std::nullopt;
}

}  // namespace tutti::plan
