// Parallel aggregated trees all_gather (PAT): every chunk goes down a binomial tree of its own, far ranks first.
//
// 4 ranks. Relative to its owner, a chunk goes 0 -> 2, then 0 -> 1 and 2 -> 3; chunks that take the same edge travel
// together, at most 8 of them:
//
//                 rank 0     rank 1     rank 2     rank 3
//   own chunks    0 -> 2, 1  1 -> 3, 2  2 -> 0, 3  3 -> 1, 0      to all children at once
//   distance 1    2 -> 1     3 -> 2     0 -> 3     1 -> 0         what came from distance 2
//
// Bruck's number of rounds, but most bytes go to near ranks, and no message is longer than 8 chunks, however many ranks
// there are. Own chunks go first, so that everybody is heard before anything is written.
// Cost: (lg p + p / 16) alpha + f n beta, f = (p-1)/p, n all chunks.
#include <bit>

#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program pat_all_gather(const Placement& placement) {
  constexpr int kTogether = 8;
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_gather, "pat", placement, p, std::min(kTogether, std::max(1, p / 2 - 1)));
  if (p == 1) return alone(std::move(program));
  program.hears_first = true;

  const int farthest_child = static_cast<int>(std::bit_ceil(static_cast<unsigned>(p)) / 2);
  std::vector<Operand> children;
  for (int distance = farthest_child; distance >= 1; distance /= 2)
    children.push_back(Operand::slot(Index::plus(distance)));
  Lane lane{"trees", false, {copy_step(std::move(children), own_block(Buffer::input))}};
  for (int distance = farthest_child; distance >= 1; distance /= 2) {
    const Operand to = Operand::slot(Index::plus(distance)), from = Operand::slot(Index::plus(-distance));
    lane.steps.push_back(copy_step({own_block(Buffer::output, -distance)}, from));
    // The chunks of ranks 2, 4, 6, ... distances behind this one, which it has by now.
    const int behind = (p - 1 - distance) / (2 * distance);
    for (int first = 1; first <= behind; first += kTogether) {
      const int count = std::min(kTogether, behind - first + 1), stride = 2 * distance;
      const int farthest = stride * (first + count - 1);
      const auto blocks = [&](int offset) {
        return Operand::own(Buffer::output, {Index::plus(offset - farthest), stride, count});
      };
      lane.steps.push_back(copy_step({to}, blocks(0)));
      lane.steps.push_back(copy_step({blocks(-distance)}, from));
    }
  }
  lane.steps.push_back(copy_step({own_block(Buffer::output)}, own_block(Buffer::input)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
