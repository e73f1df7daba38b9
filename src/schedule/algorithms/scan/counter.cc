// Counter scan: totals of blocks of powers of two go from rank to rank, as the digits of a binary counter.
//
//   rank      0         1          2             3              4
//             -- a -->  -- ab -->  -- c, ab -->  -- abcd -->                 smallest block first
//   result    a         ab         (ab)c         (ab)(cd)       (abcd)e      in the order of prefixes
//
// What comes to a rank are the blocks before it, one for every one in its number. The ones at the end of the number it
// adds up with its own input, which is the carry: the total of one larger block. That and the rest it passes on. Nobody
// talks to others than its neighbours, and low ranks may run ahead. An exclusive scan leaves the rank's own input out of
// its result, but not out of what it passes on.
// Cost: (p-1)(alpha + n beta + n gamma) until the last rank has its result; no rank sends more than lg p n, half of that
// on average.
#include <bit>

#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum Plane : int { kPrefix, kMessage, kTotal };

Operand scratch(Plane plane) { return Operand::own(Buffer::scratch, all_blocks(1), plane); }
const Operand kInput = Operand::own(Buffer::input, all_blocks(1));
const Operand kOutput = Operand::own(Buffer::output, all_blocks(1));
const Operand kBefore = Operand::slot(Index::plus(-1)), kAfter = Operand::slot(Index::plus(1));

// What a rank does with the block of `distance` ranks that comes from before it.
struct Digit {
  bool carries;   // adds it to the total that it passes on
  bool complete;  // which is whole then
  bool passes;    // passes it on as it is
  bool last;      // the largest block

  static Digit of(const Shape& shape, int distance) {
    const int total = 1 << std::countr_one(static_cast<unsigned>(shape.rank));  // ranks of it
    const bool ends = shape.rank == shape.ranks - 1;
    return {!ends && 2 * distance <= total, !ends && 2 * distance == total, !ends && 2 * distance > total,
            shape.rank < 2 * distance};
  }
};

Lane begin_lane(const Shape& shape) {
  Lane lane{"up", false, {}};
  const bool alone_in_its_block = shape.rank % 2 == 0;
  if (alone_in_its_block && shape.rank < shape.ranks - 1) lane.steps.push_back(copy_step({kAfter}, kInput));
  return lane;
}

}  // namespace

Program counter_scan(const Shape& shape) {
  Program program = begin_program(Verb::scan, "counter", shape, 1, 1);
  if (shape.ranks == 1) return alone(std::move(program));
  program.landing_planes = 1;
  program.scratch_planes = shape.ranks > 3 ? 2 : 0;
  Lane lane = begin_lane(shape);
  if (shape.rank == 0) lane.steps.push_back(copy_step({kOutput}, kInput));
  Operand prefix = kInput;
  for (int distance = 1; distance <= shape.rank; distance *= 2) {
    if ((shape.rank & distance) == 0) continue;
    const Digit digit = Digit::of(shape, distance);
    Operand block = kBefore;
    if (digit.passes) {
      lane.steps.push_back(copy_step({kAfter, scratch(kMessage)}, kBefore));
      block = scratch(kMessage);
    }
    const Operand result = digit.last ? kOutput : scratch(kPrefix);
    std::vector<Operand> places{result};
    if (digit.complete) places.push_back(kAfter);
    lane.steps.push_back(reduce_step(std::move(places), {block, prefix}, false));
    prefix = result;
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

Program counter_exclusive_scan(const Shape& shape) {
  Program program = begin_program(Verb::exclusive_scan, "counter", shape, 1, 1);
  if (shape.ranks == 1) return alone(std::move(program));
  program.landing_planes = shape.ranks > 2 ? 1 : 0;
  program.scratch_planes = shape.ranks > 4 ? 3 : shape.ranks > 2 ? 2 : 0;
  Lane lane = begin_lane(shape);
  Operand total = kInput, prefix;
  bool has_prefix = false;
  for (int distance = 1; distance <= shape.rank; distance *= 2) {
    if ((shape.rank & distance) == 0) continue;
    const Digit digit = Digit::of(shape, distance);
    Operand block = kBefore;
    if (digit.passes || digit.carries) {  // needed twice
      std::vector<Operand> places{scratch(kMessage)};
      if (digit.passes) places.insert(places.begin(), kAfter);
      lane.steps.push_back(copy_step(std::move(places), kBefore));
      block = scratch(kMessage);
    }
    if (digit.carries) {  // first: in place the input is needed until the total is on its way
      const Operand place = digit.complete ? kAfter : scratch(kTotal);
      lane.steps.push_back(reduce_step({place}, {block, total}, false));
      total = place;
    }
    const Operand result = digit.last ? kOutput : scratch(kPrefix);
    lane.steps.push_back(has_prefix ? reduce_step({result}, {block, prefix}, false) : copy_step({result}, block));
    prefix = result;
    has_prefix = true;
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
