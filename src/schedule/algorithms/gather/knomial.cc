// K-nomial gather, radix 4: chunks come together along a tree, four times as many in every round.
//
// 16 ranks, root 0 (others by rotation); of 4 the first round alone:
//
//   round 1   0 <--[1]-- 1, <--[2]-- 2, <--[3]-- 3     4 <--[5]-- 5, ...     and so on, everywhere
//   round 2   0 <--[4 .. 7]-- 4, <--[8 .. 11]-- 8, <--[12 .. 15]-- 12
//
// Half the rounds of a binomial tree, with three messages to each rank on their way at once. They wait in scratch; at
// the root they land in the output, once every child was heard.
// Cost: log4 p alpha + f n beta, f = (p-1)/p, n all chunks.
#include <utility>

#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

Program gather_tree(std::string name, const Placement& placement, int radix) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::gather, std::move(name), placement, p, largest_half(p, radix));
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > radix + 1 ? 1 : 0;
  program.hears_first = true;

  const TreePlace place = TreePlace::of(placement, radix);
  const bool root = place.relative == 0;
  const Buffer held = root ? Buffer::output : place.below == 1 ? Buffer::input : Buffer::scratch;
  Lane lane{"tree", false, {}};
  if (held != Buffer::input) lane.steps.push_back(copy_step({own_block(held)}, own_block(Buffer::input)));
  for (int distance = 1; distance < place.below; distance *= radix) {
    for (int child = distance; place.has_child(child, distance); child += distance) {
      lane.steps.push_back(
          copy_step({own_block(held, child, place.below_child(child, distance))}, Operand::slot(Index::plus(child))));
    }
  }
  if (!root) lane.steps.push_back(copy_step({place.parent_slot()}, own_block(held, 0, place.below)));
  program.lanes.push_back(std::move(lane));
  return program;
}

Program knomial_gather(const Placement& placement) { return gather_tree("knomial", placement, kRadix); }

}  // namespace tutti::schedule
