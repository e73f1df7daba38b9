// Recursive multiplying all_gather, radix 4: fours exchange all that they have, at distance 1, 4, 16, ...
//
//   rank    0       1       2       3
//           0       1       2       3       input
//           each sends to the three others  distance 1
//         0123    0123    0123    0123      output
//
// Half the rounds of doubling, with three messages in each, which are on their way at once. A last round of twos where
// the core is no power of four. With p = q + r (q a power of two) the odd partners of the first r pairs hand their
// chunk to the even ones first, and receive all others last.
// Cost: log4 p alpha + f n beta, f = (p-1)/p, n all chunks; alpha + n beta more where p is no power of two.
//
// All but the last round lands in scratch, because the output must stay intact until every sender was heard.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schedule/algorithms/radix.h"

namespace tutti::schedule {
namespace {

// The chunks of core members first .. first + count - 1, which are those of ranks that follow each other.
BlockSet chunks_of(const CoreRole& role, int first, int count) {
  const auto begin = [&](int member) { return member + std::min(member, role.pairs); };
  return {Index::absolute(begin(first)), 1, begin(first + count) - begin(first)};
}

}  // namespace

Program all_gather_in_rounds(std::string name, const Placement& placement, int radix) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_gather, std::move(name), placement, p, 1);
  if (p == 1) return alone(std::move(program));
  const CoreRole role = CoreRole::of(p, placement.rank);
  // The same on all ranks, because segments are cut by it.
  int last_distance = 1;
  while (role.core / last_distance > radix) last_distance *= radix;
  program.message_blocks = role.pairs != 0 ? p - 1 : last_distance;
  program.scratch_planes = last_distance > 1 || role.pairs != 0 ? 1 : 0;
  program.hears_first = radix > 2 && role.core / last_distance == radix;  // from several at once

  Lane lane{"exchange", false, {}};
  if (role.member < 0) {
    const Operand partner = Operand::slot(Index::plus(-1));
    lane.steps = {copy_step({partner}, own_block(Buffer::input)),
                  copy_step({own_block(Buffer::output, 1, p - 1)}, partner),
                  copy_step({own_block(Buffer::output)}, own_block(Buffer::input))};
    program.lanes.push_back(std::move(lane));
    return program;
  }

  const Buffer held = program.scratch_planes == 0 ? Buffer::input : Buffer::scratch;
  if (held == Buffer::scratch) lane.steps.push_back(copy_step({own_block(held)}, own_block(Buffer::input)));
  if (role.partner >= 0) lane.steps.push_back(copy_step({own_block(held, 1)}, Operand::slot(Index::plus(1))));
  for (int distance = 1, parts = 0; distance < role.core; distance *= parts) {
    parts = role.core / distance >= radix ? radix : 2;
    const int first = role.member / distance * distance, digit = role.member / distance % parts;
    const BlockSet mine = chunks_of(role, first, distance);
    const bool last = distance * parts == role.core;
    // The nth message goes to the nth rank ahead and comes from the nth behind, so that no two go to one at a time.
    std::vector<Operand> peers;
    std::vector<Step> arrivals;
    for (int n = 1; n < parts; ++n) {
      const auto away = [&](int part) { return (part % parts - digit) * distance; };
      const auto peer = [&](int part) {
        return Operand::slot(Index::absolute(role.rank_of(role.member + away(part))));
      };
      const int behind = digit + parts - n;
      peers.push_back(peer(digit + n));
      arrivals.push_back(copy_step(
          {Operand::own(last ? Buffer::output : held, chunks_of(role, first + away(behind), distance))}, peer(behind)));
    }
    lane.steps.push_back(copy_step(std::move(peers), Operand::own(held, mine)));
    lane.steps.insert(lane.steps.end(), arrivals.begin(), arrivals.end());
    if (last) lane.steps.push_back(copy_step({Operand::own(Buffer::output, mine)}, Operand::own(held, mine)));
  }
  if (role.partner >= 0)
    lane.steps.push_back(copy_step({Operand::slot(Index::plus(1))}, own_block(Buffer::output, 2, p - 1)));
  program.lanes.push_back(std::move(lane));
  return program;
}

Program recursive_multiplying_all_gather(const Placement& placement) {
  return all_gather_in_rounds("recursive_multiplying", placement, kRadix);
}

}  // namespace tutti::schedule
