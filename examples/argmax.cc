// Which rank has the largest value, and where: one all_reduce of {value, owner, index} with an operator of our own.
// Greedy decoding with a vocabulary that is cut over ranks does this for every token.
//
// The operator says what happens to ties (the lowest rank wins), so the answer does not depend on who comes first.
//
//   tutti run -n 4 -- build/bin/argmax
#include <cstdio>
#include <exception>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

struct Best {
  float value;
  int owner, index;
};

Best better(const Best& a, const Best& b) {
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.owner <= b.owner ? a : b;
}

// Scrambled, and the same wherever it is computed. From the middle rank on, each rank holds the largest value once.
float score(int rank, int index, int ranks) {
  if (rank >= ranks / 2 && index == 100 + rank) return 1000;
  return static_cast<float>((rank * 7919 + index * 104729) % 997);
}

int run(tutti::Communicator comm) {
  constexpr int kScores = 4096;
  Best best{score(comm.rank(), 0, comm.size()), comm.rank(), 0};
  for (int i = 1; i < kScores; ++i) {
    const float here = score(comm.rank(), i, comm.size());
    if (here > best.value) best = {here, comm.rank(), i};
  }

  comm.all_reduce(tutti::one(best), tutti::Op::of<Best>(better));

  if (comm.rank() == 0) {
    std::printf("the largest of %d scores is %g: rank %d has it, at %d (ranks that have it: %d)\n",
                kScores * comm.size(), static_cast<double>(best.value), best.owner, best.index,
                comm.size() - comm.size() / 2);
  }
  const int winner = comm.size() / 2;  // the lowest of those that tie
  return best.value == 1000 && best.owner == winner && best.index == 100 + winner ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run(tutti::init());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
