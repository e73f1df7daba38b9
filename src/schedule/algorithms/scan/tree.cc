// Tree scan: the total of a block of 2^k ranks goes from its last rank to the block of the same size behind it.
//
//   rank      0          1            2            3
//             a --> 1    ab --> 2,3   c --> 3                  1 has ab, 3 has cd
//                                     (ab)c        (ab)(cd)    in the order of prefixes
//
// All messages go up: nobody waits for a rank above it, so low ranks may run ahead. A rank hears from as many ranks as
// its number has ones, and sends one total, to the next 2^k ranks, k the ones at the end of its number. An exclusive
// scan leaves the rank's own input out of its result, but not out of what it sends.
// Cost: lg p (alpha + n beta + n gamma) at the last rank; p/2 n beta to send at the one in the middle.
#include <bit>

#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum Plane : int { kPrefix, kMessage, kTotal };

Operand scratch(Plane plane) { return Operand::own(Buffer::scratch, all_blocks(1), plane); }
const Operand kInput = Operand::own(Buffer::input, all_blocks(1));
const Operand kOutput = Operand::own(Buffer::output, all_blocks(1));

// The last rank of the block of `distance` ranks before the one that `rank` is in.
Operand last_before(int rank, int distance) { return Operand::slot(Index::absolute(rank / distance * distance - 1)); }

// Those that need the total of the block of `size` ranks that ends with `rank`.
std::vector<Operand> behind(const Shape& shape, int size) {
  std::vector<Operand> slots;
  for (int rank = shape.rank + 1; rank <= shape.rank + size && rank < shape.ranks; ++rank)
    slots.push_back(Operand::slot(Index::absolute(rank)));
  return slots;
}

int block_that_ends_with(int rank) { return 1 << std::countr_one(static_cast<unsigned>(rank)); }

}  // namespace

Program tree_scan(const Shape& shape) {
  Program program = begin_program(Verb::scan, "tree", shape, 1, 1);
  if (shape.ranks == 1) return alone(std::move(program));
  program.landing_planes = 1;
  program.scratch_planes = shape.ranks > 3 ? 1 : 0;
  const int size = block_that_ends_with(shape.rank);
  const std::vector<Operand> waiting = behind(shape, size);
  Lane lane{"up", false, {}};
  if (size == 1 && !waiting.empty()) lane.steps.push_back(copy_step(waiting, kInput));
  if (shape.rank == 0) lane.steps.push_back(copy_step({kOutput}, kInput));
  Operand prefix = kInput;
  for (int distance = 1; distance <= shape.rank; distance *= 2) {
    if ((shape.rank & distance) == 0) continue;
    const Operand result = shape.rank < 2 * distance ? kOutput : scratch(kPrefix);
    std::vector<Operand> places{result};
    if (2 * distance == size) places.insert(places.end(), waiting.begin(), waiting.end());
    lane.steps.push_back(reduce_step(std::move(places), {last_before(shape.rank, distance), prefix}, false));
    prefix = result;
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

Program tree_exclusive_scan(const Shape& shape) {
  Program program = begin_program(Verb::exclusive_scan, "tree", shape, 1, 1);
  if (shape.ranks == 1) return alone(std::move(program));
  program.landing_planes = shape.ranks > 2 ? 1 : 0;
  program.scratch_planes = shape.ranks > 4 ? 3 : shape.ranks > 2 ? 2 : 0;
  const int size = block_that_ends_with(shape.rank);
  const std::vector<Operand> waiting = behind(shape, size);
  Lane lane{"up", false, {}};
  if (size == 1 && !waiting.empty()) lane.steps.push_back(copy_step(waiting, kInput));
  Operand total = kInput, prefix;
  bool has_prefix = false;
  for (int distance = 1; distance <= shape.rank; distance *= 2) {
    if ((shape.rank & distance) == 0) continue;
    Operand before = last_before(shape.rank, distance);
    const bool totals = 2 * distance <= size && !waiting.empty();
    if (totals) {
      // Needed twice. In place the input is needed until the total is on its way.
      lane.steps.push_back(copy_step({scratch(kMessage)}, before));
      before = scratch(kMessage);
      std::vector<Operand> places = 2 * distance == size ? waiting : std::vector{scratch(kTotal)};
      lane.steps.push_back(reduce_step(std::move(places), {before, total}, false));
      total = scratch(kTotal);
    }
    const Operand result = shape.rank < 2 * distance ? kOutput : scratch(kPrefix);
    lane.steps.push_back(has_prefix ? reduce_step({result}, {before, prefix}, false) : copy_step({result}, before));
    prefix = result;
    has_prefix = true;
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
