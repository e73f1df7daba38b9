#include "tools/bench/sizes.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "tutti/error.h"

namespace tutti::bench {
namespace {

constexpr int kMostRanks = 64;  // what the numbers of a check are exact for

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::uint64_t parse_bytes(const std::string& text, const std::string& option) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  for (char& letter : unit) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (unit.ends_with("IB")) unit.resize(unit.size() - 2);
  if (unit.ends_with("B")) unit.resize(unit.size() - 1);
  const std::string_view units = "KMG";
  const std::size_t power = unit.empty() ? 0 : units.find(unit) + 1;  // 0 where it is none of them
  constexpr double kMost = 1LL << 40;
  const bool known = unit.empty() || (unit.size() == 1 && power != 0);
  const double bytes = number * std::pow(1024.0, static_cast<double>(power));
  if (error != std::errc() || !known || !(bytes >= 1 && bytes <= kMost) || bytes != std::floor(bytes)) {
    refuse(fmt::format("{} needs a number of bytes such as 8, 64K or 1.5M, not '{}'", option, text));
  }
  return static_cast<std::uint64_t>(bytes);
}

std::vector<std::string> parse_list(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::vector<int> parse_ranks(const std::string& text, const std::string& option) {
  std::vector<int> ranks;
  const auto add = [&](std::string_view word) {
    const std::optional<int> number = whole_number(word);
    if (!number || *number < 1 || *number > kMostRanks) {
      refuse(fmt::format("{} needs ranks from 1 to {}, as in 4, 2,4,8 or 2..8, not '{}'", option, kMostRanks, text));
    }
    ranks.push_back(*number);
  };
  if (const std::size_t dots = text.find(".."); dots != std::string::npos) {
    add(std::string_view(text).substr(0, dots));
    add(std::string_view(text).substr(dots + 2));
    const int first = ranks.front(), last = ranks.back();
    if (first > last) refuse(fmt::format("{} {} ends before it begins", option, text));
    ranks.clear();
    for (int number = first; number <= last; ++number) ranks.push_back(number);
    return ranks;
  }
  for (const std::string& word : parse_list(text)) add(word);
  if (ranks.empty()) add(text);
  return ranks;
}

std::string text_of_bytes(std::uint64_t bytes) {
  const char* const units[] = {"B", "KB", "MB", "GB"};
  std::size_t unit = 0;
  auto number = static_cast<double>(bytes);
  for (; number >= 1024 && unit + 1 < std::size(units); ++unit) number /= 1024;
  return fmt::format("{:.4g} {}", number, units[unit]);
}

std::vector<std::uint64_t> sizes_of(const Sizes& sizes) {
  if (sizes.begin > sizes.end) {
    refuse(fmt::format("-b is {} and -e is {}: nothing lies between", sizes.begin, sizes.end));
  }
  if (sizes.step == 0 && !(sizes.factor > 1)) refuse(fmt::format("-f must be above 1, not {}", sizes.factor));
  constexpr std::size_t kMost = 10'000;
  std::vector<std::uint64_t> list;
  for (std::uint64_t size = sizes.begin; size <= sizes.end;) {
    list.push_back(size);
    if (list.size() > kMost) refuse(fmt::format("more than {} sizes: use a larger -i or -f", kMost));
    const auto grown = static_cast<std::uint64_t>(static_cast<double>(size) * sizes.factor);
    size = sizes.step != 0 ? size + sizes.step : std::max(size + 1, grown);
  }
  return list;
}

}  // namespace tutti::bench
