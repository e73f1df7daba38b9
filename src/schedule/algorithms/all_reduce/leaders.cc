// All_reduce by leaders: one rank of each host has the host's sum, and hands out that of all. For short vectors.
//
// 4 ranks on two hosts, leaders 0 and 2:
//
//   rank       0         1      |   2         3
//   inside    01 <------ b      |  23 <------ d           reduce to the leader
//   across    0123 <------------+-> 0123                  all_reduce of the leaders
//   inside    0123 ----> 0123   |  0123 ----> 0123        broadcast from the leader
//
// Hosts first: canonical.
// Cost: m ranks to each of h hosts: 2 lg m (alpha + n beta) inside, lg h (alpha + n beta) across.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program leaders_all_reduce(const Placement& placement) {
  const Levels levels(placement);
  Composition composition(begin_program(Verb::all_reduce, "leaders", placement, 1, 0), 2);

  Stage reduce = levels.from_leader("reduce inside", binomial_reduce);
  reduce.blocks = Levels::runs(1, 1);
  reduce.output = in_plane(0);
  reduce.last = levels.hosts() == 1;
  composition.add(reduce);

  Stage sum = levels.across_leaders("sum across", recursive_doubling_all_reduce);
  sum.blocks = Levels::runs(1, 1);
  sum.input = in_plane(0);
  sum.output = in_plane(1);
  composition.add(sum);

  Stage hand_out = levels.from_leader("hand out", binomial_broadcast);
  hand_out.blocks = Levels::runs(1, 1);
  hand_out.input = in_plane(1);
  hand_out.output = kOutput;
  composition.add(hand_out);
  return composition.finish();
}

}  // namespace tutti::schedule
