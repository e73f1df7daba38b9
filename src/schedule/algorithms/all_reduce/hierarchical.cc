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
// at once.
// Cost: m ranks to each of h hosts: 2(m-1) alpha + 2 (m-1)/m n beta inside, 2 lg h alpha + 2 (h-1)/h n/m beta across.
#include <bit>

#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {
namespace {

// Hosts in a power of two halve and double; few others exchange with each other, so that nobody moves all of it.
Program sum_across(const Placement& placement) {
  return std::has_single_bit(static_cast<unsigned>(placement.ranks)) ? recursive_halving_all_reduce(placement)
                                                                     : recursive_multiplying_all_reduce(placement);
}

}  // namespace

Program hierarchical_all_reduce(const Placement& placement) {
  const Levels levels(placement);
  const int width = sum_across({levels.hosts()}).blocks;
  Composition composition(begin_program(Verb::all_reduce, "hierarchical", placement, levels.columns() * width, 0), 2);
  const StageBlocks columns = Levels::runs(levels.columns(), width);  // ranks beyond them have nothing of their own

  Stage reduce = levels.inside("reduce inside", pairwise_reduce_scatter);
  reduce.blocks = columns;
  reduce.widest = width;
  reduce.output = in_plane(0);
  reduce.last = levels.hosts() == 1;
  composition.add(reduce);

  Stage sum = levels.across("sum across", sum_across);
  sum.blocks = Levels::runs(width, 1, levels.local() * width);
  sum.input = in_plane(0);
  sum.output = in_plane(1);
  composition.add(sum);

  Stage gather = levels.inside("gather inside", ring_all_gather);
  gather.blocks = columns;
  gather.widest = width;
  gather.input = in_plane(1);
  gather.output = kOutput;
  composition.add(gather);
  return composition.finish();
}

}  // namespace tutti::schedule
