// Torus all_reduce: rings along the rows of a grid, then along its columns, and back along the rows.
//
// 4 ranks in two rows, blocks 0 1 2 3; columns are ranks 0 2 and ranks 1 3:
//
//   rank       0           1      |   2           3
//   rows      01 of 01    23 of 01 |  01 of 23    23 of 23      ring reduce_scatter along each row
//   columns   01 of all <---------+-> 01 of all                 ring all_reduce along each column
//                         23 of all <-----------> 23 of all
//   rows      0123        0123    |  0123        0123           ring all_gather along each row, the other way round
//
// Each byte moves as often as around one ring, between neighbours of a grid only, and the way is as long as its sides.
// Segments follow each other through the three, which are busy at once. Its order is its own.
// Cost: a rows of b ranks: 2 (a + b - 2) alpha + 2f n beta + f n gamma, f = (p-1)/p.
#include <algorithm>

#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program torus_all_reduce(const Placement& placement) {
  Program whole = begin_program(Verb::all_reduce, "torus", placement, placement.ranks, 0);
  if (placement.ranks == 1) return alone(std::move(whole));
  const Levels grid(in_grid(placement));
  const int rows = grid.hosts(), columns = grid.columns();
  Composition composition(std::move(whole), 2);

  Stage reduce = grid.inside("reduce along rows", ring_reduce_scatter);
  reduce.level = 1;
  reduce.blocks = Levels::runs(columns, rows);
  reduce.widest = rows;
  reduce.output = in_plane(0);
  reduce.last = false;
  composition.add(reduce);

  Stage sum = grid.across("sum along columns", ring_all_reduce);
  sum.level = 2;
  sum.blocks = Levels::runs(rows, 1, grid.local() * rows);
  sum.input = in_plane(0);
  sum.output = in_plane(1);
  composition.add(sum);

  Stage gather = grid.inside("gather along rows", ring_all_gather);
  std::ranges::reverse(gather.members);
  gather.level = columns > 2 ? 3 : reduce.level;  // the other way round the edges are others, but for two ranks
  gather.blocks = StageBlocks({.count = columns, .first = (columns - 1) * rows, .step = -rows, .width = rows});
  gather.widest = rows;
  gather.input = in_plane(1);
  gather.output = kOutput;
  composition.add(gather);
  return composition.finish();
}

}  // namespace tutti::schedule
