// tutti demo: a first look. One ring all_reduce drawn, verified, run between processes and timed, in about ten seconds.
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

void print_bar(std::string_view size, std::string_view name, const Timing& timing, double longest_us) {
  constexpr double kColumns = 40;
  const auto length = static_cast<std::size_t>(std::max(1.0, std::round(kColumns * timing.median_us / longest_us)));
  std::string bar;
  for (std::size_t i = 0; i < length; ++i) bar += "█";
  fmt::print("   {:>7}  {:<18} {:>9}  {} {}\n", size, name, text_of_time(timing.median_us), bar, timing.algorithm);
}

void time_ring(int ranks, bool quick) {
  heading(4, fmt::format("How long it takes: all_reduce of floats, {} processes, median (shorter is better)", ranks));
  std::vector<std::size_t> sizes{64, 4 << 10, 256 << 10, 4 << 20, 16 << 20};
  if (quick) sizes = {64, 4 << 10};
  const std::vector<Timing> ring = time_sums(ranks, "ring", Memory::ordinary, sizes);
  const std::vector<Timing> ordinary = time_sums(ranks, "", Memory::ordinary, sizes);
  const std::vector<Timing> symmetric = time_sums(ranks, "", Memory::symmetric, sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double longest = std::max({ring[i].median_us, ordinary[i].median_us, symmetric[i].median_us});
    print_bar(text_of_bytes(sizes[i]), "the ring", ring[i], longest);
    print_bar("", "chosen by Tutti", ordinary[i], longest);
    print_bar("", "symmetric memory", symmetric[i], longest);
  }
  fmt::print("\n   Symmetric memory comes from communicator.allocate: every rank reaches it, so nothing is copied.\n");
}

void say_next() {
  fmt::print(
      "\nNext\n"
      "   build/bin/tutti run -n 4 -- build/bin/hello                           a program of your own, on four ranks\n"
      "   build/bin/tutti show all_reduce --algorithm recursive_halving -n 8    another way to the same sum\n"
      "   build/bin/tutti verify all_reduce --algorithm staged -n 4 --segments 3\n"
      "   build/bin/tutti list                                                  all algorithms\n"
      "   README.md                                                             the same in twenty lines of C++\n");
}

void run_demo(int ranks, bool quick) {
  fmt::print("Tutti: collective communication for distributed training\n");
  draw_ring();
  verify_ring();
  run_ring(ranks);
  time_ring(ranks, quick);
  say_next();
}

}  // namespace

void add_demo(CLI::App& app, int& exit_code) {
  CLI::App* demo = app.add_subcommand("demo", "A first look: a ring drawn, verified, run and timed on this machine");
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
