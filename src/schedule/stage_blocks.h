// Which blocks of the whole the blocks of a stage stand for (compose.h).
//
// Counted where they can be, because a stage among thousands of ranks has thousands of blocks, and every rank's program
// names them: block i stands for first + i * step + j * stride, j < width.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "schedule/program.h"

namespace tutti::schedule {

class StageBlocks {
 public:
  using Lists = std::vector<std::vector<int>>;  // by block of the stage

  struct Counted {
    int count = 0;  // blocks of the stage that stand for any
    int first = 0;
    int step = 1;
    int width = 1;
    int stride = 1;
  };

  StageBlocks() = default;
  explicit StageBlocks(Counted counted) : counted_(counted) {}
  explicit StageBlocks(Lists lists) : lists_(std::make_shared<const Lists>(std::move(lists))) {}
  explicit StageBlocks(std::shared_ptr<const Lists> lists) : lists_(std::move(lists)) {}

  // Those that `set` of the program of `part` stands for, in its order.
  BlockSet of(const BlockSet& set, const Program& part) const;
  // The same, one by one.
  std::vector<std::int32_t> list_of(const BlockSet& set, const Program& part) const;
  // Whether there are none.
  bool nothing_of(const BlockSet& set, const Program& part) const;

 private:
  int width_of(int block) const;
  bool count_of(const BlockSet& set, const Program& part, BlockSet& counted) const;

  Counted counted_;
  std::shared_ptr<const Lists> lists_;  // nullptr: counted
};

// The blocks in this order, counted where they can be.
BlockSet set_of(std::vector<std::int32_t> blocks);

}  // namespace tutti::schedule
