#include "topology/json_place.h"

#include <algorithm>
#include <charconv>

namespace tutti::topology {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::size_t behind_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kBlanks, at), text.size());
}

// Behind the string that begins here.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

// Behind the value that begins here.
std::size_t behind_value(std::string_view text, std::size_t at) {
  int depth = 0;
  do {
    if (text[at] == '"') {
      at = behind_string(text, at);
      continue;
    }
    depth += text[at] == '{' || text[at] == '[' ? 1 : text[at] == '}' || text[at] == ']' ? -1 : 0;
    ++at;
  } while (at < text.size() && (depth > 0 || text.find_first_of(",]} \t\r\n", at) != at));
  return at;
}

// The next value in the list or object that the text is in, in which `at` is behind a bracket or a value: none where it
// ends there.
std::size_t next_in(std::string_view text, std::size_t at) {
  at = behind_blanks(text, at);
  if (at < text.size() && text[at] == ',') at = behind_blanks(text, at + 1);
  return at < text.size() && text[at] != ']' && text[at] != '}' ? at : text.size();
}

std::size_t element_of(std::string_view text, std::size_t list, int index) {
  std::size_t at = next_in(text, list + 1);
  for (; index > 0 && at < text.size(); --index) at = next_in(text, behind_value(text, at));
  return at;
}

std::size_t value_of(std::string_view text, std::size_t object, std::string_view key) {
  for (std::size_t at = next_in(text, object + 1); at < text.size();) {
    const std::size_t end = behind_string(text, at);
    const std::size_t value = behind_blanks(text, behind_blanks(text, end) + 1);  // behind the colon
    if (text.substr(at + 1, end - at - 2) == key || value >= text.size()) return value;
    at = next_in(text, behind_value(text, value));
  }
  return text.size();
}

}  // namespace

std::size_t offset_of_value(std::string_view text, std::string_view path) {
  std::size_t found = behind_blanks(text, 0);
  while (!path.empty()) {
    if (path.front() == '.') path.remove_prefix(1);
    std::size_t next = text.size();
    if (path.starts_with('[')) {
      int index = 0;
      std::from_chars(path.data() + 1, path.data() + path.size(), index);
      if (text[found] == '[') next = element_of(text, found, index);
      path.remove_prefix(std::min(path.find(']') + 1, path.size()));
    } else {
      const std::size_t end = std::min(path.find_first_of(".["), path.size());
      if (text[found] == '{') next = value_of(text, found, path.substr(0, end));
      path.remove_prefix(end);
    }
    if (next >= text.size()) break;
    found = next;
  }
  return found;
}

}  // namespace tutti::topology
