// Recursive halving reduce_scatter, nearest first on strided chunks: the first half of recursive halving all_reduce.
//
// 4 ranks, chunks 0 1 2 3: keep the chunks whose bit equals the rank's, send the others.
//
//   rank           0         1         2         3
//   holds        0123      0123      0123      0123
//   distance 1   0 2       1 3       0 2       1 3       summed over pairs {0,1} {2,3}, in scratch
//   distance 2   0         1         2         3         summed over all four, in the output
//
// With p = q + r the odd partners of the first r pairs stand aside: the even one sums the chunks of both, and hands the
// odd one's over in the end. Its two chunks are neighbours; those of ranks without partner are a message of their own.
// Cost: lg p alpha + f n beta + f n gamma, f = (p-1)/p, n all chunks;
//       for other p up to (2 floor(lg p) + 2) alpha + (1 + f) n beta + (1 + f) n gamma.
// Nearest first and lower operand first: canonical.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

int members_from(int first, int end, int modulus) { return first < end ? (end - first + modulus - 1) / modulus : 0; }

// The chunks of the pairs, two neighbours for each, and the chunks of the others.
std::vector<BlockSet> chunks_of(const CoreRole& role, int member, int modulus) {
  const int pair = member % modulus;
  int single = pair;
  while (single < role.pairs) single += modulus;
  return {{Index::absolute(2 * pair), 2 * modulus, 2 * members_from(pair, role.pairs, modulus), 2},
          {Index::absolute(single + role.pairs), modulus, members_from(single, role.core, modulus)}};
}

// One chunk is this rank's own; two are a pair's.
Operand in_chunk(const Placement&, const BlockSet& blocks) {
  return blocks.count == 1 ? own_block(Buffer::output) : Operand::own(Buffer::scratch, blocks);
}

}  // namespace

Program recursive_halving_reduce_scatter(const Placement& placement) {
  const int p = placement.ranks;
  const CoreRole role = CoreRole::of(p, placement.rank);
  Program program = begin_program(Verb::reduce_scatter, "recursive_halving", placement, p, role.pairs != 0 ? p : p / 2);
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > 2 ? 1 : 0;
  program.landing_planes = 1;

  Lane lane{"exchange", false, {}};
  if (role.member < 0) {
    const Operand partner = role.partner_slot(placement.rank);
    lane.steps = {copy_step({partner}, Operand::own(Buffer::input, all_blocks(p))),
                  copy_step({own_block(Buffer::output)}, partner)};
    program.lanes.push_back(std::move(lane));
    return program;
  }
  if (role.partner >= 0) lane.steps.push_back(join_pair(placement, role, all_blocks(p)));
  add_halving(lane, placement, role, {chunks_of, in_chunk});
  if (role.partner >= 0) {
    lane.steps.push_back(copy_step({role.partner_slot(placement.rank)}, own_block(Buffer::scratch, 1)));
    lane.steps.push_back(copy_step({own_block(Buffer::output)}, own_block(Buffer::scratch)));
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
