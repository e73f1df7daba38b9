#include "schedule/algorithms/build.h"

#include <algorithm>
#include <bit>

#include "base/canonical.h"
#include "schedule/verbs.h"

namespace tutti::schedule {

std::vector<Wait> wait_for_others(int ranks, int lane, int step, int segments_back) {
  std::vector<Wait> waits;
  for (int distance = 1; distance < ranks; ++distance)
    waits.push_back({Index::plus(distance), lane, step, segments_back});
  return waits;
}

std::vector<Operand> of_every_rank(const Placement& placement, Buffer buffer, BlockSet blocks) {
  return of_every_rank(placement, buffer, blocks, Operand::window(Index::absolute(placement.rank), buffer, blocks));
}

std::vector<Operand> of_every_rank(const Placement& placement, Buffer buffer, BlockSet blocks, const Operand& mine) {
  std::vector<Operand> operands;
  for (int rank = 0; rank < placement.ranks; ++rank)
    operands.push_back(rank == placement.rank ? mine : Operand::window(Index::absolute(rank), buffer, blocks));
  return operands;
}

namespace {

// Sums of hosts first .. end - 1, of which those that need a place take planes from `plane` on.
class HostSums {
 public:
  HostSums(Lane& lane, std::vector<std::vector<Operand>> of_hosts, const BlockSet& blocks)
      : lane_(lane), of_hosts_(std::move(of_hosts)), blocks_(blocks) {}

  // The hosts' sums, or their sum, in `result` where there is one.
  Operand add(std::size_t first, std::size_t end, int plane, const Operand* result) {
    std::vector<Operand> sources;
    if (end - first == 1) {
      sources = of_hosts_[first];
      if (sources.size() == 1) return sources.front();
    } else {
      const std::size_t split = first + canonical_split(end - first);
      sources.push_back(add(first, split, plane, nullptr));
      sources.push_back(add(split, end, plane + (is_plane(sources.front()) ? 1 : 0), nullptr));
    }
    const Operand sum = result != nullptr ? *result : Operand::own(Buffer::scratch, blocks_, plane);
    lane_.steps.push_back(reduce_step({sum}, std::move(sources), result != nullptr));
    return sum;
  }

 private:
  static bool is_plane(const Operand& operand) {
    return operand.kind == Operand::Kind::own && operand.buffer == Buffer::scratch;
  }

