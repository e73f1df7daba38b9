// Hierarchical all_reduce: reduce_scatter inside hosts, all_reduce across in columns, all_gather inside (levels.h).
//
// 4 ranks on two hosts, blocks 0 1; columns are ranks 0 2 and ranks 1 3:
//
//   rank       0         1      |   2         3
//   inside    0 of 01   1 of 01 |  0 of 23   1 of 23      reduce_scatter among the ranks of a host
//   across    0 of all <--------+-> 0 of all              all_reduce inside each column
//                       1 of all <---------> 1 of all
//   inside    0 1       0 1     |  0 1       0 1          all_gather among the ranks of a host
//
// Hosts first, so that a sum crosses once, and canonical. Segments follow each other through the three, which are busy
// at once. Across it is halving and doubling, or where the hosts are no power of two reduce_scatter and all_gather.
// Cost: m ranks to each of h hosts: 2(m-1) alpha + 2 (m-1)/m n beta inside, 2 lg h alpha (2(h-1) alpha where h is no
// power of two) + 2 (h-1)/h n/m beta across.
#include <bit>

#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {
namespace {

bool are_power_of_two(int hosts) { return std::has_single_bit(static_cast<unsigned>(hosts)); }

// By halves there are as many blocks as halving makes; else one for each host.
int blocks_of_column(int hosts) {
  return are_power_of_two(hosts) ? recursive_halving_all_reduce({hosts}).blocks : hosts;
}

// From the first plane to the second.
void sum_across(Composition& composition, const Levels& levels, const StageBlocks& blocks) {
  if (are_power_of_two(levels.hosts())) {
    Stage sum = levels.across("sum across", recursive_halving_all_reduce);
    sum.blocks = blocks;
    sum.input = in_plane(0);
    sum.output = in_plane(1);
    return composition.add(sum);
  }
  Stage share = levels.across("reduce across", pairwise_reduce_scatter);
  share.blocks = blocks;
  share.input = in_plane(0);
  share.output = in_plane(1);
  composition.add(share);

  Stage gather = levels.across("gather across", ring_all_gather);
  gather.blocks = blocks;
  gather.input = gather.output = in_plane(1);
  composition.add(gather);
}

}  // namespace

Program hierarchical_all_reduce(const Placement& placement) {
  const Levels levels(placement);
  const int width = blocks_of_column(levels.hosts());
  Composition composition(begin_program(Verb::all_reduce, "hierarchical", placement, levels.columns() * width, 0), 2);
  const StageBlocks columns = Levels::runs(levels.columns(), width);  // ranks beyond them have nothing of their own

  Stage reduce = levels.inside("reduce inside", pairwise_reduce_scatter);
  reduce.blocks = columns;
  reduce.widest = width;
  reduce.output = in_plane(0);
  reduce.last = levels.hosts() == 1;
  composition.add(reduce);

  sum_across(composition, levels, Levels::runs(width, 1, levels.local() * width));

  Stage gather = levels.inside("gather inside", ring_all_gather);
  gather.blocks = columns;
  gather.widest = width;
  gather.input = in_plane(1);
  gather.output = kOutput;
  composition.add(gather);
  return composition.finish();
}

}  // namespace tutti::schedule
