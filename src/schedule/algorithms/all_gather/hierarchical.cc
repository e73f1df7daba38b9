// Hierarchical all_gather: around the hosts in columns, then around the ranks of each host (levels.h).
//
// 4 ranks on two hosts; columns are ranks 0 2 and ranks 1 3:
//
//   rank       0       1     |   2       3
//   across    0 2     1 3    |  0 2     1 3        all_gather inside each column
//   inside    0123    0123   |  0123    0123       all_gather among the ranks of a host
//
// Cost: m ranks to each of h hosts: (h-1) alpha + (h-1)/h n/m beta across, (m-1) alpha + (m-1)/m n beta inside.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program hierarchical_all_gather(const Placement& placement) {
  const Levels levels(placement);
  Composition composition(begin_program(Verb::all_gather, "hierarchical", placement, placement.ranks, 0),
                          levels.even() ? 1 : 2);
  if (!levels.even()) {
    Stage collect = levels.behind_column("collect", binomial_gather);
    collect.output = in_plane(1);
    composition.add(collect);
  }

  Stage across = levels.across("across", ring_all_gather);
  across.blocks = levels.of_hosts_in_column();
  across.widest = levels.widest_share();
  across.input = levels.even() ? kInput : in_plane(1);
  across.output = in_plane(0);
  composition.add(across);

  Stage inside = levels.inside("inside", ring_all_gather);
  inside.blocks = levels.of_columns();
  inside.widest = levels.widest_share() * levels.hosts();
  inside.input = in_plane(0);
  inside.output = kOutput;
  composition.add(inside);
  return composition.finish();
}

}  // namespace tutti::schedule
