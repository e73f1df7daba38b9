#include "engine/sharing.h"

#include <map>

#include "base/rank_list.h"

namespace tutti::engine {
namespace {

using rendezvous::Member;

// Ranks of one host that have the same number; those that have none share nothing.
std::vector<std::vector<int>> groups_by(int Member::*number, const std::vector<Member>& members,
                                        const std::vector<std::vector<int>>& hosts) {
  std::vector<std::vector<int>> groups;
  for (const std::vector<int>& ranks : hosts) {
    std::map<int, std::size_t> index;
    for (const int rank : ranks) {
      const int found = members[static_cast<std::size_t>(rank)].*number;
      if (found < 0) continue;
      const auto [entry, is_new] = index.emplace(found, groups.size());
      if (is_new) groups.emplace_back();
      groups[entry->second].push_back(rank);
    }
  }
  std::erase_if(groups, [](const std::vector<int>& group) { return group.size() < 2; });
  return groups;
}

std::string words_of(const char* what, const std::vector<std::vector<int>>& groups) {
  constexpr std::size_t kMost = 16;
  std::string text = std::string("sharing ") + what + ": ";
  for (std::size_t i = 0; i < groups.size() && i < kMost; ++i) text += (i == 0 ? "" : "; ") + rank_names(groups[i]);
  if (groups.size() > kMost) text += "; and so on in " + std::to_string(groups.size() - kMost) + " more";
  return text;
}

}  // namespace

std::string words_of_sharing(const std::vector<Member>& members, const std::vector<std::vector<int>>& hosts) {
  const auto sockets = groups_by(&Member::package, members, hosts), caches = groups_by(&Member::cache, members, hosts);
  if (sockets.empty() && caches.empty()) return "no two ranks are known to share a socket or a cache";
  if (sockets == caches) return words_of("a socket and its cache", sockets);
  std::string text = sockets.empty() ? "" : words_of("a socket", sockets);
  if (!caches.empty()) text += (text.empty() ? "" : ", ") + words_of("a cache", caches);
  return text;
}

}  // namespace tutti::engine
