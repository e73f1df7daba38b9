// Binary tree all_reduce: sums flow up a tree of all ranks, and the result flows down again, segment by segment.
//
// 4 ranks, numbered in-order, so that every sum is one of neighbours:
//
//   lane up      0 ---> 1 ---> 3        lane down     3 ---> 1 ---> 0
//                2 --/                                        \--> 2
//
// Both lanes are busy at once, in both directions of the links. Its order is its own.
// Cost: 2 lg p steps of alpha + n (beta + gamma) / k for the first of k segments, then 3 n beta for the rest.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {

Program binary_tree_all_reduce(const Placement& placement) {
  const int p = placement.ranks;
  Program program = begin_program(Verb::all_reduce, "binary_tree", placement, 1, 1);
  if (p == 1) return alone(std::move(program));
  program.landing_planes = std::min(p - 1, 3);  // two messages and their sum

  const int place = placement.rank + 1;
  const auto at = [&](int other) { return Operand::slot(Index::plus(other - place)); };
  const BinaryPlace tree = BinaryPlace::of(place, p);
  const Operand input = Operand::own(Buffer::input, all_blocks(1));
  const Operand output = Operand::own(Buffer::output, all_blocks(1));
  std::vector<Operand> sources, down{output};
  for (const int child : tree.children) {
    if (child < place) sources.push_back(at(child));
    down.push_back(at(child));
  }
  sources.push_back(input);
  for (const int child : tree.children) {
    if (child > place) sources.push_back(at(child));
  }
  if (tree.parent == 0) {
    program.lanes.push_back({"up and down", false, {reduce_step(std::move(down), std::move(sources), true)}});
    return program;
  }
  const Step up = sources.size() == 1 ? copy_step({at(tree.parent)}, input)
                                      : reduce_step({at(tree.parent)}, std::move(sources), false);
  program.lanes.push_back({"up", false, {up}});
  program.lanes.push_back({"down", false, {copy_step(std::move(down), at(tree.parent))}});
  return program;
}

}  // namespace tutti::schedule
