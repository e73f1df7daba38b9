// Double binary tree all_reduce (Sanders, Speck, Träff): each half of the vector goes up a tree of its own, and down.
//
// 4 ranks, numbered in-order; who passes one half on is a leaf of the other tree, and no two ranks are neighbours in
// both, so that a message between them can only be one of the two halves:
//
//   half 0   0 ---> 1 <--- 3 <--- 2        half 1   1 ---> 2 ---> 0 <--- 3       up, and the same edges down
//
// All links are busy at once in both directions, as in a ring, but the last rank is lg p away. Who passes a result on
// keeps it in scratch until both trees were heard; who only takes it waits for them. Two and three ranks have one tree.
// Its order is its own. Cost: 2 lg p alpha + 2 n beta + n gamma for long vectors, in segments.
#include <utility>

#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

// Where numbers 1 .. count stand in a tree whose left parts are odd, so that all odd ones are leaves.
struct InOrder {
  int parent = 0, left = 0, right = 0;  // 0: none

  static int top(int first, int last) {
    if (first >= last) return first == last ? first : 0;
    return first + (((last - first + 1) / 2 - 1) | 1);
  }
  static InOrder of(int number, int count) {
    int first = 1, last = count, parent = 0;
    for (int here = top(first, last); here != number; here = top(first, last)) {
      parent = here;
      (number < here ? last : first) = number < here ? here - 1 : here + 1;
    }
    return {parent, top(first, number - 1), top(number + 1, last)};
  }
};

// Of the second tree: the odd ranks below it pass on, each in the place of the even one above, and the even ones are
// leaves, one place further than next to them, because there they are neighbours in the first tree.
int number_in(int tree, int place, int count) {
  const int paired = count / 2 * 2;
  if (tree == 0 || place > paired) return place;
  return place % 2 == 1 ? place + 1 : (place + paired - 4) % paired + 1;
}
int place_in(int tree, int number, int count) {
  const int paired = count / 2 * 2;
  if (tree == 0 || number == 0 || number > paired) return number;
  return number % 2 == 0 ? number - 1 : (number + 2) % paired + 1;
}

}  // namespace

Program double_binary_tree_all_reduce(const Placement& placement) {
  const int p = placement.ranks, trees = p > 3 ? 2 : 1, place = placement.rank + 1;
  Program program = begin_program(Verb::all_reduce, "double_binary_tree", placement, trees, 1);
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = trees - 1;                       // the same on all ranks, because segments are cut by it
  program.landing_planes = std::min(p - 1, p > 4 ? 3 : 2);  // two messages and their sum
  program.hears_first = trees > 1;

  const auto at = [&](int other) { return Operand::slot(Index::plus(other - place)); };
  for (int tree = 0; tree < trees; ++tree) {
    const std::string half = trees == 1 ? "" : " " + std::to_string(tree);
    const BlockSet block{Index::absolute(tree), 1, 1};
    const Operand output = Operand::own(Buffer::output, block);
    const InOrder here = InOrder::of(number_in(tree, place, p), p);
    const Operand parent = at(place_in(tree, here.parent, p));
    std::vector<Operand> sources{Operand::own(Buffer::input, block)}, down;
    for (const int child : {here.left, here.right}) {
      if (child == 0) continue;
      down.push_back(at(place_in(tree, child, p)));
      sources.push_back(down.back());
    }
    const bool keeps = !down.empty() && trees > 1;
    down.insert(down.begin(), keeps ? Operand::own(Buffer::scratch, block) : output);

    Lane lane{"down" + half, false, {}};
    if (here.parent == 0) {
      lane = {"up and down" + half, false, {reduce_step(down, std::move(sources), true)}};
    } else {
      const Step up =
          sources.size() == 1 ? copy_step({parent}, sources.front()) : reduce_step({parent}, std::move(sources), false);
      program.lanes.push_back({"up" + half, false, {up}});
      lane.steps.push_back(copy_step(down, parent));
    }
    if (keeps) lane.steps.push_back(copy_step({output}, down.front()));
    program.lanes.push_back(std::move(lane));
  }
  return program;
}

}  // namespace tutti::schedule
