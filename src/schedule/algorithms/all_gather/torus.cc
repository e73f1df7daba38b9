// Torus all_gather: rings along the columns of a grid, then along its rows.
//
// 4 ranks in two rows; columns are ranks 0 2 and ranks 1 3:
//
//   rank       0       1     |   2       3
//   columns   0 2     1 3    |  0 2     1 3        ring all_gather along each column
//   rows      0123    0123   |  0123    0123       ring all_gather along each row
//
// Only neighbours of the grid talk, and the way is as long as its sides. Most bytes go along rows, whose ranks follow
// each other. Cost: a rows of b ranks: (a + b - 2) alpha + f n beta, f = (p-1)/p, n all chunks.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program torus_all_gather(const Placement& placement) {
  Program whole = begin_program(Verb::all_gather, "torus", placement, placement.ranks, 0);
  if (placement.ranks == 1) return alone(std::move(whole));
  const Levels grid(in_grid(placement));
  Composition composition(std::move(whole), 1);

  Stage columns = grid.across("along columns", ring_all_gather);
  columns.level = 1;
  columns.blocks = grid.of_hosts_in_column();
  columns.output = in_plane(0);
  composition.add(columns);

  Stage rows = grid.inside("along rows", ring_all_gather);
  rows.level = 2;
  rows.blocks = grid.of_columns();
  rows.widest = grid.hosts();
  rows.input = in_plane(0);
  rows.output = kOutput;
  composition.add(rows);
  return composition.finish();
}

}  // namespace tutti::schedule
