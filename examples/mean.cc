// Mean and variance of a data set that is cut over the ranks, in one all_reduce: what synchronised batch norm does.
//
// Each rank summarises its part as {count, mean, squared deviations}, and an operator joins two summaries. The values
// lie around a billion, where the shortcut "mean of squares minus square of mean" has no correct digit left.
//
//   tutti run -n 4 -- build/bin/mean
#include <cmath>
#include <cstdio>
#include <exception>
#include <tutti/tutti.hpp>

namespace {

struct Summary {
  double count = 0, mean = 0, deviations = 0;  // deviations: the sum of (value - mean)^2
};

// Chan, Golub and LeVeque: the summary of two parts from the summaries of each.
Summary join(const Summary& a, const Summary& b) {
  const double count = a.count + b.count, apart = b.mean - a.mean;
  if (count == 0) return a;
  return {count, a.mean + apart * b.count / count,
          a.deviations + b.deviations + apart * apart * a.count * b.count / count};
}

double value(long i) { return 1e9 + static_cast<double>(i % 10); }

int run(tutti::Communicator comm) {
  constexpr long kValues = 1'000'000;
  const long first = kValues * comm.rank() / comm.size(), end = kValues * (comm.rank() + 1) / comm.size();
  Summary all{static_cast<double>(end - first), 0, 0};
  for (long i = first; i < end; ++i) all.mean += value(i);
  all.mean /= all.count;
  for (long i = first; i < end; ++i) all.deviations += (value(i) - all.mean) * (value(i) - all.mean);

  comm.all_reduce(tutti::one(all), tutti::Op::of<Summary>(join));

  const double variance = all.deviations / all.count;
  if (comm.rank() == 0) {
    std::printf("ranks: %d, values: %ld, mean 1e9 + %.6f, variance %.6f\n", comm.size(), kValues, all.mean - 1e9,
                variance);
  }
  // Of the digits 0 to 9, equally often: mean 4.5, variance 8.25.
  const bool right = all.count == kValues && std::abs(all.mean - 1e9 - 4.5) < 1e-6 && std::abs(variance - 8.25) < 1e-6;
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
