// Hierarchical reduce: to one rank of each host, and from these to the root (levels.h).
//
// 4 ranks on two hosts, root 0 (others alike):
//
//   inside    0 <-- 1       2 <-- 3       01 and 23
//   across    0 <---------- 2             0123
//
// Hosts first, so that a sum crosses once, and canonical. Cost: m ranks to each of h hosts: lg m (alpha + n beta)
// inside, 2 lg h alpha + 2 (h-1)/h n beta across.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program hierarchical_reduce(const Placement& placement) {
  const Levels levels(placement);
  const int width = recursive_halving_reduce({levels.hosts()}).blocks;
  Composition composition(begin_program(Verb::reduce, "hierarchical", placement, width, 0), 1);

  Stage inside = levels.from_leader("inside", binomial_reduce);
  inside.blocks = Levels::runs(1, width);
  inside.widest = width;
  inside.output = in_plane(0);
  inside.last = levels.hosts() == 1;
  composition.add(inside);

  Stage across = levels.across_leaders("across", recursive_halving_reduce);
  across.blocks = Levels::runs(width, 1);
  across.input = in_plane(0);
  across.output = kOutput;
  composition.add(across);
  return composition.finish();
}

}  // namespace tutti::schedule
