#include "tools/trace/event_file.h"

#include "base/formatted.h"

namespace tutti::analysis {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr std::size_t kNone = std::string_view::npos;

// Behind the string that begins at `at`; none where it does not end.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return kNone;
}

// Behind the value that begins at `at`; none where it does not end.
std::size_t behind_value(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = behind_string(text, at);
      if (at == kNone || depth == 0) return at;
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) return at;  // behind a number or a word
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return at + 1;
    ++at;
  }
  return kNone;
}

}  // namespace

bool nests_too_deep(std::string_view json) {
  std::size_t depth = 0;
  for (std::size_t at = 0; at < json.size();) {
    const char c = json[at];
    if (c == '"') {
      at = behind_string(json, at);  // beyond the end where it has none
      continue;
    }
    if ((c == '{' || c == '[') && ++depth > kMostNesting) return true;
    if ((c == '}' || c == ']') && depth > 0) --depth;
    ++at;
  }
  return false;
}

EventFile::EventFile(std::string_view text) : text_(text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (text.starts_with("\x1f\x8b"))
    problem_ = "it is compressed; `gunzip -k` it first";
  else if (first != kNone && text[first] == '[')
    read_array(first);
  else if (first != kNone && text[first] == '{')
    read_object();
  else
    problem_ = "it is not JSON";
}

// Up to the array of events member by member, so that neither a string nor a member within another one is taken for it.
void EventFile::read_object() {
  std::size_t at = text_.find('{') + 1;
  while (true) {
    at = text_.find_first_not_of(" \t\r\n,", at);
    if (at == kNone || text_[at] != '"') break;
    const std::size_t key_end = behind_string(text_, at);
    if (key_end == kNone) break;
    const std::string_view key = text_.substr(at, key_end - at);
    const std::size_t colon = text_.find_first_not_of(kBlank, key_end);
    if (colon == kNone || text_[colon] != ':') break;
    const std::size_t value = text_.find_first_not_of(kBlank, colon + 1);
    if (value == kNone) break;
    if (key == "\"traceEvents\"" && text_[value] == '[') {
      read_array(value);
      read_members(std::string(text_.substr(0, value)) + "[]", text_.substr(end_));
      return;
    }
    at = behind_value(text_, value);
    if (at == kNone) break;
  }
  problem_ = Json::accept(text_) ? "it has no traceEvents" : "it is not JSON, and no line of it is an event";
}

// What stands before the array, which is left empty, and what stands behind it.
void EventFile::read_members(const std::string& before, std::string_view behind) {
  if (nests_too_deep(before)) {
    problem_ = "what stands before its events nests too deep";
    return;
  }
  members_ = Json::parse(before + std::string(nests_too_deep(behind) ? "" : behind), nullptr, false);
  if (members_.is_discarded()) {
    whole_ = false;
    members_ = Json::parse(before + "}", nullptr, false);
  }
  if (!members_.is_object()) problem_ = "what stands before its events is not JSON";
}

void EventFile::read_array(std::size_t at) {
  ++at;
  while (true) {
    at = text_.find_first_not_of(" \t\r\n,", at);
    if (at != kNone && text_[at] == ']') {
      end_ = at + 1;
      return;
    }
    const std::size_t end = at == kNone ? kNone : behind_value(text_, at);
    if (end == kNone || end == at) break;  // the end of something else stands where a value should
    events_.push_back(text_.substr(at, end - at));
    at = end;
  }
  whole_ = false;
  end_ = text_.size();
}

std::string what_is_missing(const EventFile& file, std::size_t unreadable, double until_us) {
  std::string words;
  if (!file.is_whole())
    words = formatted("cut off: %zu events are readable, up to %.3f ms", file.size() - unreadable, until_us / 1e3);
  if (unreadable > 0)
    words += formatted("%s%zu event%s cannot be read, and %s left out", words.empty() ? "" : "; ", unreadable,
                       unreadable == 1 ? "" : "s", unreadable == 1 ? "is" : "are");
  return words;
}

}  // namespace tutti::analysis
