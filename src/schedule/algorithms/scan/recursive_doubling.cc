// Recursive doubling scan: partners at distance 1, 2, 4, ... exchange the totals of their blocks of ranks.
//
//   rank        0         1         2         3
//   distance 1  0 <-> 1             2 <-> 3            totals:    ab  ab  cd  cd     prefixes:  a  ab  c  cd
//   distance 2  0 --> 2   1 --> 3                      the lower block's total goes before:     a  ab  abc  abcd
//
// The upper one of two partners puts the lower one's total before its own prefix. A total is only formed, and sent
// down, where somebody further up will need it. An exclusive scan is the same without the rank's own input.
// The order is that of prefixes in base/canonical.h, for any number of ranks.
// Cost: lg p (alpha + n beta + 2 n gamma).
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

enum Plane : int { kTotal, kPrefix, kMessage };

Operand scratch(Plane plane) { return Operand::own(Buffer::scratch, all_blocks(1), plane); }

// Whether `rank` needs the total of its block of `size` ranks, because it sends that, or a larger one, on.
bool needs_total(int ranks, int rank, int size) {
  if (size >= ranks) return false;
  const int peer = rank ^ size;
  const bool sends = peer < ranks && (peer > rank || needs_total(ranks, peer, 2 * size));
  return sends || needs_total(ranks, rank, 2 * size);
}

// Whether `rank` hears from anybody at this distance or beyond.
bool hears_from(int ranks, int rank, int distance) {
  for (; distance < ranks; distance *= 2) {
    if ((rank & distance) != 0 || needs_total(ranks, rank, 2 * distance)) return true;
  }
  return false;
}

Program doubling(Verb verb, const Placement& placement) {
  const int p = placement.ranks;
  const bool inclusive = verb == Verb::scan;
  Program program = begin_program(verb, "recursive_doubling", placement, 1, 1);
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > 3 ? 3 : p - 2;
  program.landing_planes = inclusive || p > 2 ? 1 : 0;

  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  Operand total = input, prefix = input;
  bool has_prefix = inclusive;
  Lane lane{"exchange", false, {}};
  for (int distance = 1; distance < p; distance *= 2) {
    const int peer_rank = placement.rank ^ distance;
    const bool upper = peer_rank < placement.rank;
    const bool totals = needs_total(p, placement.rank, 2 * distance);
    const Operand peer = Operand::slot(Index::exclusive_or(distance));
    if (peer_rank < p && (!upper || needs_total(p, peer_rank, 2 * distance)))
      lane.steps.push_back(copy_step({peer}, total));
    if (!upper && totals) lane.steps.push_back(reduce_step({scratch(kTotal)}, {total, peer}, false));
    if (upper) {
      // Intact: the output is written when nobody is left to be heard.
      const Operand result = totals || hears_from(p, placement.rank, 2 * distance) ? scratch(kPrefix) : output;
      if (totals) lane.steps.push_back(copy_step({scratch(kMessage)}, peer));
      const Operand before = totals ? scratch(kMessage) : peer;
      lane.steps.push_back(has_prefix ? reduce_step({result}, {before, prefix}, false) : copy_step({result}, before));
      if (totals) lane.steps.push_back(reduce_step({scratch(kTotal)}, {before, total}, false));
      prefix = result;
      has_prefix = true;
    }
    if (totals) total = scratch(kTotal);
  }
  if (has_prefix && prefix.buffer != Buffer::output) lane.steps.push_back(copy_step({output}, prefix));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace

Program recursive_doubling_scan(const Placement& placement) { return doubling(Verb::scan, placement); }
Program recursive_doubling_exclusive_scan(const Placement& placement) {
  return doubling(Verb::exclusive_scan, placement);
}

}  // namespace tutti::schedule
