// Hierarchical reduce_scatter: among the ranks of each host, then across in columns (levels.h).
//
// 4 ranks on two hosts; columns are ranks 0 2 and ranks 1 3:
//
//   rank       0              1         |   2              3
//   inside    0 2 of 01      1 3 of 01  |  0 2 of 23      1 3 of 23     reduce_scatter among the ranks of a host
//   across    0 of all       1 of all   |  2 of all       3 of all      reduce_scatter inside each column
//
// Hosts first, so that a sum crosses once, and canonical.
// Cost: m ranks to each of h hosts: (m-1) alpha + (m-1)/m n beta inside, lg h alpha + (h-1)/h n/m beta across.
#include <bit>

#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {
namespace {

// By halves a link carries one message at a time; hosts that exchange with all others drift, and send to one at once.
Program share_across(const Placement& placement) {
  return std::has_single_bit(static_cast<unsigned>(placement.ranks)) ? recursive_halving_reduce_scatter(placement)
                                                                     : pairwise_reduce_scatter(placement);
}

}  // namespace

Program hierarchical_reduce_scatter(const Placement& placement) {
  const Levels levels(placement);
  Composition composition(begin_program(Verb::reduce_scatter, "hierarchical", placement, placement.ranks, 0),
                          levels.even() ? 1 : 2);

  Stage inside = levels.inside("inside", pairwise_reduce_scatter);
  inside.blocks = levels.of_columns();
  inside.widest = levels.widest_share() * levels.hosts();
  inside.output = in_plane(0);
  inside.last = levels.hosts() == 1;
  composition.add(inside);

  Stage across = levels.across("across", share_across);
  across.blocks = levels.of_hosts_in_column();
  across.widest = levels.widest_share();
  across.input = in_plane(0);
  across.output = levels.even() ? kOutput : in_plane(1);
  composition.add(across);

  if (!levels.even()) {
    Stage hand_out = levels.behind_column("hand out", binomial_scatter);
    hand_out.input = in_plane(1);
    hand_out.output = kOutput;
    composition.add(hand_out);
  }
  return composition.finish();
}

}  // namespace tutti::schedule
