#include "engine/groups/split_request.h"

#include <algorithm>
#include <set>

namespace tutti::engine {

std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::split: return "split";
    case Kind::subgroup: return "subgroup";
    case Kind::duplicate: return "duplicate";
    case Kind::create_group: break;
  }
  return "create_group";
}

PlannedGroup group_of(const std::vector<SplitRequest>& requests, int rank) {
  PlannedGroup group;
  const auto request = [&](int member) -> const SplitRequest& { return requests[static_cast<std::size_t>(member)]; };
  if (request(rank).color < 0) return group;
  for (int member = 0; member < static_cast<int>(requests.size()); ++member) {
    if (request(member).color != request(rank).color) continue;
    group.members.push_back(member);
  }
  std::stable_sort(group.members.begin(), group.members.end(),
                   [&](int a, int b) { return request(a).key < request(b).key; });
  return group;
}

bool has_company(const std::vector<SplitRequest>& requests) {
  std::set<int> colors;
  const auto seen = [&](const SplitRequest& request) {
    return request.color >= 0 && !colors.insert(request.color).second;
  };
  return std::any_of(requests.begin(), requests.end(), seen);
}

std::pair<int, int> odd_one_of(const std::vector<SplitRequest>& requests) {
  const auto alike = [](const SplitRequest& a, const SplitRequest& b) { return a.kind == b.kind && a.list == b.list; };
  const auto like_first = [&](const SplitRequest& request) { return alike(request, requests.front()); };
  if (std::all_of(requests.begin(), requests.end(), like_first)) return {-1, -1};
  std::size_t usual = 0;
  std::ptrdiff_t most = 0;
  for (std::size_t rank = 0; rank < requests.size(); ++rank) {
    const auto same = std::count_if(requests.begin(), requests.end(),
                                    [&](const SplitRequest& other) { return alike(other, requests[rank]); });
    if (same <= most) continue;
    usual = rank;
    most = same;
  }
  const auto odd = std::find_if_not(requests.begin(), requests.end(),
                                    [&](const SplitRequest& request) { return alike(request, requests[usual]); });
  return {static_cast<int>(odd - requests.begin()), static_cast<int>(usual)};
}

}  // namespace tutti::engine
