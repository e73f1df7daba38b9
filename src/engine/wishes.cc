#include "engine/wishes.h"

#include <algorithm>
#include <set>

#include "base/mix.h"

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

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char letter : text) hash = mix(hash, static_cast<unsigned char>(letter));
  return hash;
}

int Group::rank_of(int parent_rank) const {
  return static_cast<int>(std::find(members.begin(), members.end(), parent_rank) - members.begin());
}

Group group_of(const std::vector<Wish>& wishes, int rank) {
  Group group;
  const auto wish = [&](int member) -> const Wish& { return wishes[static_cast<std::size_t>(member)]; };
  if (wish(rank).color < 0) return group;
  for (int member = 0; member < static_cast<int>(wishes.size()); ++member) {
    if (wish(member).color != wish(rank).color) continue;
    group.members.push_back(member);
    if (wish(member).host != wish(rank).host) group.one_host = false;
  }
  std::stable_sort(group.members.begin(), group.members.end(), [&](int a, int b) { return wish(a).key < wish(b).key; });
  return group;
}

bool has_company(const std::vector<Wish>& wishes) {
  std::set<int> colors;
  const auto seen = [&](const Wish& wish) { return wish.color >= 0 && !colors.insert(wish.color).second; };
  return std::any_of(wishes.begin(), wishes.end(), seen);
}

std::pair<int, int> odd_one_of(const std::vector<Wish>& wishes) {
  const auto alike = [](const Wish& a, const Wish& b) { return a.kind == b.kind && a.list == b.list; };
  const auto like_first = [&](const Wish& wish) { return alike(wish, wishes.front()); };
  if (std::all_of(wishes.begin(), wishes.end(), like_first)) return {-1, -1};
  std::size_t usual = 0;
  std::ptrdiff_t most = 0;
  for (std::size_t rank = 0; rank < wishes.size(); ++rank) {
    const auto same =
        std::count_if(wishes.begin(), wishes.end(), [&](const Wish& other) { return alike(other, wishes[rank]); });
    if (same <= most) continue;
    usual = rank;
    most = same;
  }
  const auto odd =
      std::find_if_not(wishes.begin(), wishes.end(), [&](const Wish& wish) { return alike(wish, wishes[usual]); });
  return {static_cast<int>(odd - wishes.begin()), static_cast<int>(usual)};
}

}  // namespace tutti::engine
