#include "topology/presets.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "base/nearest_names.h"
#include "topology/preset_texts.h"
#include "topology/text.h"
#include "tutti/error.h"

namespace tutti::topology {
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
    std::vector<std::string_view> names;
    for (const Preset& preset : presets()) names.push_back(preset.name);
    throw Error(ErrorCode::invalid_argument, none_called("topology", name, names) + "; or name a file");
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
