// Who wants to be in which group, and the groups that follow from it: every rank computes all of them alike. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti::engine {

// Which of the calls a rank has made.
enum class Kind : std::int32_t { split, subgroup, duplicate, create_group };

std::string name_of(Kind kind);

// What a rank wants; ranks exchange it as it is.
struct SplitRequest {
  Kind kind = Kind::split;
  std::int32_t color = 0;  // negative: no group
  std::int32_t key = 0;
  std::int32_t unused = 0;
  std::uint64_t list = 0;  // of a subgroup: what the list of ranks hashes to
};

// One group, as all ranks of the parent compute it alike.
struct PlannedGroup {
  std::vector<int> members;  // ranks of the parent, by rank of the group

  int size() const { return static_cast<int>(members.size()); }
};

// The group of this rank; empty where it wants none.
PlannedGroup group_of(const std::vector<SplitRequest>& requests, int rank);
// Whether any group has more than one rank.
bool has_company(const std::vector<SplitRequest>& requests);
// The rank that asked for something else than most ranks did, and one of those; or {-1, -1}.
std::pair<int, int> odd_one_of(const std::vector<SplitRequest>& requests);

}  // namespace tutti::engine
