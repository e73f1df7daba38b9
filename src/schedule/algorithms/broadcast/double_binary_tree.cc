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
#include <bit>

#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

// A node of the tree over 1 .. count whose numbers are in-order, so that all odd ones are leaves.
struct InOrderNode {
  int parent = 0;  // 0: it is the top
  int children[2] = {0, 0};

  static int top_of(int first, int last) {
    return first > last ? 0 : first - 1 + static_cast<int>(std::bit_floor(static_cast<unsigned>(last - first + 1)));
  }
  static InOrderNode find(int number, int count) {
    int first = 1, last = count, parent = 0, top = top_of(first, last);
    while (top != number) {
      parent = top;
      if (number < top) {
        last = top - 1;
      } else {
        first = top + 1;
      }
      top = top_of(first, last);
    }
    return {parent, {top_of(first, number - 1), top_of(number + 1, last)}};
  }
};

// The number of a rank in the second tree, and back.
int second_number(int place, int count) { return count % 2 == 0 ? count + 1 - place : place % count + 1; }
int second_place(int number, int count) {
  return count % 2 == 0 ? count + 1 - number : (number + count - 2) % count + 1;
}

}  // namespace

Program double_binary_tree_broadcast(const Placement& placement) {
  const int p = placement.ranks, others = p - 1;
  Program program = begin_program(Verb::broadcast, "double_binary_tree", placement, 2, 1);
  if (p == 1) return alone(std::move(program));

  program.scratch_planes = p > 2 ? 1 : 0;  // the same on all ranks, because segments are cut by it
  const int place = (placement.rank - placement.root + p) % p;
  const Buffer early = p > 2 && place != 0 ? Buffer::scratch : Buffer::output;
  const auto to = [&](int other) { return Operand::slot(Index::plus(other - place)); };
  Lane lane{"trees", false, {}};
  for (const int half : {0, 1}) {
    const BlockSet block{Index::absolute(half), 1, 1};
    const auto place_of = [&](int number) { return half == 0 ? number : second_place(number, others); };
    std::vector<Operand> destinations{Operand::own(half == 0 ? early : Buffer::output, block)};
    if (place == 0) {
      destinations.push_back(to(place_of(InOrderNode::top_of(1, others))));
      lane.steps.push_back(copy_step(std::move(destinations), Operand::own(Buffer::input, block)));
      continue;
    }
    const InOrderNode node = InOrderNode::find(half == 0 ? place : second_number(place, others), others);
    for (const int child : node.children) {
      if (child != 0) destinations.push_back(to(place_of(child)));
    }
    lane.steps.push_back(copy_step(std::move(destinations), to(node.parent == 0 ? 0 : place_of(node.parent))));
  }
  const BlockSet first{Index::absolute(0), 1, 1};
  if (early == Buffer::scratch)
    lane.steps.push_back(copy_step({Operand::own(Buffer::output, first)}, Operand::own(early, first)));
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
