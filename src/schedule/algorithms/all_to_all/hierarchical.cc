// Hierarchical all_to_all: chunks go to the column of their receiver first, then across (levels.h).
//
// 4 ranks on two hosts; columns are ranks 0 2 and ranks 1 3. Chunks from -> to, as rank 0 has them:
//
//   input     0->0 0->1 0->2 0->3
//   inside    0->0 1->0 0->2 1->2         those of its host for its column
//   output    0->0 1->0 2->0 3->0         those for it
//
// Two hosts exchange one message for each pair of ranks in a column, not one for each pair of ranks.
// Cost: m ranks to each of h hosts: (m-1) alpha + (m-1)/m n beta inside, (h-1) alpha + (h-1)/h n beta across.
//
// Where hosts differ in size the columns do not reach all ranks, and each chunk goes straight to its receiver.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/generators.h"
#include "schedule/algorithms/levels.h"

namespace tutti::schedule {

Program hierarchical_all_to_all(const Placement& placement) {
  const Levels levels(placement);
  if (!levels.even()) {
    Program program = spread_out_all_to_all(placement);
    program.algorithm = "hierarchical";
    return program;
  }
  Composition composition(begin_program(Verb::all_to_all, "hierarchical", placement, placement.ranks, 0), 1);

  Stage inside = levels.inside("inside", spread_out_all_to_all);
  inside.blocks = levels.of_columns();
  inside.widest = levels.hosts();
  inside.output = in_plane(0);
  composition.add(inside);

  Stage across = levels.across("across", spread_out_all_to_all);
  across.blocks = levels.of_hosts();
  across.widest = levels.columns();
  across.input = in_plane(0);
  across.output = kOutput;
  composition.add(across);
  return composition.finish();
}

}  // namespace tutti::schedule
