#include "schedule/stage_blocks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tutti::schedule {
namespace {

// `count` blocks in runs of `run`, whose first ones are `stride` apart; runs that touch are one.
BlockSet in_runs(int first, int stride, int count, int run) {
  if (count <= run || stride == run) return {Index::absolute(first), 1, count, 1};
  return {Index::absolute(first), stride, count, run};
}

}  // namespace

BlockSet StageBlocks::of(const BlockSet& set, const Program& part) const {
  BlockSet counted;
  return count_of(set, part, counted) ? counted : set_of(list_of(set, part));
}

// What set_of makes of the list, without making one. False where that takes a look at every block.
bool StageBlocks::count_of(const BlockSet& set, const Program& part, BlockSet& counted) const {
  if (lists_ != nullptr || !set.list.empty() || set.count == 0) return false;
  const int first = set.first.resolve(part.rank, part.blocks);
  // Neither the other way nor around the end, nor one that stands for nothing.
  const int last = first + (set.count - 1) / set.run * set.stride + (set.count - 1) % set.run;
  if (set.stride < set.run || first < 0 || last >= std::min(counted_.count, part.blocks)) return false;
  const int begin = counted_.first + first * counted_.step;
  const int width = counted_.width, count = set.count * width;
  const bool neighbours = set.count <= set.run || set.stride == set.run;
  if (set.count == 1) {
    counted = in_runs(begin, counted_.stride, width, 1);
  } else if (width > 1 && counted_.stride != 1) {
    return false;
  } else if (width == counted_.step) {
    counted = neighbours ? in_runs(begin, 1, count, count) : in_runs(begin, set.stride * width, count, set.run * width);
  } else if (neighbours || set.run == 1) {
    counted = in_runs(begin, (neighbours ? 1 : set.stride) * counted_.step, count, width);
  } else {
    return false;
  }
  return true;
}

int StageBlocks::width_of(int block) const {
  if (lists_ != nullptr) return static_cast<int>((*lists_)[static_cast<std::size_t>(block)].size());
  return block < counted_.count ? counted_.width : 0;
}

bool StageBlocks::nothing_of(const BlockSet& set, const Program& part) const {
  for (int i = 0; i < set.count; ++i)
    if (width_of(set.at(i, part.rank, part.blocks)) > 0) return false;
  return true;
}

std::vector<std::int32_t> StageBlocks::list_of(const BlockSet& set, const Program& part) const {
  std::vector<std::int32_t> blocks;
  for (int i = 0; i < set.count; ++i) {
    const int block = set.at(i, part.rank, part.blocks);
    if (lists_ != nullptr) {
      const std::vector<int>& stands_for = (*lists_)[static_cast<std::size_t>(block)];
      blocks.insert(blocks.end(), stands_for.begin(), stands_for.end());
    } else if (block < counted_.count) {
      for (int j = 0; j < counted_.width; ++j)
        blocks.push_back(counted_.first + block * counted_.step + j * counted_.stride);
    }
  }
  return blocks;
}

BlockSet set_of(std::vector<std::int32_t> blocks) {
  const auto count = static_cast<std::int32_t>(blocks.size());
  if (count == 0) return {};
  std::int32_t run = 1;
  while (run < count && blocks[static_cast<std::size_t>(run)] == blocks[0] + run) ++run;
  const std::int32_t stride = run == count ? 1 : blocks[static_cast<std::size_t>(run)] - blocks[0];
  const BlockSet counted{Index::absolute(blocks[0]), stride, count, run == count ? 1 : run};
  for (std::int32_t i = 0; i < count; ++i) {
    if (blocks[static_cast<std::size_t>(i)] != blocks[0] + i / counted.run * stride + i % counted.run)
      return {Index::absolute(0), 1, count, 1, std::move(blocks)};
  }
  return counted;
}

}  // namespace tutti::schedule
