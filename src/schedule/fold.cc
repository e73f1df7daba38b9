#include "schedule/fold.h"

#include "tutti/error.h"

namespace tutti::schedule {
namespace {

bool same_text(const Program& a, const Program& b) {
  return a.scratch_planes == b.scratch_planes && a.scratch_depth == b.scratch_depth && a.lanes == b.lanes;
}

bool same_collective(const Lowered& a, const Lowered& b) {
  return a.program.verb == b.program.verb && a.program.algorithm == b.program.algorithm &&
         a.program.ranks == b.program.ranks && a.program.root == b.program.root &&
         a.program.blocks == b.program.blocks && a.program.message_blocks == b.program.message_blocks &&
         a.program.hears_first == b.program.hears_first && a.program.channels == b.program.channels &&
         a.offers == b.offers && a.segment_bytes == b.segment_bytes;
}

}  // namespace

void require_program_set(std::span<const Lowered> programs) {
  const auto fail = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (programs.empty()) fail("a program set needs at least one rank's program");
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const Program& program = programs[rank].program;
    if (program.rank != static_cast<int>(rank) || program.ranks != static_cast<int>(programs.size())) {
      fail("program " + std::to_string(rank) + " of " + std::to_string(programs.size()) + " is for rank " +
           std::to_string(program.rank) + " of " + std::to_string(program.ranks));
    }
    if (!same_collective(programs[rank], programs[0])) {
      fail("rank " + std::to_string(rank) + " has another verb, algorithm, root, block count or lowering than rank 0");
    }
  }
}

std::vector<std::vector<int>> fold_ranks(std::span<const Lowered> programs) {
  std::vector<std::vector<int>> groups;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    bool found = false;
    for (std::vector<int>& group : groups) {
      found = same_text(programs[static_cast<std::size_t>(group.front())].program, programs[rank].program);
      if (found) {
        group.push_back(static_cast<int>(rank));
        break;
      }
    }
    if (!found) groups.push_back({static_cast<int>(rank)});
  }
  return groups;
}

std::string text_of_ranks(std::span<const int> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (end - i > 1) text += (end - i == 2 ? ", " : "-") + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace tutti::schedule
