// Softmax of a vector that is cut over the ranks, without overflow: first the maximum of all, then the sum of all.
// The loss of a language model whose vocabulary is cut over tensor parallel ranks is computed like this.
//
//   tutti run -n 4 -- build/bin/softmax
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

constexpr long kLength = 50'257;  // not a multiple of anything: parts differ in length

// Up to 1000, whose exponential no double can hold.
double logit(long i) { return static_cast<double>(i * 7919 % 10'007) / 10; }

int run(tutti::Communicator comm) {
  const long first = kLength * comm.rank() / comm.size(), end = kLength * (comm.rank() + 1) / comm.size();
  std::vector<double> part;
  for (long i = first; i < end; ++i) part.push_back(logit(i));

  double largest = *std::max_element(part.begin(), part.end());
  comm.all_reduce(tutti::one(largest), tutti::ReduceOp::maximum);

  double sum = 0;
  for (double& x : part) sum += x = std::exp(x - largest);
  comm.all_reduce(tutti::one(sum));
  for (double& x : part) x /= sum;

  // The same on one rank alone.
  double largest_alone = logit(0), sum_alone = 0, wrong = 0, total = 0;
  for (long i = 0; i < kLength; ++i) largest_alone = std::max(largest_alone, logit(i));
  for (long i = 0; i < kLength; ++i) sum_alone += std::exp(logit(i) - largest_alone);
  for (long i = first; i < end; ++i) {
    const double here = part[static_cast<std::size_t>(i - first)];
    wrong = std::max(wrong, std::abs(here - std::exp(logit(i) - largest_alone) / sum_alone));
    total += here;
  }
  comm.all_reduce(tutti::one(wrong), tutti::ReduceOp::maximum);
  comm.all_reduce(tutti::one(total));
  if (comm.rank() == 0) {
    std::printf("softmax of %ld logits up to %g: probabilities add up to %.12f, %.1e from one rank's\n", kLength,
                largest, total, wrong);
  }
  return wrong < 1e-14 && std::abs(total - 1) < 1e-12 ? 0 : 1;
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
