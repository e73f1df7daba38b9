#include "tools/launch/mapping.h"

#include <map>

namespace tutti::tools {

std::vector<std::string_view> map_by_names() {
  return {
#define X(name, meaning) #name,
      TUTTI_MAP_BY(X)
#undef X
  };
}

std::optional<MapBy> map_by_named(std::string_view name) {
  const std::vector<std::string_view> names = map_by_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<MapBy>(i);
  }
  return std::nullopt;
}

std::vector<std::size_t> round_groups(const std::vector<int>& group_of) {
  std::vector<std::vector<std::size_t>> groups;
  std::map<int, std::size_t> index;
  for (std::size_t i = 0; i < group_of.size(); ++i) {
    const auto [entry, is_new] = index.emplace(group_of[i], groups.size());
    if (is_new) groups.emplace_back();
    groups[entry->second].push_back(i);
  }
  std::vector<std::size_t> order;
  for (std::size_t turn = 0; order.size() < group_of.size(); ++turn) {
    for (const std::vector<std::size_t>& group : groups) {
      if (turn < group.size()) order.push_back(group[turn]);
    }
  }
  return order;
}

}  // namespace tutti::tools
