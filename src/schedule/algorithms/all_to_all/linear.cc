// Linear all_to_all: a lane for each peer, on which the two exchange their chunks.
//
//   rank 0      lane 1:  [1] --> 1, then <-- from 1      lane 2:  [2] --> 2, then <-- from 2      lane 3: ...
//
// All lanes run at once, and each has as many segments as its own two chunks need: a rank needs to know no counts but
// its own. Cost: (p-1) alpha + f n beta, f = (p-1)/p, n all chunks. Nothing is written before everybody was heard.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program linear_all_to_all(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_to_all, "linear", placement, p, 1);
  if (p == 1) return alone(std::move(program));
  program.hears_first = true;

  for (int distance = 1; distance < p; ++distance) {
    const Operand peer = Operand::slot(Index::plus(distance));
    program.lanes.push_back({"peer " + std::to_string(distance),
                             false,
                             {copy_step({peer}, own_block(Buffer::input, distance)),
                              copy_step({own_block(Buffer::output, distance)}, peer)}});
  }
  program.lanes.push_back({"keep", false, {copy_step({own_block(Buffer::output)}, own_block(Buffer::input))}});
  return program;
}

}  // namespace tutti::schedule
