// Double binary tree reduce (Sanders, Speck, Träff): two trees, each sums one half of the vector on its way up.
//
// 4 ranks, root 0. The others, 1 2 3, are numbered in-order in both trees; the second one is shifted, so that who adds
// up one half only gives away the other.
//
//   half 0   1 ---> 2 ---> 0        half 1   2 ---> 1 ---> 0
//            3 --/                           3 --/
//
// All links are busy at once, and the last rank is lg p away from the root. The root hears from both trees before it
// writes. Cost: 2 (lg p + k) steps of alpha + n (beta + gamma) / 2k for k segments. Its order is its own.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program double_binary_tree_reduce(const Placement& placement) {
  const int p = placement.ranks, others = p - 1;
  Program program = begin_program(Verb::reduce, "double_binary_tree", placement, 2, 1);
  if (p == 1) return alone(std::move(program));
  program.landing_planes = std::min(others, 3);  // two messages and their sum
  program.hears_first = p > 2;

  const int place = (placement.rank - placement.root + p) % p;  // the root's is 0
  const auto at = [&](int other) { return Operand::slot(Index::plus(other - place)); };
  Lane lane{"trees", false, {}};
  for (const int half : {0, 1}) {
    const BlockSet block{Index::absolute(half), 1, 1};
    const Operand input = Operand::own(Buffer::input, block);
    if (place == 0) {
      lane.steps.push_back(
          reduce_step({Operand::own(Buffer::output, block)}, {input, at(BinaryPlace::top(others, half))}, true));
      continue;
    }
    const BinaryPlace tree = BinaryPlace::of(place, others, half);
    std::vector<Operand> sources;
    for (const int child : tree.children) {
      if (child < place) sources.push_back(at(child));
    }
    sources.push_back(input);
    for (const int child : tree.children) {
      if (child > place) sources.push_back(at(child));
    }
    lane.steps.push_back(sources.size() == 1 ? copy_step({at(tree.parent)}, input)
                                             : reduce_step({at(tree.parent)}, std::move(sources), false));
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
