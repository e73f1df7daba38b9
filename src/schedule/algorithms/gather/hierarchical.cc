// Hierarchical gather: to one rank of each host, and from these to the root (levels.h).
//
// 4 ranks on two hosts, root 0 (others alike):
//
//   inside    0 <-- 1       2 <-- 3
//   across    0 <---------- 2 3            the chunks of a host are one message
//
// Cost: m ranks to each of h hosts: lg m alpha + n/h beta inside, lg h alpha + (h-1)/h n beta across.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program hierarchical_gather(const Placement& placement) {
  const Levels levels(placement);
  Composition composition(begin_program(Verb::gather, "hierarchical", placement, placement.ranks, 0), 1);

  Stage inside = levels.from_leader("inside", binomial_gather);
  inside.blocks = levels.of_ranks();
  inside.output = in_plane(0);
  composition.add(inside);

  Stage across = levels.across_leaders("across", binomial_gather);
  across.blocks = levels.of_hosts();
  across.widest = levels.largest();
  across.input = in_plane(0);
  across.output = kOutput;
  composition.add(across);
  return composition.finish();
}

}  // namespace tutti::schedule
