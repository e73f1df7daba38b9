#include "schedule/algorithms/scan/upward.h"

#include <bit>

namespace tutti::schedule {
namespace {

enum Plane : int { kPrefix, kMessage, kTotal };

Operand scratch(Plane plane) { return Operand::own(Buffer::scratch, all_blocks(1), plane); }
const Operand kInput = Operand::own(Buffer::input, all_blocks(1));
const Operand kOutput = Operand::own(Buffer::output, all_blocks(1));

// What becomes of the block of `distance` ranks that comes to a rank.
struct Fate {
  bool carried;   // it is added to the total that others wait for
  bool complete;  // which is whole then
  bool passed;    // it is passed on as it is
  bool largest;   // nothing comes behind it

  Fate(const Placement& placement, const Upward& upward, int distance) {
    const int total = block_that_ends_with(placement.rank);
    const bool waited_for = !upward.waiting.empty();
    carried = waited_for && 2 * distance <= total;
    complete = waited_for && 2 * distance == total;
    passed = waited_for && upward.passes && 2 * distance > total;
    largest = placement.rank < 2 * distance;
  }
  Operand result() const { return largest ? kOutput : scratch(kPrefix); }
};

Lane begin_lane(const Placement& placement, const Upward& upward) {
  Lane lane{"up", false, {}};
  const bool input_is_total = block_that_ends_with(placement.rank) == 1;
  if (input_is_total && !upward.waiting.empty()) lane.steps.push_back(copy_step(upward.waiting, kInput));
  return lane;
}

// Keeps a block that is needed twice, and passes it on where others wait for it.
Operand keep(Lane& lane, const Upward& upward, const Fate& fate, const Operand& block) {
  std::vector<Operand> places = fate.passed ? upward.waiting : std::vector<Operand>{};
  places.push_back(scratch(kMessage));
  lane.steps.push_back(copy_step(std::move(places), block));
  return scratch(kMessage);
}

}  // namespace

int block_that_ends_with(int rank) { return 1 << std::countr_one(static_cast<unsigned>(rank)); }

Program upward_scan(const Placement& placement, const Upward& upward) {
  Program program = begin_program(Verb::scan, upward.name, placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  program.landing_planes = 1;
  program.scratch_planes = placement.ranks <= 3 ? 0 : upward.passes ? 2 : 1;
  Lane lane = begin_lane(placement, upward);
  if (placement.rank == 0) lane.steps.push_back(copy_step({kOutput}, kInput));
  Operand prefix = kInput;
  for (int distance = 1; distance <= placement.rank; distance *= 2) {
    if ((placement.rank & distance) == 0) continue;
    const Fate fate(placement, upward, distance);
    Operand block = upward.block_before(placement, distance);
    if (fate.passed) block = keep(lane, upward, fate, block);
    std::vector<Operand> places{fate.result()};
    if (fate.complete) places.insert(places.end(), upward.waiting.begin(), upward.waiting.end());
    lane.steps.push_back(reduce_step(std::move(places), {block, prefix}, false));
    prefix = fate.result();
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

Program upward_exclusive_scan(const Placement& placement, const Upward& upward) {
  Program program = begin_program(Verb::exclusive_scan, upward.name, placement, 1, 1);
  if (placement.ranks == 1) return alone(std::move(program));
  program.landing_planes = placement.ranks > 2 ? 1 : 0;
  program.scratch_planes = placement.ranks > 4 ? 3 : placement.ranks > 2 ? 2 : 0;
  Lane lane = begin_lane(placement, upward);
  Operand total = kInput, prefix;
  bool has_prefix = false;
  for (int distance = 1; distance <= placement.rank; distance *= 2) {
    if ((placement.rank & distance) == 0) continue;
    const Fate fate(placement, upward, distance);
    Operand block = upward.block_before(placement, distance);
    if (fate.passed || fate.carried) block = keep(lane, upward, fate, block);
    if (fate.carried) {  // first: in place the input is needed until the total is on its way
      lane.steps.push_back(
          reduce_step(fate.complete ? upward.waiting : std::vector{scratch(kTotal)}, {block, total}, false));
      total = scratch(kTotal);
    }
    const Operand result = fate.result();
    lane.steps.push_back(has_prefix ? reduce_step({result}, {block, prefix}, false) : copy_step({result}, block));
    prefix = result;
    has_prefix = true;
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
