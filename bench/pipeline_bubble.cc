// The bubble of pipelines as they run: stages that sleep in the place of computing, in every schedule, as a rank of any
// job; the stages are its ranks.
//
//   tutti run -n 4 --no-prefix -- build/bin/pipeline_bubble
//   tutti run -n 4 --no-prefix -- build/bin/pipeline_bubble --unit-ms 20 --microbatches 16 --bytes 4194304 --within 10
//   ... --schedule 1f1b --json FILE       one schedule alone, and what its step takes in a file
//
// A forward of a stage sleeps for a unit, a backward for two, input and weight gradients for one each. The bubble is
// what a step takes beyond the time that the busiest stage's engine was in, over that time; medians over rounds. Ends
// with 1 where one is not within so many percent of its formula; with --tries 3 it is measured twice more before, for
// other work on the machine wakes sleepers late, for a while.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "strategy/pipeline_play.h"
#include "tutti/train/pipeline.h"
#include "tutti/tutti.hpp"

namespace {

using tutti::train::PipelineArray;
using tutti::train::PipelineSchedule;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kRounds = 7;

struct Asked {
  double unit_ms = 10, within = 0;
  int microbatches = 8, chunks = 2, tries = 1;
  std::size_t bytes = 65536;
  std::string schedule, json;
};

Asked asked_by(int argc, char** argv) {
  Asked asked;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const double number = std::atof(argv[i + 1]);
    if (name == "--unit-ms") asked.unit_ms = number;
    if (name == "--within") asked.within = number;
    if (name == "--microbatches") asked.microbatches = static_cast<int>(number);
    if (name == "--chunks") asked.chunks = static_cast<int>(number);
    if (name == "--tries") asked.tries = static_cast<int>(number);
    if (name == "--bytes") asked.bytes = static_cast<std::size_t>(number);
    if (name == "--schedule") asked.schedule = argv[i + 1];
    if (name == "--json") asked.json = argv[i + 1];
  }
  return asked;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// An engine that sleeps, and counts how long.
class Sleeper {
 public:
  Sleeper(const Asked& asked, const tutti::strategy::PipelineShape& shape, int stage)
      : unit_(asked.unit_ms / shape.chunks), shape_(shape), stage_(stage) {
    array_.shape = {tutti::DType::uint8, {static_cast<std::int64_t>(asked.bytes)}};
    array_.memory = std::shared_ptr<void>(new std::byte[asked.bytes](),
                                          [](void* memory) { delete[] static_cast<std::byte*>(memory); });
  }

  tutti::train::PipelineEngine engine() {
    tutti::train::PipelineEngine engine;
    engine.forward = [this](int, int chunk, const PipelineArray&) {
      sleep(1);
      return place(chunk) + 1 < shape_.places() ? array_ : PipelineArray();
    };
    const auto back = [this](double units) {
      return [this, units](int, int chunk, const PipelineArray&) {
        sleep(units);
        return place(chunk) > 0 ? array_ : PipelineArray();
      };
    };
    engine.backward = back(2);
    engine.input_gradient = back(1);
    engine.weight_gradient = [this](int, int) { sleep(1); };
    return engine;
  }
  double take_slept() { return std::exchange(slept_, 0); }

 private:
  int place(int chunk) const { return chunk * shape_.stages + stage_; }
  void sleep(double units) {
    const Clock::time_point began = Clock::now();
    std::this_thread::sleep_for(units * unit_);
    slept_ += Milliseconds(Clock::now() - began).count();
  }

  Milliseconds unit_;
  tutti::strategy::PipelineShape shape_;
  int stage_;
  PipelineArray array_;
  double slept_ = 0;
};

// False where the bubble is not within what was asked for.
bool measure(tutti::Communicator& comm, const Asked& asked, PipelineSchedule schedule) {
  const int chunks = schedule == PipelineSchedule::interleaved ? asked.chunks : 1;
  const tutti::strategy::PipelineShape shape{schedule, comm.size(), asked.microbatches, chunks};
  Sleeper sleeper(asked, shape, comm.rank());
  tutti::train::Pipeline pipeline(comm, sleeper.engine(),
                                  {.schedule = schedule, .microbatches = asked.microbatches, .chunks = chunks});
  pipeline.step();  // shapes, plans, connections
  std::vector<double> bubbles, steps, works;
  for (int round = 0; round < kRounds; ++round) {
    static_cast<void>(sleeper.take_slept());
    comm.barrier();
    const Clock::time_point began = Clock::now();
    pipeline.step();
    std::array<double, 2> took{Milliseconds(Clock::now() - began).count(), sleeper.take_slept()};
    comm.all_reduce(took, tutti::ReduceOp::maximum);
    steps.push_back(took[0]);
    works.push_back(took[1]);
    bubbles.push_back((took[0] - took[1]) / took[1]);
  }
  const double expected = bubble_by_formula(shape, {}).value_or(std::nan("")), found = median(bubbles);
  const double off = expected > 0 ? 100 * (found / expected - 1) : 0;
  if (comm.rank() == 0) {
    std::printf("%-12s %7.1f ms work  %7.1f ms a step  bubble %5.1f %%  by formula %5.1f %%  off by %+.1f %%\n",
                std::string(name_of(schedule)).c_str(), median(works), median(steps), 100 * found, 100 * expected, off);
    if (!asked.json.empty()) std::ofstream(asked.json) << median(steps) << "\n";
  }
  return asked.within == 0 || std::isnan(expected) || std::abs(off) <= asked.within;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Asked asked = asked_by(argc, argv);
    tutti::Communicator comm = tutti::init();
    bool good = true;
    for (std::size_t number = 0; number < tutti::train::kPipelineSchedules; ++number) {
      const auto schedule = static_cast<PipelineSchedule>(number);
      if (!asked.schedule.empty() && asked.schedule != name_of(schedule)) continue;
      bool within = false;  // all ranks see the same figures
      for (int tried = 0; tried < asked.tries && !within; ++tried) within = measure(comm, asked, schedule);
      good = good && within;
    }
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
