// Parallel aggregated trees reduce_scatter (PAT): a chunk is summed up a binomial tree of its own, near ranks first.
//
// 4 ranks. Relative to the rank it is for, the sum of a chunk goes 1 -> 0 and 3 -> 2, then 2 -> 0; chunks that take the
// same edge travel together, at most 8 of them:
//
//                 rank 0     rank 1     rank 2     rank 3
//   distance 1    3, 1 -> 3  0, 2 -> 0  1, 3 -> 1  2, 0 -> 2      inputs
//   distance 2    2 -> 2     3 -> 3     0 -> 0     1 -> 1         sums of two
//
// Bruck's number of rounds, but most bytes go to near ranks, and no message is longer than 8 chunks, however many ranks
// there are. Sums lie in scratch; the last one goes to the output, when all children were heard. Its order is its own.
// Cost: (lg p + p / 16) alpha + f n (beta + gamma), f = (p-1)/p, n all chunks.
#include "schedule/algorithms/build.h"

namespace tutti::schedule {
namespace {

// Chunks that take the edge of a distance: of places first, first + 2 distances, ... behind the rank they are for.
struct Batch {
  int first = 0;
  int count = 0;
};

std::vector<Batch> batches_of(int ranks, int distance) {
  constexpr int kTogether = 8;
  const int senders = (ranks - 1 + distance) / (2 * distance);
  // A last one without children sends its input, not a sum.
  const int summed = distance > 1 && (ranks - 1) % (2 * distance) == distance ? senders - 1 : senders;
  std::vector<Batch> batches;
  for (int done = 0; done < senders;) {
    const int count = done < summed ? std::min(kTogether, summed - done) : 1;
    batches.push_back({distance * (2 * done + 1), count});
    done += count;
  }
  return batches;
}

}  // namespace

Program pat_reduce_scatter(const Placement& placement) {
  const int p = placement.ranks;
  int longest = 1;
  for (int distance = 1; distance < p; distance *= 2) {
    for (const Batch& batch : batches_of(p, distance)) longest = std::max(longest, batch.count);
  }
  Program program = begin_program(Verb::reduce_scatter, "pat", placement, p, longest);
  if (p == 1) return alone(std::move(program));
  program.scratch_planes = p > 2 ? 1 : 0;
  program.landing_planes = 1;

  Lane lane{"trees", false, {}};
  for (int distance = 1; distance < p; distance *= 2) {
    const Operand to = Operand::slot(Index::plus(-distance)), from = Operand::slot(Index::plus(distance));
    const bool last = 2 * distance >= p;
    for (const Batch& batch : batches_of(p, distance)) {
      // The chunks for ranks so far behind this one.
      const auto chunks = [&](Buffer buffer, int place) {
        const int stride = 2 * distance;
        return Operand::own(buffer, {Index::plus(-place - stride * (batch.count - 1)), stride, batch.count});
      };
      const bool has_children = distance > 1 && batch.first + 1 < p;
      lane.steps.push_back(copy_step({to}, chunks(has_children ? Buffer::scratch : Buffer::input, batch.first)));
      const int place = batch.first - distance;
      lane.steps.push_back(reduce_step({chunks(last ? Buffer::output : Buffer::scratch, place)},
                                       {chunks(distance > 1 ? Buffer::scratch : Buffer::input, place), from}, last));
    }
  }
  program.lanes.push_back(std::move(lane));
  return program;
}

}  // namespace tutti::schedule
