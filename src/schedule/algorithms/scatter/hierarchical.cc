// Hierarchical scatter: to one rank of each host, and from these to the others there (levels.h).
//
// 4 ranks on two hosts, root 0 (others alike):
//
//   across    0 ----------> 2 3            the chunks of a host are one message
//   inside    0 --> 1       2 --> 3
//
// Cost: m ranks to each of h hosts: lg h alpha + (h-1)/h n beta across, lg m alpha + n/h beta inside.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program hierarchical_scatter(const Placement& placement) {
  const Levels levels(placement);
  Composition composition(begin_program(Verb::scatter, "hierarchical", placement, placement.ranks, 0), 1);

  Stage across = levels.across_leaders("across", binomial_scatter);
  across.blocks = levels.of_hosts();
  across.widest = levels.largest();
  across.output = in_plane(0);
  composition.add(across);

  Stage inside = levels.from_leader("inside", binomial_scatter);
  inside.blocks = levels.of_ranks();
  inside.input = in_plane(0);
  inside.output = kOutput;
  composition.add(inside);
  return composition.finish();
}

}  // namespace tutti::schedule
