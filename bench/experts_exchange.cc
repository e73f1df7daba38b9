// What it takes to bring rows to experts and their outputs back, as a rank of any job: an expert on every rank, whose
// output is its input.
//
//   tutti run -n 8 --no-prefix -- build/bin/experts_exchange --tokens 4096 --width 1024 --top-k 2
//   ... --experts-per-rank 4 --two-levels 1 --json FILE
//
// Who goes where is decided before, at random. Times are those of the slowest rank, medians over steps.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tutti/train/experts.h"
#include "tutti/tutti.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kSettling = 2;  // steps that find out and allocate

struct Asked {
  std::size_t tokens = 4096, width = 1024;
  int top_k = 2, per_rank = 1, steps = 9;
  bool two_levels = false;
  std::string json;
};

Asked asked_by(int argc, char** argv) {
  Asked asked;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const int number = std::atoi(argv[i + 1]);
    if (name == "--tokens") asked.tokens = static_cast<std::size_t>(number);
    if (name == "--width") asked.width = static_cast<std::size_t>(number);
    if (name == "--top-k") asked.top_k = number;
    if (name == "--experts-per-rank") asked.per_rank = number;
    if (name == "--steps") asked.steps = number;
    if (name == "--two-levels") asked.two_levels = number != 0;
    if (name == "--json") asked.json = argv[i + 1];
  }
  return asked;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<float> numbers(std::size_t count, int seed) {
  std::mt19937 chance(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  std::vector<float> made(count);
  for (float& number : made) number = normal(chance);
  return made;
}

void run(tutti::Communicator& comm, const Asked& asked) {
  const int all = asked.per_rank * comm.size();
  tutti::train::Experts experts(comm, all, asked.width, {.two_levels = asked.two_levels});
  const std::vector<float> tokens = numbers(asked.tokens * asked.width, comm.rank());
  const tutti::train::Routing routing =
      tutti::train::route(numbers(asked.tokens * static_cast<std::size_t>(all), 1000 + comm.rank()),
                          {.experts = all, .top_k = asked.top_k});
  std::vector<float> outputs, result(tokens.size());
  std::vector<double> dispatches, combines, steps;
  for (int step = 0; step < kSettling + asked.steps; ++step) {
    comm.barrier();
    const Clock::time_point began = Clock::now();
    const std::span<const float> rows = experts.dispatch(routing, tokens);
    const Clock::time_point dispatched = Clock::now();
    outputs.assign(rows.begin(), rows.end());  // what experts would do
    const Clock::time_point computed = Clock::now();
    experts.combine(outputs, result);
    const Clock::time_point combined = Clock::now();
    const double dispatch = Milliseconds(dispatched - began).count(),
                 combine = Milliseconds(combined - computed).count();
    std::array<double, 3> took{dispatch, combine, dispatch + combine};
    comm.all_reduce(took, tutti::ReduceOp::maximum);
    if (step < kSettling) continue;
    dispatches.push_back(took[0]);
    combines.push_back(took[1]);
    steps.push_back(took[2]);
  }
  if (comm.rank() != 0) return;
  std::printf("%d ranks, %zu tokens of %zu floats, top %d of %d: dispatch %.2f ms, combine %.2f ms, both %.2f ms\n",
              comm.size(), asked.tokens, asked.width, asked.top_k, all, median(dispatches), median(combines),
              median(steps));
  if (!asked.json.empty()) std::ofstream(asked.json) << median(steps) << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    tutti::Communicator comm = tutti::init();
    run(comm, asked_by(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
