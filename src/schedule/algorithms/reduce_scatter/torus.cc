// Torus reduce_scatter: rings along the rows of a grid, then along its columns.
//
// 4 ranks in two rows; columns are ranks 0 2 and ranks 1 3:
//
//   rank       0              1         |   2              3
//   rows      0 2 of 01      1 3 of 01  |  0 2 of 23      1 3 of 23     ring reduce_scatter along each row
//   columns   0 of all       1 of all   |  2 of all       3 of all      ring reduce_scatter along each column
//
// Only neighbours of the grid talk, and the way is as long as its sides. Most bytes go along rows, whose ranks follow
// each other. Its order is its own.
// Cost: a rows of b ranks: (a + b - 2) alpha + f n beta + f n gamma, f = (p-1)/p, n all chunks.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program torus_reduce_scatter(const Placement& placement) {
  Program whole = begin_program(Verb::reduce_scatter, "torus", placement, placement.ranks, 0);
  if (placement.ranks == 1) return alone(std::move(whole));
  const Levels grid(in_grid(placement));
  Composition composition(std::move(whole), 1);

  Stage rows = grid.inside("along rows", ring_reduce_scatter);
  rows.level = 1;
  rows.blocks = grid.of_columns();
  rows.widest = grid.hosts();
  rows.output = in_plane(0);
  rows.last = false;
  composition.add(rows);

  Stage columns = grid.across("along columns", ring_reduce_scatter);
  columns.level = 2;
  columns.blocks = grid.of_hosts_in_column();
  columns.input = in_plane(0);
  columns.output = kOutput;
  composition.add(columns);
  return composition.finish();
}

}  // namespace tutti::schedule
