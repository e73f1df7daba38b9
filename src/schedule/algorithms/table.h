// Every algorithm there is: one row each, in algorithms.def. Adding one = one file, one row, one golden file.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/canonical.h"
#include "base/hosts.h"
#include "schedule/verbs.h"

namespace tutti::schedule {

// What a program is generated for: the same on all ranks but for `rank`.
struct Placement {
  int ranks = 1;
  int rank = 0;
  int root = 0;
  Hosts hosts = {};  // which ranks share a host
};

// Which calls an algorithm is a candidate for: those whose chunks have one count, v-variants, or both.
enum class Counts : std::uint8_t { even, uneven, any };

// In which order a row reduces: in that of the ranks, hosts first (canonical.h; on one host they are the same), or in
// one of its own.
enum class Order : std::uint8_t { ranks, hosts, own };

// A row of algorithms.def. What it needs decides where it is a candidate, and its price whether it is chosen.
struct Algorithm {
  Verb verb;
  std::string_view name;
  Program (*generate)(const Placement& placement);
  Order order = Order::ranks;    // of reductions (the verifier's tests hold the row to it)
  bool user_windows = false;     // needs windows onto the callers' buffers
  bool scratch_windows = false;  // needs windows onto scratch
  // A lane for each edge, so that a rank needs to know only the counts of its own chunks: fit for every v-verb.
  bool per_edge = false;
  bool in_place = true;       // also runs in place (verbs.h)
  std::uint32_t credits = 1;  // the fewest that every edge must have where operands lie in its slots
  // Its messages stay where they are until their receivers have copied them: nothing that was sent is written again.
  bool single_copy = false;
  bool single_copy_in_place = false;  // not even where input and output are one memory
  bool only_messages = false;         // no candidate where ranks reach each other's scratch
  bool hierarchical = false;          // made of programs inside hosts and across them: for several hosts only
  bool grid = false;                  // along the rows and columns of a grid of the ranks
  Counts counts = Counts::even;
  bool alike = false;        // all ranks have the same text, whatever their number
  bool untimed = false;      // newer than some built-in surveys: by these chosen only where it is far ahead
  std::string_view good_at;  // for people

  // On one host, and for verbs that do not reduce anywhere.
  bool canonical() const { return order != Order::own; }
  bool is_for_even() const { return counts != Counts::uneven; }
  bool is_for_uneven() const { return counts != Counts::even; }
};

// The shorter side of the grid that so many ranks make, the nearest to a square; 1 where their number is prime.
constexpr int rows_of_grid(int ranks) {
  int rows = 1;
  for (int side = 2; side <= ranks / side; ++side) {
    if (ranks % side == 0) rows = side;
  }
  return rows;
}
// Whether its programs are made for so many ranks.
constexpr bool fits(const Algorithm& row, int ranks) { return !row.grid || ranks == 1 || rows_of_grid(ranks) > 1; }

// Whether it reduces in the canonical order of a group: hosts first where there are several. `ranks_will_do`: the order
// of the ranks alone is that (joins_hosts_first).
inline bool is_canonical(const Algorithm& row, bool ranks_will_do) {
  const bool by_hosts = facts_of(row.verb).reduces && !facts_of(row.verb).prefix;
  return row.canonical() && (!by_hosts || row.order == Order::hosts || ranks_will_do);
}
inline bool is_canonical(const Algorithm& row, const Hosts& hosts, int ranks) {
  return is_canonical(row, joins_hosts_first(hosts, ranks));
}
// Whether operands keep the order of their ranks, for operators that are not commutative.
inline bool keeps_order(const Algorithm& row, const Hosts& hosts) {
  return row.order == Order::ranks || (row.order == Order::hosts && hosts.in_order());
}

// Whether its programs run on one memory where input and output are one. Where peers still copy from it while the call
// overwrites it, the input is kept aside first.
inline bool runs_in_place(const Algorithm& row) {
  return row.in_place && (!row.single_copy || row.single_copy_in_place);
}

// Whether its programs run v-variants: with a lane for each edge, or where every rank knows every count. Windows onto
// others' buffers need their displacements as well, which only their owners know.
inline bool takes_uneven(const Algorithm& row) {
  return row.per_edge || (facts_of(row.verb).all_know_counts && !row.user_windows);
}

// Messages and nothing else go between its ranks.
inline bool only_sends(const Algorithm& row) { return !row.user_windows && !row.scratch_windows; }
// For people: what the group must have.
inline std::string_view needs_of(const Algorithm& row) {
  if (row.user_windows) return "symmetric buffers";
  if (row.single_copy) return "readable peers";
  return row.scratch_windows ? "shared scratch" : "messages";
}

std::span<const Algorithm> algorithms();
extern const Algorithm* const kFirstAlgorithm;  // of them
// More rows there are not, for those who keep something for each in plain data.
inline constexpr std::size_t kMostAlgorithms = 96;

// nullptr where there is none of that name.
const Algorithm* find_algorithm(Verb verb, std::string_view name);

// Differs between builds whose tables do: their ranks could run different programs.
std::uint64_t hash_of_table();

}  // namespace tutti::schedule
