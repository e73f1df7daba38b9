// K-nomial scatter, radix 4: the root deals the chunks out along a tree, three quarters of what is left in every round.
//
// 16 ranks, root 0 (others by rotation); of 4 the last round alone:
//
//   round 1   0 --[4 .. 7]--> 4, --[8 .. 11]--> 8, --[12 .. 15]--> 12
//   round 2   0 --[1]--> 1, --[2]--> 2, --[3]--> 3     4 --[5]--> 5, ...     and so on, everywhere
//
// Half the rounds of a binomial tree, with three messages of each rank in flight at once. What a rank passes on waits
// in its scratch. Cost: log4 p alpha + f n beta, f = (p-1)/p, n all chunks.
#include <utility>

#include "schedule/algorithms/radix.h"

namespace tutti::schedule {

void add_scatter(Lane& lane, const TreePlace& place, Buffer held) {
  const int radix = place.radix;
  if (place.relative != 0) lane.steps.push_back(copy_step({own_block(held, 0, place.below)}, place.parent_slot()));
  for (int distance = place.reach / radix; distance >= 1; distance /= radix) {
    for (int child = distance; place.has_child(child, distance); child += distance) {
      lane.steps.push_back(
          copy_step({Operand::slot(Index::plus(child))}, own_block(held, child, place.below_child(child, distance))));
    }
  }
}

Program scatter_tree(std::string name, const Placement& placement, int radix) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::scatter, std::move(name), placement, p, largest_half(p, radix));
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > radix + 1 ? 1 : 0;

  const TreePlace place = TreePlace::of(placement, radix);
  const Buffer held = place.relative == 0 ? Buffer::input : Buffer::scratch;
  Lane lane{"tree", false, {}};
  if (place.below == 1) {
    lane.steps.push_back(copy_step({own_block(Buffer::output)}, place.parent_slot()));
    program.lanes.push_back(std::move(lane));
    return program;
  }
  add_scatter(lane, place, held);
  lane.steps.push_back(copy_step({own_block(Buffer::output)}, own_block(held)));
  program.lanes.push_back(std::move(lane));
  return program;
}

Program knomial_scatter(const Placement& placement) { return scatter_tree("knomial", placement, kRadix); }

}  // namespace tutti::schedule
