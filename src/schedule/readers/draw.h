// Draw: a collective as it plays, round by round: who sends what to whom, and what every rank then holds.
//
//   round 2  reduce  0→1 [3]  1→2 [0]  2→3 [1]  3→0 [2]
//                    block 0   block 1   block 2   block 3
//     rank 0         0         0         0‹23      0
//     rank 1         1         1         1         1‹03
//
// Rank 0 holds its own input of block 2, and a message with ranks 2 and 3 summed has arrived for it. A result is marked
// when it is complete. Where a cell for each block does not fit the columns, a bar per block shows how many ranks'
// input it holds.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "schedule/lower.h"

namespace tutti::schedule {

struct DrawOptions {
  std::size_t columns = 100;
};

std::string draw(std::span<const Lowered> programs, const DrawOptions& options = {});

}  // namespace tutti::schedule
