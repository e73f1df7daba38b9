// reduce_scatter, then all_gather, equals all_reduce bit for bit: ZeRO may cut a gradient sum in two and lose nothing.
//
// Floats do not add up the same in every order, and these span thirty powers of ten, so every other order shows. Tutti
// adds in an order that depends on the group alone, not on the verb, the size or the algorithm.
//
//   tutti run -n 4 -- build/bin/identity
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

// Element i of a rank: a sign, six digits and a magnitude from 1e-15 to 1e15, scrambled but the same everywhere.
float wild(int rank, std::size_t i) {
  std::size_t bits = i * 2'654'435'761U + static_cast<std::size_t>(rank + 1) * 40'503U;
  bits ^= bits >> 13U;
  const double digits = 1 + static_cast<double>(bits * 7919 % 899'999) / 1e5;
  return static_cast<float>((bits % 2 == 0 ? digits : -digits) * std::pow(10.0, static_cast<double>(bits % 31) - 15));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

int run(tutti::Communicator comm) {
  constexpr std::size_t kChunk = 25'013;
  const std::size_t count = kChunk * static_cast<std::size_t>(comm.size());
  std::vector<float> x(count), whole(count), chunk(kChunk), pieced(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = wild(comm.rank(), i);

  bool right = true;
  for (const tutti::ReduceOp op : {tutti::ReduceOp::sum, tutti::ReduceOp::average}) {
    comm.all_reduce(x, whole, op);
    comm.reduce_scatter(x, chunk, op);
    comm.all_gather(chunk, pieced);
    right = right && same_bits(whole, pieced);
    if (comm.rank() == 0) {
      std::printf("%s of %zu floats: reduce_scatter + all_gather %s all_reduce\n", name_of(op).data(), count,
                  same_bits(whole, pieced) ? "equals" : "DIFFERS FROM");
    }
  }
  // How much that is worth: the same floats, added from the last rank to the first.
  comm.all_reduce(x, whole);
  std::size_t others = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float sum = wild(comm.size() - 1, i);
    for (int rank = comm.size() - 2; rank >= 0; --rank) sum += wild(rank, i);
    others += sum != whole[i];
  }
  if (comm.rank() == 0) std::printf("another order of adding gives other bits in %zu places\n", others);
  return right ? 0 : 1;
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
