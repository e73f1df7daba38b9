// Double binary tree broadcast (Sanders, Speck, Träff): two trees, each with one half of the vector.
//
// 4 ranks, root 0. The others, 1 2 3, are numbered in-order in both trees; the second one is shifted, so that who
// passes one half on receives the other as a leaf.
//
//   half 0   0 ---> 2 ---> 1        half 1   0 ---> 1 ---> 3
//                     \--> 3                          \--> 2
//
// An even number of others: the second tree is the first one mirrored. All links are busy at once, as in a chain, but
// the last rank is lg p away and not p. Half 0 waits in scratch until the other parent was heard, too: were that one in
// another call, the output would be lost.
// Cost: 2 (lg p + k) steps of alpha + n beta / 2k for k segments, that is n beta for long vectors.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program double_binary_tree_broadcast(const Placement& placement) {
  const int p = placement.ranks, others = p - 1;
  Program program = begin_program(Verb::broadcast, "double_binary_tree", placement, 2, 1);
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > 2 ? 1 : 0;  // the same on all ranks, because segments are cut by it

  const int place = (placement.rank - placement.root + p) % p;  // the root's is 0
  const auto at = [&](int other) { return Operand::slot(Index::plus(other - place)); };
  const Buffer early = p > 2 && place != 0 ? Buffer::scratch : Buffer::output;
  Lane lane{"trees", false, {}};
  for (const int half : {0, 1}) {
    const BlockSet block{Index::absolute(half), 1, 1};
    std::vector<Operand> destinations{Operand::own(half == 0 ? early : Buffer::output, block)};
    if (place == 0) {
      destinations.push_back(at(BinaryPlace::top(others, half)));
      lane.steps.push_back(copy_step(std::move(destinations), Operand::own(Buffer::input, block)));
      continue;
    }
    const BinaryPlace tree = BinaryPlace::of(place, others, half);
    for (const int child : tree.children) destinations.push_back(at(child));
    lane.steps.push_back(copy_step(std::move(destinations), at(tree.parent)));
  }
  const BlockSet first{Index::absolute(0), 1, 1};
  if (early == Buffer::scratch)
    lane.steps.push_back(copy_step({Operand::own(Buffer::output, first)}, Operand::own(early, first)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
