// All_gather by leaders: one rank of each host has the host's chunks, and hands out all of them. For short chunks.
//
// 4 ranks on two hosts, leaders 0 and 2:
//
//   rank       0         1      |   2         3
//   inside    01 <------ 1      |  23 <------ 3           gather to the leader
//   across    0123 <------------+-> 0123                  all_gather of the leaders, the chunks of a host as one
//   inside    0123 ----> 0123   |  0123 ----> 0123        broadcast from the leader
//
// Cost: m ranks to each of h hosts: 2 lg m alpha + (1/h + lg m) n beta inside, lg h alpha + (h-1)/h n beta across.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program leaders_all_gather(const Placement& placement) {
  const Levels levels(placement);
  Composition composition(begin_program(Verb::all_gather, "leaders", placement, placement.ranks, 0), 2);

  Stage collect = levels.from_leader("collect inside", binomial_gather);
  collect.blocks = levels.of_ranks();
  collect.output = in_plane(0);
  composition.add(collect);

  Stage exchange = levels.across_leaders("exchange across", bruck_all_gather);
  exchange.blocks = levels.of_hosts();
  exchange.widest = levels.largest();
  exchange.input = in_plane(0);
  exchange.output = in_plane(1);
  composition.add(exchange);

  Stage hand_out = levels.from_leader("hand out", binomial_broadcast);
  hand_out.blocks = Levels::runs(1, placement.ranks);
  hand_out.widest = placement.ranks;
  hand_out.input = in_plane(1);
  hand_out.output = kOutput;
  composition.add(hand_out);
  return composition.finish();
}

}  // namespace tutti::schedule
