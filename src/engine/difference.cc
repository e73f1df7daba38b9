#include "engine/difference.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/rank_list.h"
#include "engine/call.h"

namespace tutti::engine {
namespace {

// The ranks that made each of the calls that were made at one place in the sequence.
struct Group {
  Statement statement;
  std::vector<int> ranks;
};
using Groups = std::vector<Group>;

void add(Groups& groups, const Statement& statement, int rank) {
  const auto same =
      std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.statement == statement; });
  if (same != groups.end()) {
    same->ranks.push_back(rank);
  } else {
    groups.push_back({statement, {rank}});
  }
}

std::string list_calls(const Groups& groups) {
  std::string text;
  for (const Group& group : groups) {
    text += (text.empty() ? "" : "; ") + rank_names(group.ranks) + " called " + words_of(group.statement);
  }
  return text;
}

int odd_one_out(const Groups& groups) {
  if (groups.size() != 2 || groups[0].ranks.size() + groups[1].ranks.size() < 3) return -1;
  for (const Group& group : groups) {
    if (group.ranks.size() == 1) return group.ranks.front();
  }
  return -1;
}

}  // namespace

Difference difference_between(const Statement& sender, const Statement& receiver) {
  return {list_calls({{sender, {sender.root()}}, {receiver, {receiver.peer()}}}), 0, -1, true};
}

Difference find_difference(int ranks, int collectives, const Stated& stated, std::uint64_t about) {
  std::map<std::uint64_t, Groups> by_sequence;  // collectives
  std::map<int, std::uint64_t> latest;          // by rank
  for (int channel = 0; channel < collectives; ++channel) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Statement statement = stated(channel, rank);
      if (statement.sequence == 0) continue;
      add(by_sequence[statement.sequence], statement, rank);
      latest[rank] = std::max(latest[rank], statement.sequence);
    }
  }
  const auto silent_about = [&](std::uint64_t sequence) {
    const auto spoke =
        std::count_if(latest.begin(), latest.end(), [&](const auto& it) { return it.second >= sequence; });
    return sequence == 0 ? 0 : ranks - static_cast<int>(spoke);
  };
  for (const auto& [sequence, groups] : by_sequence) {
    if (groups.size() > 1) return {list_calls(groups), silent_about(sequence), odd_one_out(groups)};
  }
  // A message differs when its two ends, at the same number in the same direction, do.
  std::map<std::pair<std::uint64_t, std::pair<int, int>>, Groups> messages;
  for (int rank = 0; rank < ranks; ++rank) {
    const Statement statement = stated(collectives, rank);
    if (statement.sequence == 0) continue;
    add(messages[{statement.sequence, {statement.root(), statement.peer()}}], statement, rank);
  }
  for (const auto& [edge, groups] : messages) {
    if (groups.size() > 1) return {list_calls(groups), 0, -1, true};
  }
  Difference none;
  none.silent = silent_about(about);
  return none;
}

}  // namespace tutti::engine
