// Hierarchical broadcast: along a chain of hosts, and down a tree inside each (levels.h).
//
// 4 ranks on two hosts, root 0 (others alike):
//
//   across    0 ----------> 2             one rank of each host
//   inside    0 --> 1       2 --> 3
//
// No host sends the vector to more than one other, and segments flow.
// Cost: m ranks to each of h hosts: (h-1) alpha + n beta across, lg m (alpha + n beta) inside.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program hierarchical_broadcast(const Placement& placement) {
  const Levels levels(placement);
  Composition composition(begin_program(Verb::broadcast, "hierarchical", placement, 1, 0), 0);

  Stage across = levels.across_leaders("across", chain_broadcast);
  across.blocks = Levels::runs(1, 1);
  across.output = kOutput;
  composition.add(across);

  Stage inside = levels.from_leader("inside", binomial_broadcast);
  inside.blocks = Levels::runs(1, 1);
  inside.input = kOutput;
  inside.output = kOutput;
  composition.add(inside);
  return composition.finish();
}

}  // namespace tutti::schedule
