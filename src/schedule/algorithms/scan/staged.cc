// Staged scan: the direct one for ordinary buffers, through scratch memory that peers can read and write.
//
// 4 ranks; rank 1 owns column b of everybody's vector:
//
//   in       every rank copies the columns it does not own from its input to its scratch
//   reduce   rank 1 loads b out of its own input and the other ranks' scratch, and stores the results of all ranks
//            into a second plane of theirs
//   out      every rank copies that plane to its output
//
//   scratch of rank 1:   [ a | . | c | d ]     rank 1's input, read by the owners of the columns
//                        [ a'| b'| c'| d']     rank 1's result, written by them
//
// An exclusive scan stores each result one rank further, and leaves out the last input; rank 0 has none.
// Cost: 2 alpha + 2 n beta (copies) + 2 n beta + n (1 + lg p / 2) gamma, overlapped over segments.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/scan/columns.h"

namespace tutti::schedule {
namespace {

enum LaneNumber : int { kIn, kReduce, kOut };
enum Plane : int { kInputs, kResults, kPlanes };

std::vector<Wait> wait_for_all(int ranks, int lane, int step, int segments_back = 0) {
  std::vector<Wait> waits = wait_for_others(ranks, lane, step, segments_back);
  waits.push_back({Index::plus(0), lane, step, segments_back});
  return waits;
}

Program staged(Verb verb, const Shape& shape) {
  const int p = shape.ranks;
  Program program = begin_staged(verb, shape, p);
  if (p == 1) return alone(std::move(program));

  const bool exclusive = verb == Verb::exclusive_scan;
  std::vector<Operand> inputs = of_every_rank(shape, Buffer::scratch, block_at(0), own_block(Buffer::input));
  std::vector<Operand> results;
  for (int rank = exclusive ? 1 : 0; rank < p; ++rank) {
    results.push_back(rank == shape.rank
                          ? Operand::own(Buffer::scratch, block_at(0), kResults)
                          : Operand::window(Index::absolute(rank), Buffer::scratch, block_at(0), kResults));
  }
  if (exclusive) inputs.pop_back();
  Columns mine = columns(inputs, results, block_at(0), kPlanes);
  const int last = static_cast<int>(mine.steps.size()) - 1;
  program.scratch_planes = mine.planes;

  Lane in{"in", true, {}}, reduce{"reduce", true, std::move(mine.steps)}, out{"out", true, {}};
  in.steps = {copy_step({own_block(Buffer::scratch, 1, p - 1)}, own_block(Buffer::input, 1, p - 1),
                        wait_for_others(p, kReduce, last, program.scratch_depth))};
  std::vector<Wait>& ready = reduce.steps.front().waits = wait_for_others(p, kIn, 0);
  for (int rank = exclusive ? 1 : 0; rank < p; ++rank)
    ready.push_back({Index::absolute(rank), kOut, 0, program.scratch_depth});
  if (!exclusive || shape.rank != 0) {
    out.steps = {copy_step({Operand::own(Buffer::output, all_blocks(p))},
                           Operand::own(Buffer::scratch, all_blocks(p), kResults), wait_for_all(p, kReduce, last))};
  }
  program.lanes = {std::move(in), std::move(reduce), std::move(out)};
  return program;
}

}  // namespace

Program staged_scan(const Shape& shape) { return staged(Verb::scan, shape); }
Program staged_exclusive_scan(const Shape& shape) { return staged(Verb::exclusive_scan, shape); }

}  // namespace tutti::schedule
