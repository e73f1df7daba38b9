#include "rendezvous/launch/hostlist.h"

#include <charconv>
#include <utility>

#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

[[noreturn]] void refuse(std::string_view list, std::string_view what) {
  throw Error(ErrorCode::invalid_argument, "'" + std::string(list) + "' is no list of Slurm's: " + std::string(what));
}

unsigned number_of(std::string_view digits, std::string_view list) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    refuse(list, "'" + std::string(digits) + "' is no number");
  }
  return value;
}

std::string padded(unsigned value, std::size_t width) {
  std::string text = std::to_string(value);
  if (text.size() < width) text.insert(0, width - text.size(), '0');
  return text;
}

// "01-03,7" -> 01 02 03 7. A range keeps the width of its first number.
std::vector<std::string> members_of(std::string_view inside, std::string_view list) {
  std::vector<std::string> members;
  for (;;) {
    const std::size_t comma = inside.find(',');
    const std::string_view part = inside.substr(0, comma);
    const std::size_t dash = part.find('-');
    const std::string_view low_digits = part.substr(0, dash);
    const unsigned low = number_of(low_digits, list);
    const unsigned high = dash == std::string_view::npos ? low : number_of(part.substr(dash + 1), list);
    if (high < low) refuse(list, "the range " + std::string(part) + " runs backwards");
    if (high - low >= kMostHosts - members.size()) refuse(list, "it names too many hosts");
    for (unsigned value = low;; ++value) {
      members.push_back(padded(value, low_digits.size()));
      if (value == high) break;
    }
    if (comma == std::string_view::npos) return members;
    inside.remove_prefix(comma + 1);
  }
}

// The hosts of one pattern, without commas outside of brackets.
std::vector<std::string> expand(std::string_view pattern, std::string_view list) {
  std::vector<std::string> hosts{""};
  while (!pattern.empty()) {
    const std::size_t open = pattern.find('[');
    for (std::string& host : hosts) host += pattern.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = pattern.find(']', open);
    if (close == std::string_view::npos) refuse(list, "a [ is not closed");
    const std::vector<std::string> members = members_of(pattern.substr(open + 1, close - open - 1), list);
    if (hosts.size() * members.size() > kMostHosts) refuse(list, "it names too many hosts");
    std::vector<std::string> longer;
    for (const std::string& host : hosts) {
      for (const std::string& member : members) longer.push_back(host + member);
    }
    hosts = std::move(longer);
    pattern.remove_prefix(close + 1);
  }
  return hosts;
}

}  // namespace

std::vector<std::string> hosts_of(std::string_view list) {
  std::vector<std::string> hosts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const bool last = i == list.size();
    if (!last && (list[i] == '[' || list[i] == ']')) {
      if (inside == (list[i] == '[')) refuse(list, "its brackets do not match");
      inside = !inside;
    }
    if (!last && (inside || list[i] != ',')) continue;
    if (i == begin) refuse(list, "a name is empty");
    for (std::string& host : expand(list.substr(begin, i - begin), list)) hosts.push_back(std::move(host));
    if (hosts.size() > kMostHosts) refuse(list, "it names too many hosts");
    begin = i + 1;
  }
  return hosts;
}

std::vector<int> counts_of(std::string_view list) {
  std::vector<int> counts;
  std::string_view rest = list;
  for (;;) {
    const std::size_t comma = rest.find(',');
    std::string_view part = rest.substr(0, comma);
    unsigned times = 1;
    if (const std::size_t open = part.find("(x"); open != std::string_view::npos) {
      if (!part.ends_with(')')) refuse(list, "a ( is not closed");
      times = number_of(part.substr(open + 2, part.size() - open - 3), list);
      part = part.substr(0, open);
    }
    if (times > kMostHosts - counts.size()) refuse(list, "it names too many hosts");
    counts.insert(counts.end(), times, static_cast<int>(number_of(part, list)));
    if (comma == std::string_view::npos) return counts;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace tutti::rendezvous
