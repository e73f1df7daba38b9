// tutti demo: a first look. One ring all_reduce drawn, verified and run between processes; then what all_reduce costs
// on this machine, from 8 bytes to 4 megabytes, over shared memory and over TCP. Rows appear as they are measured.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>

#include "schedule/algorithms/table.h"
#include "schedule/readers/draw.h"
#include "schedule/readers/verify.h"
#include "tools/demo_timing.h"
#include "tools/selection.h"
#include "tools/verbs.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

struct Demo {
  int ranks;
  bool quick;
};

constexpr std::size_t kCheckedElements = 1'000'003;

void heading(int number, std::string_view text) {
  fmt::print("\n{}. {}\n\n", number, text);
  std::fflush(stdout);  // before ranks are forked, so that nothing is printed twice
}

void draw_ring() {
  heading(1, "A collective is plain data: the ring all_reduce of three ranks, as it plays");
  Selection ring{"all_reduce", "ring", 3};
  fmt::print("{}", schedule::draw(ring.programs()));
}

void verify_ring() {
  constexpr int kMost = 16;
  heading(2, fmt::format("So it can be proven before it runs: the same ring for 2 to {} ranks", kMost));
  const auto start = std::chrono::steady_clock::now();
  for (int ranks = 2; ranks <= kMost; ++ranks) {
    const Selection ring{"all_reduce", "ring", ranks};
    schedule::VerifyOptions options;
    options.count = static_cast<std::uint64_t>(ranks) * 96 - 5;
    options.segments = 2;
    const schedule::VerifyReport report = schedule::verify(ring.programs(), options);
    if (!report.ok()) throw Error(ErrorCode::system, "the ring does not verify: " + report.problems.front().message);
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  fmt::print(
      "   ✓ every output holds each rank's contribution exactly once\n"
      "   ✓ every message sent is received\n"
      "   ✓ no deadlock, whatever the timing\n"
      "   ✓ no race\n"
      "   in {:.0f} ms\n",
      took.count());
}

void run_ring(int ranks) {
  heading(3, fmt::format("And run: {} processes sum {} floats each, by the same ring", ranks, kCheckedElements));
  const std::string wrong = check_sum(ranks, "ring", kCheckedElements);
  if (!wrong.empty()) throw Error(ErrorCode::system, "the sum is wrong: " + wrong);
  fmt::print("   ✓ every element on every rank equals the plain sum\n");
}

std::string text_of_bytes(std::size_t bytes) {
  if (bytes >= (1 << 20)) return fmt::format("{} MB", bytes >> 20);
  if (bytes >= (1 << 10)) return fmt::format("{} KB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

std::string text_of_time(double us) {
  if (us >= 1000) return fmt::format("{:.2f} ms", us / 1000);
  return us >= 100 ? fmt::format("{:.0f} µs", us) : fmt::format("{:.2f} µs", us);
}

// Bars show the logarithm, because the times span five powers of ten: one more mark is a quarter more time.
std::string bar_of(double us) {
  constexpr double kMarksPerPower = 10, kShortest_us = 0.1;
  std::string bar;
  for (double mark = kMarksPerPower * std::log10(us / kShortest_us); mark >= 1; --mark) bar += "█";
  return bar.empty() ? "▏" : bar;
}

struct Way {
  const char* name;
  TransportKind transport;
  Memory memory;
};
constexpr Way kWays[] = {{"shared memory", TransportKind::shm, Memory::ordinary},
                         {"symmetric memory", TransportKind::shm, Memory::symmetric},
                         {"TCP", TransportKind::tcp, Memory::ordinary}};

void time_sweep(int ranks, bool quick) {
  heading(4, fmt::format("What it costs here: all_reduce of floats, {} processes, median of the slowest", ranks));
  std::vector<std::size_t> sizes{8, 512, 32 << 10, 512 << 10, 4 << 20};
  if (quick) sizes = {8, 4 << 10};
  fmt::print("   {:>7}  {:<17} {:>9} {:>11}  bars: logarithm of the time; algorithm\n", "vector", "", "time", "GB/s");
  for (const std::size_t size : sizes) {
    for (const Way& way : kWays) {
      const Timing timing = time_sum(ranks, way.transport, way.memory, size);
      fmt::print("   {:>7}  {:<17} {:>9} {:>11.3f}  {} {}\n", &way == kWays ? text_of_bytes(size) : "", way.name,
                 text_of_time(timing.median_us), static_cast<double>(size) / timing.median_us / 1000,
                 bar_of(timing.median_us), timing.algorithm);
      std::fflush(stdout);
    }
  }
  fmt::print(
      "\n   Symmetric memory comes from comm.allocate: every rank reaches it, so nothing is copied on the way.\n");
}

void say_next() {
  fmt::print(
      "\nNext\n"
      "   build/bin/tutti run -n 4 --no-prefix -- build/bin/cheatsheet   every verb, drawn as it happens\n"
      "   build/bin/tutti run -n 4 -- build/bin/hello                    the smallest program; copy examples/hello.cc\n"
      "   build/bin/tutti run -n 2 -- build/bin/overlap                  communication behind work; more in examples/\n"
      "   build/bin/tutti show all_to_all -n 4                           how an algorithm plays, round by round\n"
      "   build/bin/tutti verify all_reduce -a staged -n 7               proven: results, matching, no deadlock, no "
      "race\n"
      "   build/bin/tutti list                                           all algorithms, what they need and cost\n"
      "   docs/api.md                                                    every verb in C++ and C\n");
}

void run_demo(int ranks, bool quick) {
  fmt::print("Tutti: collective communication for distributed training\n");
  draw_ring();
  verify_ring();
  run_ring(ranks);
  time_sweep(ranks, quick);
  say_next();
}

}  // namespace

void add_demo(CLI::App& app, int& exit_code) {
  CLI::App* demo = app.add_subcommand("demo", "A first look: a ring drawn, verified and run, all_reduce timed");
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const auto asked = std::make_shared<Demo>(Demo{std::clamp(cores, 2, 4), false});
  demo->add_option("-n,--ranks", asked->ranks, "How many processes to run; if left out as many as cores, 2 to 4")
      ->type_name("N")
      ->check(CLI::Range(2, 64));
  demo->add_flag("--quick", asked->quick, "Time small vectors only");
  demo->callback([asked, &exit_code] {
    run_demo(asked->ranks, asked->quick);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
