// Recursive halving and doubling all_reduce (Rabenseifner), nearest first on strided blocks.
//
// 4 ranks, blocks 0 1 2 3. Halving, distance 1 then 2: keep the blocks whose bit equals the rank's, send the others.
//
//   rank           0         1         2         3
//   holds        0123      0123      0123      0123
//   distance 1   0 2       1 3       0 2       1 3       summed over pairs {0,1} {2,3}
//   distance 2   0         1         2         3         summed over all four
//   doubling     0 2       1 3       0 2       1 3       the same way back
//                0123      0123      0123      0123
//
// Nearest first, so that every block is summed in canonical order; the price is that a rank's blocks are strided.
// With p = q + r the odd partners of the first r pairs stand aside as in recursive doubling.
// Cost: 2 lg p alpha + 2f n beta + f n gamma, f = (p-1)/p;
//       for other p (2 floor(lg p) + 2) alpha + (2f + 2) n beta + (1 + f) n gamma.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

// The blocks b with b mod modulus == member mod modulus.
BlockSet congruent(int member, int modulus, int blocks) {
  return {Index::absolute(member % modulus), modulus, blocks / modulus};
}

}  // namespace

Program recursive_halving_all_reduce(const Shape& shape) {
  const CoreRole role = CoreRole::of(shape.ranks, shape.rank);
  const int q = role.core;
  Program program = begin_program(Verb::all_reduce, "recursive_halving", shape, q, role.pairs != 0 ? q : q / 2);
  if (shape.ranks == 1) return alone(std::move(program));

  Lane lane{"exchange", false, {}};
  const auto own = [](Buffer buffer, BlockSet blocks) { return Operand::own(buffer, blocks); };
  const BlockSet all = all_blocks(q);
  if (role.member < 0) {
    const Operand partner = Operand::slot(Index::plus(-1));
    lane.steps = {copy_step({partner}, own(Buffer::input, all)), copy_step({own(Buffer::output, all)}, partner)};
    program.lanes.push_back(std::move(lane));
    return program;
  }

  Buffer held = Buffer::input;
  if (role.partner >= 0) {
    lane.steps.push_back(
        reduce_step({own(Buffer::output, all)}, {own(held, all), Operand::slot(Index::plus(1))}, q == 1));
    held = Buffer::output;
  }
  const auto peer_at = [&](int distance) {
    return Operand::slot(Index::absolute(role.rank_of(role.member ^ distance)));
  };
  for (int distance = 1; distance < q; distance *= 2) {
    const BlockSet keep = congruent(role.member, 2 * distance, q);
    const BlockSet give = congruent(role.member ^ distance, 2 * distance, q);
    const Operand peer = peer_at(distance);
    lane.steps.push_back(copy_step({peer}, own(held, give)));
    const bool lower = (role.member & distance) == 0;
    std::vector<Operand> in_order = lower ? std::vector{own(held, keep), peer} : std::vector{peer, own(held, keep)};
    lane.steps.push_back(reduce_step({own(Buffer::output, keep)}, std::move(in_order), 2 * distance == q));
    held = Buffer::output;
  }
  for (int distance = q / 2; distance >= 1; distance /= 2) {
    const BlockSet have = congruent(role.member, 2 * distance, q);
    const BlockSet lack = congruent(role.member ^ distance, 2 * distance, q);
    lane.steps.push_back(copy_step({peer_at(distance)}, own(Buffer::output, have)));
    lane.steps.push_back(copy_step({own(Buffer::output, lack)}, peer_at(distance)));
  }
  if (role.partner >= 0) lane.steps.push_back(copy_step({Operand::slot(Index::plus(1))}, own(Buffer::output, all)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
