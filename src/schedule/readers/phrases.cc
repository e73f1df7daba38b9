#include "schedule/readers/phrases.h"

#include <algorithm>
#include <utility>

namespace tutti::schedule {
namespace {

constexpr std::size_t kShortestRun = 3;  // two are listed, three or more are told by their ends

bool follows(const Index& next, const Index& index) {
  return next.base == index.base && index.base != Index::Base::exclusive_or && next.value == index.value + 1;
}

bool same_but_rank(Operand a, const Operand& b) {
  a.rank = b.rank;
  return a == b;
}

// How many items from `begin` on are the same of consecutive ranks.
template <class Same>
std::size_t run_from(std::size_t begin, std::size_t size, Same&& continues) {
  std::size_t end = begin + 1;
  while (end < size && continues(end)) ++end;
  return end - begin >= kShortestRun ? end - begin : 1;
}

std::string phrase_of_run(const Index& first, const Index& last) {
  return first == last ? phrase_of(first) : phrase_of(first) + "…" + phrase_of(last);
}

std::string phrase_of_ranks(const std::vector<Index>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    const std::size_t run =
        run_from(i, ranks.size(), [&](std::size_t at) { return follows(ranks[at], ranks[at - 1]); });
    text += (text.empty() ? "" : ", ") + phrase_of_run(ranks[i], ranks[i + run - 1]);
    i += run;
  }
  return text;
}

std::string phrase_of(const Operand& operand, const Index& last_rank, Side side, int blocks) {
  const std::string ranks = phrase_of_run(operand.rank, last_rank);
  if (is_slot(operand)) {
    return (side == Side::destination ? "→" : "←") + ranks +
           (operand.channel != 0 ? "." + std::to_string(operand.channel) : "");
  }
  std::string text(name_of(operand.buffer));
  if (operand.plane != 0) text += "." + std::to_string(operand.plane);
  if (operand.kind == Operand::Kind::window) text += "@" + ranks;
  return text + phrase_of(operand.blocks, blocks);
}

// "reduce.0"; lanes have the same names on all ranks of a collective.
std::string phrase_of_place(const Wait& wait, const Program& program) {
  if (wait.lane == Wait::kEntryLane) return "entry";
  const auto lane = static_cast<std::size_t>(wait.lane);
  const std::string name = lane < program.lanes.size() ? program.lanes[lane].name : "lane " + std::to_string(wait.lane);
  return name + "." + std::to_string(wait.step);
}

// [0, 3-5, 8]
std::string phrase_of_list(std::span<const std::int32_t> list) {
  std::string text;
  for (std::size_t i = 0; i < list.size();) {
    const std::size_t run = run_from(i, list.size(), [&](std::size_t at) { return list[at] == list[at - 1] + 1; });
    text += (text.empty() ? "" : ", ") + std::to_string(list[i]);
    if (run > 1) text += (run == 2 ? ", " : "-") + std::to_string(list[i + run - 1]);
    i += run;
  }
  return "[" + text + "]";
}

}  // namespace

std::string phrase_of(const Index& index) {
  switch (index.base) {
    case Index::Base::absolute: return std::to_string(index.value);
    case Index::Base::plus:
      if (index.value == 0) return "rank";
      return (index.value > 0 ? "rank+" : "rank") + std::to_string(index.value);
    case Index::Base::exclusive_or: return "rank^" + std::to_string(index.value);
  }
  return {};
}

std::string phrase_of(const BlockSet& blocks, int blocks_of_program) {
  if (!blocks.list.empty()) return phrase_of_list(blocks.list);
  const bool all = blocks.stride == 1 && blocks.count == blocks_of_program && blocks.first == Index::absolute(0);
  if (all) return {};
  const auto nth = [&](int i) {
    const int offset = i / blocks.run * blocks.stride + i % blocks.run;
    if (i == 0 || blocks.first.base != Index::Base::exclusive_or) {
      return phrase_of(Index{blocks.first.base, blocks.first.value + offset});
    }
    return phrase_of(blocks.first) + "+" + std::to_string(offset);
  };
  if (blocks.count == 1) return "[" + nth(0) + "]";
  if (blocks.count == 2) return "[" + nth(0) + ", " + nth(1) + "]";
  const std::string end = "…" + nth(blocks.count - 1) + "]";
  if (blocks.run > 1 && blocks.run < blocks.count) return "[" + nth(0) + ", " + nth(1) + "; " + nth(blocks.run) + end;
  const bool neighbours = blocks.run > 1 || blocks.stride == 1;
  return "[" + nth(0) + (neighbours ? "" : ", " + nth(1)) + end;
}

std::string phrase_of(std::span<const Operand> operands, Side side, int blocks_of_program) {
  std::string text;
  for (std::size_t i = 0; i < operands.size();) {
    const std::size_t run = run_from(i, operands.size(), [&](std::size_t at) {
      return same_but_rank(operands[at], operands[i]) && follows(operands[at].rank, operands[at - 1].rank);
    });
    const Index last = operands[i + run - 1].rank;
    text += (text.empty() ? "" : ", ") + phrase_of(operands[i], last, side, blocks_of_program);
    i += run;
  }
  return text;
}

std::vector<std::string> phrases_of(std::span<const Wait> waits, const Program& program) {
  std::vector<std::pair<Wait, std::vector<Index>>> conditions;  // waits that differ only in their rank, and the ranks
  for (const Wait& wait : waits) {
    const auto same = [&](const auto& entry) {
      const Wait& other = entry.first;
      return other.lane == wait.lane && other.step == wait.step && other.segments_back == wait.segments_back;
    };
    const auto found = std::find_if(conditions.begin(), conditions.end(), same);
    if (found == conditions.end()) {
      conditions.push_back({wait, {wait.rank}});
    } else {
      found->second.push_back(wait.rank);
    }
  }
  std::vector<std::string> phrases;
  for (const auto& [wait, ranks] : conditions) {
    std::string phrase = phrase_of_place(wait, program) + " of " + phrase_of_ranks(ranks);
    if (wait.segments_back != 0) {
      phrase +=
          ", " + std::to_string(wait.segments_back) + (wait.segments_back == 1 ? " segment back" : " segments back");
    }
    phrases.push_back(std::move(phrase));
  }
  return phrases;
}

}  // namespace tutti::schedule
