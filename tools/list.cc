// tutti list: every row of the algorithm table, with what it needs and what it costs a rank.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "schedule/algorithms/table.h"
#include "schedule/readers/traffic.h"
#include "tools/selection.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

void print_table(int ranks, std::optional<Verb> only) {
  fmt::print("{:<15} {:<19} {:<13} {:<18} {:>5}  {:<8} {}\n", "verb", "algorithm", "order", "needs", "steps", "moves",
             "of the least");
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    if (only && row.verb != *only) continue;
    const int among = row.verb == Verb::send_recv ? std::min(ranks, 2) : ranks;
    if (!schedule::fits(row, among)) {
      fmt::print("{:<15} {:<19} {:<13} {:<18} {:>5}  {:<8}\n", name_of(row.verb), row.name,
                 row.canonical() ? "canonical" : "its own", needs_of(row), "-", "no grid");
      continue;
    }
    const schedule::BusiestRank busiest = schedule::busiest_of(row, among);
    const double least = schedule::least_moved(row.verb, among);
    fmt::print("{:<15} {:<19} {:<13} {:<18} {:>5}  {:<8} {}\n", name_of(row.verb), row.name,
               row.canonical() ? "canonical" : "its own", needs_of(row), busiest.steps,
               fmt::format("{:.4g} n", busiest.moved),
               least > 0 && only_sends(row) ? fmt::format("{:.3g} x", busiest.moved / least) : "");
  }
  fmt::print(
      "\nsteps, moves: of the busiest of {} ranks, for a vector, or chunks, of n bytes in all; moved are bytes sent or "
      "received, whichever are more, loaded and stored. of the least: of what its link has to carry, whatever the "
      "algorithm.\n"
      "no grid: so many ranks are a prime number, and cannot be in rows and columns.\n"
      "canonical: all algorithms of this order give the same bits; one with its own order repeats only its own.\n"
      "next: tutti show all_reduce --algorithm ring -n 4\n",
      ranks);
}

}  // namespace

void add_list(CLI::App& app, int& exit_code) {
  CLI::App* list = app.add_subcommand("list", "List the algorithms, what they need and what they cost");
  const auto ranks = std::make_shared<int>(4);
  list->add_option("-n,--ranks", *ranks, "Count steps and bytes for this many ranks; 4 if left out")->type_name("N");
  const auto verb = std::make_shared<std::string>();
  list->add_option("verb", *verb, "Only those of this collective")->type_name("VERB");
  list->callback([ranks, verb, &exit_code] {
    if (*ranks < 1 || *ranks > 1024) refuse(fmt::format("-n must be 1 to 1024, not {}", *ranks));
    print_table(*ranks, verb->empty() ? std::nullopt : std::optional(verb_named(*verb)));
    exit_code = 0;
  });
}

}  // namespace tutti::tools
