// How fast a parameter server is, as a rank of any job; rank 0 serves, all others work.
//
//   tutti run -n 2 --no-prefix -- build/bin/server_rates rows    pushes and pulls of 10^5 rows of 64 floats
//   tutti run -n 9 --no-prefix -- build/bin/server_rates pace    updates a second of workers that sleep for their work
//
// rows: bytes a second of push_rows() and pull_rows() of every third row of a table, beside memcpy of the same rows, to
// and from a table of this process, and beside memcpy of as many bytes in one piece; medians over rounds.
//
// pace: a worker sleeps for a unit in each of its clocks, or for ten where it is slow: one of them by chance in every
// clock, the same everywhere, or always the last one. Updates a second in each way of keeping workers together, over
// those of synchronous ones.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tutti/train/parameter_server.h"
#include "tutti/tutti.hpp"

namespace {

namespace train = tutti::train;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Part>
double seconds_of(const Part& part) {
  const Clock::time_point began = Clock::now();
  part();
  return Seconds(Clock::now() - began).count();
}

// ---- Rows.

constexpr std::size_t kRows = 100'000, kWidth = 64, kApart = 3;
constexpr int kRounds = 11;

void measure_rows(train::ParameterServer& server) {
  std::vector<std::int64_t> rows(kRows);
  for (std::size_t i = 0; i < kRows; ++i) rows[i] = static_cast<std::int64_t>(i * kApart);
  std::vector<float> gradient(kRows * kWidth, 1.0F), values(kRows * kWidth);
  std::vector<float> table(kRows * kApart * kWidth, 1.0F);
  const auto row_of = [&](std::size_t i) { return table.data() + i * kApart * kWidth; };
  constexpr std::size_t kRowBytes = kWidth * sizeof(float);
  std::vector<double> push, pull, scatter, gather, whole;
  for (int round = 0; round < kRounds; ++round) {
    push.push_back(seconds_of([&] { server.push_rows(0, rows, gradient); }));
    pull.push_back(seconds_of([&] { server.pull_rows(0, rows, values); }));
    scatter.push_back(seconds_of([&] {
      for (std::size_t i = 0; i < kRows; ++i) std::memcpy(row_of(i), gradient.data() + i * kWidth, kRowBytes);
    }));
    gather.push_back(seconds_of([&] {
      for (std::size_t i = 0; i < kRows; ++i) std::memcpy(values.data() + i * kWidth, row_of(i), kRowBytes);
    }));
    whole.push_back(seconds_of([&] { std::memcpy(values.data(), gradient.data(), kRows * kRowBytes); }));
  }
  const double bytes = static_cast<double>(kRows * kRowBytes) / 1e9;
  const auto tell = [&](const char* what, double took, double rows_took) {
    std::printf("%-14s %6.2f GB/s; memcpy of the same rows %6.2f GB/s, in one piece %6.2f GB/s: %.2f, %.2f of it\n",
                what, bytes / took, bytes / rows_took, bytes / median(whole), rows_took / took, median(whole) / took);
  };
  tell("push", median(push), median(scatter));
  tell("pull", median(pull), median(gather));
  tell("push and pull", (median(push) + median(pull)) / 2, (median(scatter) + median(gather)) / 2);
}

void run_rows(tutti::Communicator& comm) {
  train::ParameterServer server(comm, {{.name = "table", .shape = {kRows * kApart, kWidth}, .table = true}},
                                train::Sgd{.learning_rate = 0.1}, {.consistency = train::Consistency::asynchronous});
  if (server.serves()) {
    server.serve();
    return;
  }
  if (comm.rank() == 1) measure_rows(server);
  server.finish();
}

// ---- Paces.

struct Way {
  const char* name;
  train::Consistency consistency;
};
constexpr Way kWays[] = {{"synchronous", train::Consistency::synchronous},
                         {"stale, bound 4", train::Consistency::stale},
                         {"asynchronous", train::Consistency::asynchronous}};

double updates_a_second(tutti::Communicator& comm, const Way& way, bool always, double unit_ms, double seconds) {
  train::ParameterServer server(comm, {{.name = "w", .shape = {64}}}, train::Sgd{.learning_rate = 0.1},
                                {.consistency = way.consistency, .bound = 4});
  double updates = 0;
  if (server.serves()) {
    for (const std::int64_t clocks : server.serve().clocks) updates += static_cast<double>(clocks);
  } else {
    const std::vector<float> gradient(64, 1.0F);
    const int workers = server.workers(), worker = comm.rank() - 1;
    std::mt19937 chance(7);  // the same on all ranks
    const Clock::time_point began = Clock::now();
    while (Seconds(Clock::now() - began).count() < seconds) {
      const int slow = always ? workers - 1 : static_cast<int>(chance() % static_cast<unsigned>(workers));
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(unit_ms * (worker == slow ? 10 : 1)));
      server.push(0, gradient);
      server.clock();
    }
    server.finish();
  }
  comm.broadcast(tutti::one(updates), 0);
  return updates / seconds;
}

void run_pace(tutti::Communicator& comm, double unit_ms, double seconds) {
  for (const bool always : {false, true}) {
    double synchronous = 0;
    for (const Way& way : kWays) {
      const double rate = updates_a_second(comm, way, always, unit_ms, seconds);
      if (way.consistency == train::Consistency::synchronous) synchronous = rate;
      if (comm.rank() == 0)
        std::printf("%-26s %-16s %8.1f updates/s, %.2f of synchronous\n",
                    always ? "one worker always slow" : "one by chance in a clock", way.name, rate, rate / synchronous);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what != "rows" && what != "pace")
      throw std::runtime_error("usage: server_rates rows | pace [UNIT_MS [SECONDS]]");
    tutti::Communicator comm = tutti::init();
    if (what == "rows") run_rows(comm);
    if (what == "pace") run_pace(comm, argc > 2 ? std::atof(argv[2]) : 5, argc > 3 ? std::atof(argv[3]) : 6);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