  Lane& lane_;
  std::vector<std::vector<Operand>> of_hosts_;
  const BlockSet& blocks_;
};

}  // namespace

int planes_of_hosts(const Placement& placement) {
  if (joins_hosts_first(placement.hosts, placement.ranks)) return 0;
  return 1 + std::bit_width(static_cast<unsigned>(placement.hosts.count()) - 1);
}

void add_reduction(Lane& lane, const Placement& placement, std::vector<Operand> operands, const Operand& result,
                   const BlockSet& blocks, int planes) {
  if (planes == 0) {
    lane.steps.push_back(reduce_step({result}, std::move(operands), true));
    return;
  }
  std::vector<std::vector<Operand>> of_hosts(static_cast<std::size_t>(placement.hosts.count()));
  for (std::size_t rank = 0; rank < operands.size(); ++rank)
    of_hosts[static_cast<std::size_t>(placement.hosts.of(static_cast<int>(rank)))].push_back(operands[rank]);
  const std::size_t hosts = of_hosts.size();
  HostSums(lane, std::move(of_hosts), blocks).add(0, hosts, 0, &result);
}

Program alone(Program program) {
  program.blocks = 1;
  program.message_blocks = program.scratch_planes = program.landing_planes = 0;
  program.hears_first = false;
  if (!holds_block(program, Buffer::output, 0, 0)) return program;
  program.lanes = {
      {"alone",
       false,
       {copy_step({Operand::own(Buffer::output, all_blocks(1))}, Operand::own(Buffer::input, all_blocks(1)))}}};
  return program;
}

int largest_half(int ranks, int radix) {
  int most = 1;
  for (int distance = 1; distance < ranks; distance *= radix)
    most = std::max(most, std::min(distance, ranks - distance));
  return most;
}

TreePlace TreePlace::of(const Placement& placement, int radix) {
  const int relative = (placement.rank - placement.root + placement.ranks) % placement.ranks;
  int reach = 1;
  while (reach < placement.ranks && relative / reach % radix == 0) reach *= radix;
  return {relative, reach, relative / reach % radix * reach, std::min(reach, placement.ranks - relative), radix};
}

CoreRole CoreRole::of(int ranks, int rank, int root) {
  const int core = static_cast<int>(canonical_core(static_cast<std::size_t>(ranks)));
  const int pairs = ranks - core;
  const int odd = root % 2 == 1 && root < 2 * pairs ? root : -1;
  if (rank >= 2 * pairs) return {core, pairs, rank - pairs, -1, odd};
  const int partner = rank ^ 1;
  const bool goes_on = rank == odd || (rank % 2 == 0 && partner != odd);
  return {core, pairs, goes_on ? rank / 2 : -1, partner, odd};
}

Step join_pair(const Placement& placement, const CoreRole& role, BlockSet all) {
  return reduce_step(
      {Operand::own(Buffer::scratch, all)},
      in_order(placement.rank < role.partner, Operand::own(Buffer::input, all), role.partner_slot(placement.rank)),
      false);
}

void add_halving(Lane& lane, const Placement& placement, const CoreRole& role, const Halving& halving) {
  Buffer held = role.partner >= 0 ? Buffer::scratch : Buffer::input;
  for (int distance = 1; distance < role.core; distance *= 2) {
    const std::vector<BlockSet> keep = halving.blocks_of(role, role.member, 2 * distance);
    const std::vector<BlockSet> give = halving.blocks_of(role, role.member ^ distance, 2 * distance);
    const Operand peer = role.peer_at(distance);
    const bool last = 2 * distance == role.core;
    // One set there and back before the next: with one credit a second message waits until the first was taken.
    for (std::size_t set = 0; set < keep.size(); ++set) {
      if (give[set].count != 0) lane.steps.push_back(copy_step({peer}, Operand::own(held, give[set])));
      if (keep[set].count == 0) continue;
      const Operand result = last ? halving.result(placement, keep[set]) : Operand::own(Buffer::scratch, keep[set]);
      lane.steps.push_back(
          reduce_step({result}, in_order((role.member & distance) == 0, Operand::own(held, keep[set]), peer), last));
    }
    held = Buffer::scratch;
  }
}

namespace {

int top_of(int first, int last) {
  return first > last ? 0 : first - 1 + static_cast<int>(std::bit_floor(static_cast<unsigned>(last - first + 1)));
}
int number_in(int tree, int place, int count) {
  if (tree == 0) return place;
  return count % 2 == 0 ? count + 1 - place : place % count + 1;
}
int place_in(int tree, int number, int count) {
  if (tree == 0 || number == 0) return number;
  return count % 2 == 0 ? count + 1 - number : (number + count - 2) % count + 1;
}

}  // namespace

int BinaryPlace::top(int count, int tree) { return place_in(tree, top_of(1, count), count); }

BinaryPlace BinaryPlace::of(int place, int count, int tree) {
  const int number = number_in(tree, place, count);
  int first = 1, last = count, parent = 0, here = top_of(first, last);
  while (here != number) {
    parent = here;
    (number < here ? last : first) = number < here ? here - 1 : here + 1;
    here = top_of(first, last);
  }
  BinaryPlace found{place_in(tree, parent, count), {}};
  for (const int child : {top_of(first, number - 1), top_of(number + 1, last)}) {
    if (child != 0) found.children.push_back(place_in(tree, child, count));
  }
  std::sort(found.children.begin(), found.children.end());
  return found;
}

void add_ring_reduction(Lane& lane, int ranks, int end, std::vector<Operand> results) {
  const Operand to_right = Operand::slot(Index::plus(1));
  const Operand from_left = Operand::slot(Index::plus(-1));
  lane.steps.push_back(copy_step({to_right}, own_block(Buffer::input, end - 1)));
  for (int k = 2; k < ranks; ++k)
    lane.steps.push_back(reduce_step({to_right}, {from_left, own_block(Buffer::input, end - k)}, false));
  lane.steps.push_back(reduce_step(std::move(results), {from_left, own_block(Buffer::input, end)}, true));
}

}  // namespace tutti::schedule
