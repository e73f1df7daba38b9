#include "topology/presets.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "topology/preset_texts.h"
#include "topology/text.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

// Letters to change, leave out or add (Levenshtein).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row.back();
}

std::string nearest_names(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) { return distance(a, name) < distance(b, name); });
  return names[0] + ", " + names[1] + " or " + names[2];
}

}  // namespace

std::string Preset::summary() const {
  const std::size_t begin = std::min(text.find_first_not_of("# "), text.size());
  return text.substr(begin, text.find('\n', begin) - begin);
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> kPresets(std::begin(kPresetTexts), std::end(kPresetTexts));
  return kPresets;
}

Topology find_preset(const std::string& words) {
  const std::size_t colon = std::min(words.find(':'), words.size());
  const std::string name = words.substr(0, colon);
  const auto found =
      std::find_if(presets().begin(), presets().end(), [&](const Preset& preset) { return preset.name == name; });
  if (found == presets().end()) {
    throw Error(ErrorCode::invalid_argument, "there is no topology '" + name + "'; did you mean " +
                                                 nearest_names(name) + "? `tutti topo --list` has all");
  }
  Topology topology = parse_topology(found->text, name);
  if (colon < words.size()) {
    const std::string hosts = words.substr(colon + 1);
    const auto [end, error] = std::from_chars(hosts.data(), hosts.data() + hosts.size(), topology.hosts);
    if (error != std::errc() || end != hosts.data() + hosts.size() || topology.hosts < 1 ||
        topology.hosts > kMostOfAPart)
      throw Error(ErrorCode::invalid_argument,
                  "'" + words + "': behind the colon belongs how many hosts, 1 to " + std::to_string(kMostOfAPart));
  }
  return topology;
}

}  // namespace tutti::topology
