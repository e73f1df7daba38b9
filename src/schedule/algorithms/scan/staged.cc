// Staged scan: the direct one for ordinary buffers, through scratch memory that peers can read and write.
//
// 4 ranks; rank 1 owns column b of everybody's vector:
//
//   in       every rank copies the columns it does not own from its input to its scratch
//   reduce   rank 1 loads b out of its own input and the other ranks' scratch, and stores the results of the other
//            ranks into a second plane of theirs, its own into its output
//   out      every rank copies that plane to its output
//
//   scratch of rank 1:   [ a | . | c | d ]     rank 1's input, read by the owners of the columns
//                        [ a'| . | c'| d']     rank 1's result, written by them
//
// The result of rank 0 is its input, for which it needs nobody. An exclusive scan stores each result one rank further,
// its own into scratch as well, because in place its output is an input that is still needed; it leaves out the last
// input, and rank 0 has no result.
// Cost: 2 alpha + 2 n beta (copies) + 2 n beta + n (1 + lg p / 2) gamma, overlapped over segments.
#include "schedule/algorithms/build.h"
#include "schedule/algorithms/scan/columns.h"

namespace tutti::schedule {
namespace {

enum LaneNumber : int { kIn, kReduce, kOut };
enum Plane : int { kInputs, kResults, kPlanes };

// Where a rank stores its column of the result of `rank`.
Operand result_of(const Placement& placement, int rank, bool exclusive) {
  if (rank != placement.rank) return Operand::window(Index::absolute(rank), Buffer::scratch, block_at(0), kResults);
  return exclusive ? Operand::own(Buffer::scratch, block_at(0), kResults) : own_block(Buffer::output);
}

Lane lane_out(const Placement& placement, bool exclusive, int last_reduction) {
  const int p = placement.ranks;
  if (placement.rank == 0 && exclusive) return {"out", true, {}};
  const std::vector<Wait> own{{Index::plus(0), kIn, 0, 0}, {Index::plus(0), kReduce, last_reduction, 0}};
  if (placement.rank == 0) {
    const Operand input = Operand::own(Buffer::input, all_blocks(p)),
                  output = Operand::own(Buffer::output, all_blocks(p));
    return {"out", true, {copy_step({output}, input, own)}};
  }
  const BlockSet blocks = exclusive ? all_blocks(p) : block_at(1, p - 1);
  std::vector<Wait> reduced = wait_for_others(p, kReduce, last_reduction);
  if (exclusive) reduced.push_back(own.back());
  return {"out",
          true,
          {copy_step({Operand::own(Buffer::output, blocks)}, Operand::own(Buffer::scratch, blocks, kResults),
                     std::move(reduced))}};
}

Program staged(Verb verb, const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_staged(verb, placement, p);
  if (p == 1) return alone(std::move(program));

  const bool exclusive = verb == Verb::exclusive_scan;
  std::vector<Operand> inputs = of_every_rank(placement, Buffer::scratch, block_at(0), own_block(Buffer::input));
  if (exclusive) inputs.pop_back();
  std::vector<std::optional<Operand>> results;
  if (!exclusive) results.push_back(std::nullopt);
  for (int rank = 1; rank < p; ++rank) results.push_back(result_of(placement, rank, exclusive));
  Columns mine = columns(inputs, results, block_at(0), kPlanes);
  const int last = static_cast<int>(mine.steps.size()) - 1;
  program.scratch_planes = mine.planes;

  Lane in{"in", true, {}}, reduce{"reduce", true, std::move(mine.steps)};
  if (!exclusive || placement.rank != p - 1) {
    in.steps = {copy_step({own_block(Buffer::scratch, 1, p - 1)}, own_block(Buffer::input, 1, p - 1),
                          wait_for_others(p, kReduce, last, program.scratch_depth))};
  }
  std::vector<Wait>& ready = reduce.steps.front().waits;
  for (int rank = 0; rank < (exclusive ? p - 1 : p); ++rank) {
    if (rank != placement.rank) ready.push_back({Index::absolute(rank), kIn, 0, 0});
  }
  for (int rank = 1; rank < p; ++rank) ready.push_back({Index::absolute(rank), kOut, 0, program.scratch_depth});
  program.lanes = {std::move(in), std::move(reduce), lane_out(placement, exclusive, last)};
  return program;
}

}  // namespace

Program staged_scan(const Placement& placement) { return staged(Verb::scan, placement); }
Program staged_exclusive_scan(const Placement& placement) { return staged(Verb::exclusive_scan, placement); }

}  // namespace tutti::schedule
