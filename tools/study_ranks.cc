#include "tools/study_ranks.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <span>
#include <thread>

#include "tools/bench/driver/layout.h"
#include "tools/bench/row.h"
#include "tutti/error.h"
#include "tutti/local.h"

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLongEnoughUs = 30'000;  // for one figure
constexpr int kWarmUp = 3, kMostCalls = 2000;

double us_of(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

// Numbers that forked ranks leave behind for the process that made them.
class SharedNumbers {
 public:
  explicit SharedNumbers(std::size_t count) : count_(count) {
    void* const memory =
        ::mmap(nullptr, count * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    numbers_ = static_cast<double*>(memory);
  }
  SharedNumbers(const SharedNumbers&) = delete;
  SharedNumbers& operator=(const SharedNumbers&) = delete;
  ~SharedNumbers() { ::munmap(numbers_, count_ * sizeof(double)); }

  double& operator[](std::size_t i) { return numbers_[i]; }

 private:
  std::size_t count_;
  double* numbers_ = nullptr;
};

// Buffers of a call, and the call.
struct OwnCall {
  OwnCall(const Communicator& comm, Verb verb, std::uint64_t bytes) {
    bench::Seat seat;
    seat.cell.verb = verb;
    seat.cell.count = bench::count_for(verb, DType::float32, comm.size(), bytes);
    seat.rank = comm.rank();
    seat.ranks = comm.size();
    input.resize(seat.input_count());
    output.resize(seat.output_count());
    request = {.verb = verb,
               .input = input.data(),
               .output = output.data(),
               .input_count = seat.input_count(),
               .output_count = seat.output_count(),
               .element = DType::float32};
  }

  std::vector<float> input, output;
  Request request;
};

double slowest(Communicator& comm, double us) {
  comm.all_reduce(std::span(&us, 1), ReduceOp::maximum);
  return us;
}

void require_ends(const std::vector<RankEnd>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (ends[rank].ok()) continue;
    throw Error(ErrorCode::aborted, "rank " + std::to_string(rank) + " of the study failed: " +
                                        (ends[rank].message.empty() ? "it ended by itself" : ends[rank].message));
  }
}

// Arithmetic that nobody can leave out, for so long.
void compute_for(double us) {
  volatile double kept = 1;
  const auto until = Clock::now() + std::chrono::duration<double, std::micro>(us);
  while (Clock::now() < until)
    for (int i = 0; i < 100; ++i) kept = kept * 1.0000001 + 1e-9;
}

void work_for(double us, bool sleeps) {
  if (us <= 0) return;
  if (sleeps)
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
  else
    compute_for(us);
}

}  // namespace

TimedCall time_call(Verb verb, int ranks, std::uint64_t bytes) {
  SharedNumbers told(2);
  require_ends(run_processes(
      ranks,
      [&](Communicator& comm) {
        OwnCall call(comm, verb, bytes);
        for (int i = 0; i < kWarmUp; ++i) comm.run(call.request);
        const auto timed = [&](int calls) {
          comm.barrier();
          const auto begin = Clock::now();
          for (int i = 0; i < calls; ++i) comm.run(call.request);
          return slowest(comm, us_of(Clock::now() - begin) / calls);
        };
        const double once = timed(kWarmUp);
        const double us = timed(std::clamp(static_cast<int>(kLongEnoughUs / std::max(once, 0.1)), 1, kMostCalls));
        if (comm.rank() != 0) return;
        told[0] = us;
        told[1] = comm.predicted_us(call.request);
      },
      {}, true));
  return {told[0], told[1]};
}

StepsTaken take_steps(const StepsRequest& asked) {
  const auto ranks = static_cast<std::size_t>(asked.ranks), steps = static_cast<std::size_t>(asked.steps);
  // Of every rank and step: when it called, when the call was done, and how long it had worked; then the prediction.
  SharedNumbers told(3 * ranks * steps + 1);
  Options options;
  if (!asked.algorithm.empty()) {
    options.algorithm = std::string(name_of(asked.verb)) + "=" + asked.algorithm;
    options.deterministic = false;
  }
  require_ends(run_processes(
      asked.ranks,
      [&](Communicator& comm) {
        const auto rank = static_cast<std::size_t>(comm.rank());
        OwnCall call(comm, asked.verb, asked.bytes);
        const double work_us = asked.work_us * (asked.slower.empty() ? 1 : asked.slower[rank]);
        for (std::size_t i = 0; i < kWarmUp + steps; ++i) {
          const auto begin = Clock::now();
          work_for(work_us, asked.sleeps);
          const auto called = Clock::now();
          comm.run(call.request);
          const auto done = Clock::now();
          if (i < kWarmUp) continue;
          double* const own = &told[3 * (rank * steps + i - kWarmUp)];
          own[0] = us_of(called.time_since_epoch());  // one clock for all processes of a host
          own[1] = us_of(done.time_since_epoch());
          own[2] = us_of(called - begin);
        }
        comm.barrier();
        if (rank == 0) told[3 * ranks * steps] = comm.predicted_us(call.request);
      },
      options, true));
  StepsTaken taken;
  taken.predicted_us = told[3 * ranks * steps];
  std::vector<std::vector<double>> work(ranks), call(ranks);
  double before = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    double first = 0, last = 0;
    std::vector<double> arrived;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double* const own = &told[3 * (rank * steps + step)];
      arrived.push_back(own[0]);
      first = rank == 0 ? own[0] - own[2] : std::min(first, own[0] - own[2]);
      last = std::max(last, own[1]);
      work[rank].push_back(own[2]);
      call[rank].push_back(own[1] - own[0]);
    }
    taken.step_us.push_back(last - (step == 0 ? first : before));
    before = last;
    const double earliest = *std::ranges::min_element(arrived);
    for (double& us : arrived) us -= earliest;
    taken.arrivals.push_back(std::move(arrived));
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    taken.work_us.push_back(bench::median_of(work[rank]));
    taken.call_us.push_back(bench::median_of(call[rank]));
  }
  return taken;
}

}  // namespace tutti::tools
