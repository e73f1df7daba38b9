#include "tools/step_times.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <string>

#include "tutti/train/optimizer.h"

namespace tutti::tools {
namespace {

constexpr int kStages = 4, kUnitStage = 3;
constexpr int kWarmUp = 4;  // in the first, buckets are laid out anew

constexpr std::uint64_t kBytes[] = {4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
constexpr std::uint64_t kQuickBytes[] = {4 << 10, 1 << 20};
// A strategy holds three units at once: fewer than six would hardly be gathered again. Of buckets, one more than one.
int fewest_buckets(int stage) { return stage == kUnitStage ? 6 : 2; }

// All shapes are measured so often, one behind the other, and the quickest of a shape's medians counts: what holds one
// of them up seldom holds up all.
constexpr int kPasses = 3;

// Models that are no longer in the caches, as far as all ranks' gradients together are not more than that.
constexpr std::uint64_t kMostBytesOfRank = 128 << 20, kMostBytesOfAll = 512 << 20;

struct StepShape {
  std::uint64_t bytes = 0;
  int buckets = 0;
};

std::vector<StepShape> shapes_of(int stage, int ranks, bool quick) {
  const auto many = static_cast<std::uint64_t>(ranks);
  const std::uint64_t most = std::min(kMostBytesOfRank, kMostBytesOfAll / many);
  std::vector<StepShape> shapes;
  for (const std::uint64_t bytes : quick ? std::span<const std::uint64_t>(kQuickBytes) : kBytes) {
    const int buckets = fewest_buckets(stage);
    if (bytes * static_cast<std::uint64_t>(buckets) <= most || shapes.empty()) shapes.push_back({bytes, buckets});
  }
  const StepShape last = shapes.back();
  const auto room = static_cast<int>(most / last.bytes);
  if (!quick && room > last.buckets) shapes.push_back({last.bytes, room});
  return shapes;
}

topology::MeasuredStep measure_step(Communicator& comm, int stage, const StepShape& shape, const StepRounds& rounds) {
  IdleModel model;
  for (int i = 0; i < shape.buckets; ++i)
    model.add("bucket " + std::to_string(i), shape.bytes / sizeof(float), static_cast<std::size_t>(i));
  const train::StrategyOptions options{.bucket_bytes = shape.bytes};
  train::Strategy strategy = stage == 0 ? train::data_parallel(comm, model.parameters, train::Sgd{}, options)
                                        : train::zero(stage, comm, model.parameters, train::Sgd{}, options);
  return {stage, shape.bytes, shape.buckets, time_step(comm, strategy, model, rounds).median_s};
}

}  // namespace

void spread_over_cores(Communicator& comm) {
  comm.barrier();
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < until) continue;
  comm.barrier();
}

StepTime time_step(Communicator& comm, train::Strategy& strategy, const IdleModel& model, const StepRounds& rounds) {
  std::vector<double> times;
  double whole = 0;  // alike on all ranks
  for (int i = 0; i < kWarmUp + rounds.most && (i < kWarmUp + rounds.fewest || whole < rounds.seconds); ++i) {
    strategy.zero_gradients();
    comm.barrier();
    model.step(strategy, [](std::size_t) {});
    const train::Report report = strategy.report();
    std::array<double, 1> slowest{report.gamma_raw * report.times.computing_us * 1e-6};
    comm.all_reduce(slowest, ReduceOp::maximum);
    if (i < kWarmUp) continue;
    whole += slowest[0];
    times.push_back(slowest[0]);
  }
  std::ranges::sort(times);
  return {times[times.size() / 2], times.front()};
}

std::vector<topology::MeasuredStep> measure_steps(Communicator& comm, const std::function<void(double)>& say,
                                                  bool quick) {
  const StepRounds rounds = quick ? StepRounds{.fewest = 3, .most = 3} : StepRounds();
  const int passes = quick ? 1 : kPasses;
  std::vector<topology::MeasuredStep> steps;
  for (int pass = 0; pass < passes; ++pass) {
    std::size_t next = 0;
    spread_over_cores(comm);
    for (int stage = 0; stage < kStages; ++stage) {
      for (const StepShape& shape : shapes_of(stage, comm.size(), quick)) {
        const topology::MeasuredStep step = measure_step(comm, stage, shape, rounds);
        if (pass == 0) steps.push_back(step);
        steps[next].seconds = std::min(steps[next].seconds, step.seconds);
        ++next;
      }
      if (say && comm.rank() == 0) say(static_cast<double>(pass * kStages + stage + 1) / (passes * kStages));
    }
  }
  return steps;
}

}  // namespace tutti::tools
