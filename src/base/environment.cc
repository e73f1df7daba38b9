#include "base/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::array kVariables = {
#define X(name, unset, values, meaning, secret) Variable{#name, unset, values, meaning, secret},
    TUTTI_VARIABLES(X)
#undef X
};

std::string_view values_of(std::string_view name) {
  const auto row = std::find_if(kVariables.begin(), kVariables.end(), [&](const auto& it) { return it.name == name; });
  return row == kVariables.end() ? std::string_view() : row->values;
}

// The value as a number, if it is one and nothing else.
std::optional<long long> read_number(std::string_view text) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool allows(std::string_view values, std::string_view value) {
  if (values.empty()) return true;
  if (const std::size_t dots = values.find(".."); dots != std::string_view::npos) {
    const auto number = read_number(value);
    return number && *number >= read_number(values.substr(0, dots)) && *number <= read_number(values.substr(dots + 2));
  }
  for (std::size_t at = 0; at <= values.size();) {
    const std::size_t end = std::min(values.find('|', at), values.size());
    if (values.substr(at, end - at) == value) return true;
    at = end + 1;
  }
  return false;
}

std::string in_words(std::string_view values) {
  std::string text;
  if (const std::size_t dots = values.find(".."); dots != std::string_view::npos) {
    return "it must be a number from " + std::string(values.substr(0, dots)) + " to " +
           std::string(values.substr(dots + 2));
  }
  for (const char letter : values) text += letter == '|' ? std::string(", ") : std::string(1, letter);
  return "it may be: " + text;
}

}  // namespace

std::span<const Variable> variables() { return kVariables; }

Environment Environment::of_process() {
  std::map<std::string, std::string, std::less<>> values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(values));
}

Environment Environment::take_of_process() {
  static std::mutex mutex;
  static std::map<std::string, std::string, std::less<>> taken;
  const std::lock_guard lock(mutex);
  const Environment all = of_process();
  for (const Variable& variable : kVariables) {
    const std::string name(variable.name);
    char* value = variable.secret ? ::getenv(name.c_str()) : nullptr;
    if (value == nullptr) continue;
    if (const auto set = all.get(name)) taken[name] = *set;
    // The block that the process was started with can be read in /proc as long as it lives.
    std::memset(value, 0, std::strlen(value));
    ::unsetenv(name.c_str());
  }
  return all.with_defaults(taken);
}

Environment Environment::with_defaults(const std::map<std::string, std::string, std::less<>>& values) const {
  Environment merged = *this;
  for (const auto& [name, value] : values) {
    if (!value.empty() && !get(name)) merged.values_[name] = value;
  }
  return merged;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<std::string> Environment::word(std::string_view name) const {
  const auto value = get(name);
  const std::string_view values = values_of(name);
  if (value && !allows(values, *value)) {
    throw Error(ErrorCode::invalid_argument, std::string(name) + " is '" + *value + "'; " + in_words(values));
  }
  return value;
}

std::optional<long long> Environment::number(std::string_view name) const {
  const auto text = word(name);
  return text ? read_number(*text) : std::nullopt;
}

std::string Environment::cache_folder() const {
  if (const auto caches = get("XDG_CACHE_HOME")) return *caches + "/tutti";
  const auto home = get("HOME");
  return home ? *home + "/.cache/tutti" : "";
}

}  // namespace tutti
