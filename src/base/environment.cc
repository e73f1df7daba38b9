#include "base/environment.h"

#include <unistd.h>

#include <array>
#include <charconv>

#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::array kVariables = {
#define X(name, unset, meaning, secret) Variable{#name, unset, meaning, secret},
    TUTTI_VARIABLES(X)
#undef X
};

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

std::optional<long long> Environment::number(std::string_view name, long long least, long long most) const {
  const auto text = get(name);
  if (!text) return std::nullopt;
  long long value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > most) {
    throw Error(ErrorCode::invalid_argument, std::string(name) + " is '" + *text + "'; it must be a number from " +
                                                 std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

}  // namespace tutti
