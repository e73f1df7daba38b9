// Small words that the generators share; nothing here knows an algorithm.
#pragma once

#include <string>
#include <utility>

#include "schedule/algorithms/table.h"
#include "schedule/program.h"

namespace tutti::schedule {

inline Program begin_program(Verb verb, std::string algorithm, const Placement& placement, int blocks,
                             int message_blocks) {
  Program program;
  program.verb = verb;
  program.algorithm = std::move(algorithm);
  program.ranks = placement.ranks;
  program.rank = placement.rank;
  program.root = placement.root;
  program.blocks = blocks;
  program.message_blocks = message_blocks;
  return program;
}

// Through a plane of scratch that peers can read, two segments deep so that copies and their readers overlap.
inline Program begin_staged(Verb verb, const Placement& placement, int blocks) {
  Program program = begin_program(verb, "staged", placement, blocks, 0);
  if (placement.ranks == 1) return program;
  program.scratch_planes = 1;
  program.scratch_depth = 2;
  return program;
}

inline BlockSet all_blocks(int blocks) { return {Index::absolute(0), 1, blocks}; }
// The block `offset` beyond the one of this rank's number, or `count` from there on.
inline BlockSet block_at(int offset, int count = 1) { return {Index::plus(offset), 1, count}; }
inline Operand own_block(Buffer buffer, int offset = 0, int count = 1) {
  return Operand::own(buffer, block_at(offset, count));
}

inline Step copy_step(std::vector<Operand> destinations, Operand source, std::vector<Wait> waits = {}) {
  return {StepOp::copy, false, std::move(destinations), {source}, std::move(waits)};
}

inline Step reduce_step(std::vector<Operand> destinations, std::vector<Operand> sources, bool last,
                        std::vector<Wait> waits = {}) {
  return {StepOp::reduce, last, std::move(destinations), std::move(sources), std::move(waits)};
}

inline Step wait_step(std::vector<Wait> waits) { return {StepOp::wait, false, {}, {}, std::move(waits)}; }

// Two operands of a reduction, the lower rank's first.
inline std::vector<Operand> in_order(bool mine_is_lower, const Operand& mine, const Operand& theirs) {
  return mine_is_lower ? std::vector{mine, theirs} : std::vector{theirs, mine};
}

// Waits for all ranks but this one.
std::vector<Wait> wait_for_others(int ranks, int lane, int step, int segments_back = 0);
inline std::vector<Wait> others_entered(int ranks) { return wait_for_others(ranks, Wait::kEntryLane, 0); }

// The same blocks of every rank's buffer, in the order of the ranks: through windows, but for what `mine` is.
std::vector<Operand> of_every_rank(const Placement& placement, Buffer buffer, BlockSet blocks);
std::vector<Operand> of_every_rank(const Placement& placement, Buffer buffer, BlockSet blocks, const Operand& mine);

// Planes of scratch that add_reduction() takes: the same on all ranks, also on those that do not reduce.
int planes_of_hosts(const Placement& placement);
// The reduction of an operand of each rank, in their order, to `result`, and the last one: hosts first, whose sums lie
// at `blocks` of the first `planes` planes of scratch, as planes_of_hosts() says.
void add_reduction(Lane& lane, const Placement& placement, std::vector<Operand> operands, const Operand& result,
                   const BlockSet& blocks, int planes);

// One rank has nothing to ask of others: output <- input, where there is an output.
Program alone(Program program);

// The largest subtree below a root in a binomial tree, and the longest message of doubling: in ranks. Of a tree of
// another radix the largest part.
int largest_half(int ranks, int radix = 2);

// Where a rank stands in the k-nomial tree over relative = (rank - root) mod p, written in digits of the radix: its
// lowest digit that is not 0 is the distance to its parent, and below it lie the distances to its children. Radix 2 is
// the binomial tree.
struct TreePlace {
  int relative;
  int reach;   // what that digit counts; for the root the least power of the radix >= p
  int parent;  // distance to the parent
  int below;   // ranks of its subtree: this one and those behind it
  int radix;

  static TreePlace of(const Placement& placement, int radix = 2);
  // Children are 1, 2, ... radix - 1 times a power of the radix away.
  bool has_child(int child, int power) const { return child < power * radix && child < below; }
  int below_child(int child, int power) const { return below - child < power ? below - child : power; }
  Operand parent_slot() const { return Operand::slot(Index::plus(-parent)); }
};

// Where a place stands in a binary tree over places 1 .. count that are numbered in-order, so that all odd ones are
// leaves. The second of two trees is the first one mirrored, or shifted by one where `count` is odd: who passes on in
// one of them is a leaf of the other.
struct BinaryPlace {
  int parent = 0;             // 0: it is the top
  std::vector<int> children;  // ascending

  static BinaryPlace of(int place, int count, int tree = 0);
  static int top(int count, int tree = 0);
};

// The part a rank plays in an algorithm made for a power of two q <= p: with r = p - q, ranks 2i and 2i+1 (i < r) join
// first, one goes on as core member i, and the other stands aside, until the result comes back if it does. It is the
// even one that goes on, unless the odd one is `root`.
struct CoreRole {
  int core;     // q
  int pairs;    // r
  int member;   // this rank's number in the core, -1 for a partner that stands aside
  int partner;  // the other rank of the pair, -1 without one
  int odd;      // the root, where it goes on though it is odd, else -1

  static CoreRole of(int ranks, int rank, int root = -1);
  int rank_of(int core_member) const {
    if (core_member >= pairs) return core_member + pairs;
    return 2 * core_member + (2 * core_member + 1 == odd ? 1 : 0);
  }
  Operand partner_slot(int rank) const { return Operand::slot(Index::plus(partner - rank)); }
  Operand peer_at(int distance) const { return Operand::slot(Index::absolute(rank_of(member ^ distance))); }
};

// The core member that has the sum of members first .. first + count - 1 where a reduction ends at the root.
inline int holder_of(int first, int count, int root_member) {
  return root_member >= first && root_member < first + count ? root_member : first;
}

// The blocks b with b mod modulus == member mod modulus.
inline BlockSet congruent(int member, int modulus, int blocks) {
  return {Index::absolute(member % modulus), modulus, blocks / modulus};
}

// Recursive halving, nearest first: at distance 1, 2, 4, ... each core member keeps the blocks of the members that
// agree with it so far, sends the others to its partner and reduces what comes back. Partial sums lie in scratch.
struct Halving {
  // The blocks of all members congruent to `member`, as one or more sets; a set of count 0 is left out.
  std::vector<BlockSet> (*blocks_of)(const CoreRole& role, int member, int modulus);
  // Where the last reduction of a set goes.
  Operand (*result)(const Placement& placement, const BlockSet& blocks);
};

// One block for each core member.
inline std::vector<BlockSet> strided_blocks(const CoreRole& role, int member, int modulus) {
  return {congruent(member, modulus, role.core)};
}

// Adds the steps of halving, for a rank that is a member of the core, to `lane`; a pair has joined before.
void add_halving(Lane& lane, const Placement& placement, const CoreRole& role, const Halving& halving);

// A pair joins: the sum of both lies in scratch.
Step join_pair(const Placement& placement, const CoreRole& role, BlockSet all);

// Around the ring: chunks are summed on their way to the right, and that of `end` ends here, in `results`.
void add_ring_reduction(Lane& lane, int ranks, int end, std::vector<Operand> results);

}  // namespace tutti::schedule
