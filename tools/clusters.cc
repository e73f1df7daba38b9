#include "tools/clusters.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <utility>

#include "tools/verbs.h"
#include "topology/json.h"
#include "topology/presets.h"
#include "topology/text.h"

namespace tutti::tools {

topology::Topology find_topology(const std::string& words) {
  std::error_code unreadable;  // such as a name that is too long for a file
  const std::filesystem::file_status status = std::filesystem::status(words, unreadable);
  if (!std::filesystem::exists(status) || std::filesystem::is_directory(status)) return topology::find_preset(words);
  constexpr std::size_t kMostBytes = 1 << 20;
  std::ifstream file(words);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (text.empty() || text.size() == kMostBytes) refuse(fmt::format("{} is no file with a topology", words));
  const bool json = text.find_first_not_of(" \t\r\n") == text.find('{');
  return json ? topology::topology_from_json(text, words) : topology::parse_topology(text, words);
}

std::vector<std::size_t> parts_from_below(const topology::Topology& topology) {
  std::vector<int> levels(topology.parts.size(), 0);
  for (const topology::LinkKind& kind : topology.links) {
    if (kind.pattern == topology::Pattern::mesh) continue;
    int& upper = levels[static_cast<std::size_t>(kind.upper)];
    upper = std::max(upper, levels[static_cast<std::size_t>(kind.lower)] + 1);
  }
  std::vector<std::size_t> order(levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) { return std::pair(!topology.parts[i].in_host(), levels[i]); };
  std::ranges::stable_sort(order, [&](std::size_t x, std::size_t y) { return key(x) < key(y); });
  return order;
}

std::string rounded_bandwidth(double bytes_per_s) {
  if (bytes_per_s >= 1e12) return fmt::format("{:.4g} TB/s", bytes_per_s / 1e12);
  return bytes_per_s >= 1e9 ? fmt::format("{:.4g} GB/s", bytes_per_s / 1e9)
                            : fmt::format("{:.4g} MB/s", bytes_per_s / 1e6);
}

std::string rounded_time(double seconds) {
  if (seconds >= 1) return fmt::format("{:.4g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.4g} ms", seconds * 1e3) : fmt::format("{:.4g} us", seconds * 1e6);
}

}  // namespace tutti::tools
