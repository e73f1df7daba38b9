// Staged all_reduce: the direct algorithm for ordinary buffers, through scratch memory that peers can read.
//
// Three lanes interleave, segment by segment, so that copies and reductions overlap; scratch is two segments deep.
// 4 ranks, chunks a b c d; rank 1 owns chunk b:
//
//   in       every rank copies the chunks it does not own from its input to its scratch
//   reduce   rank 1 reduces b out of its own input and the other ranks' scratch, in canonical order,
//            into its output and into its own scratch (where b was left free)
//   out      every rank copies the other chunks from their owners' scratch to its output
//
//   scratch of rank 1:   [ a | b' | c | d ]     a c d: rank 1's input, read by their owners; b': result, read by all
//
// Moves about 5 n bytes per rank. Cost: 2 alpha + 2 f n beta (copies) + n beta + f n gamma, overlapped over segments.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum LaneNumber : int { kIn, kReduce, kOut };

}  // namespace

Program staged_all_reduce(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_staged(Verb::all_reduce, placement, p);
  if (p == 1) return alone(std::move(program));

  const BlockSet mine{Index::plus(0), 1, 1};
  const BlockSet others{Index::plus(1), 1, p - 1};
  // Scratch is free again when all peers have reduced and copied out the segment that used it. The right neighbour's
  // end of both tells: its out lane has waited for everybody's reduction, and everybody waits for its own neighbour.
  const Index right = Index::plus(1);
  const std::vector<Wait> scratch_free{{right, kReduce, 0, program.scratch_depth},
                                       {right, kOut, p - 2, program.scratch_depth}};
  std::vector<Wait> all_in;
  for (int distance = 0; distance < p; ++distance) all_in.push_back({Index::plus(distance), kIn, 0, 0});
  const std::vector<Operand> contributions =
      of_every_rank(placement, Buffer::scratch, mine, Operand::own(Buffer::input, mine));

  Lane in{"in",
          true,
          {copy_step({Operand::own(Buffer::scratch, others)}, Operand::own(Buffer::input, others), scratch_free)}};
  Lane reduce{"reduce",
              true,
              {reduce_step({Operand::own(Buffer::output, mine), Operand::own(Buffer::scratch, mine)}, contributions,
                           true, all_in)}};
  Lane out{"out", true, {}};
  for (int distance = 1; distance < p; ++distance) {
    const BlockSet theirs{Index::plus(distance), 1, 1};
    out.steps.push_back(copy_step({Operand::own(Buffer::output, theirs)},
                                  Operand::window(Index::plus(distance), Buffer::scratch, theirs),
                                  {{Index::plus(distance), kReduce, 0, 0}}));
  }
  program.lanes = {std::move(in), std::move(reduce), std::move(out)};
  return program;
}

}  // namespace tutti::schedule
