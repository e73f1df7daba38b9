// Every algorithm there is: one row each. Adding one = one file, one row, one golden file.
#pragma once

#include <span>
#include <string_view>

#include "schedule/program.h"

namespace tutti::schedule {

struct Shape {
  int ranks = 1;
  int rank = 0;
  int root = 0;
};

struct Algorithm {
  Verb verb;
  std::string_view name;
  Program (*generate)(const Shape& shape);
  bool canonical;        // reductions follow the canonical order (the verifier's tests hold the row to it)
  bool user_windows;     // needs windows onto the callers' buffers
  bool scratch_windows;  // needs windows onto scratch
  // A lane for each edge, so that a rank needs to know only the counts of its own chunks: fit for every v-verb.
  bool per_edge = false;
  bool in_place = true;  // also runs in place (verbs.h)
  int credits = 1;       // the fewest that every edge must have
  // Its messages stay where they are until their receivers have copied them: nothing that was sent is written again.
  bool lent = false;
  bool lends_in_place = false;  // not even where input and output are one memory
};

// Whether its programs run on one memory where input and output are one. Where they would lend it and then overwrite
// it, the input is kept aside first.
inline bool runs_in_place(const Algorithm& row) { return row.in_place && (!row.lent || row.lends_in_place); }

std::span<const Algorithm> algorithms();
// More rows there are not, for those who keep something for each in plain data.
inline constexpr std::size_t kMostAlgorithms = 96;

// nullptr where there is none of that name.
const Algorithm* find_algorithm(Verb verb, std::string_view name);

// One file each, in the folder of the verb.
Program direct_all_reduce(const Shape& shape);
Program staged_all_reduce(const Shape& shape);
Program exchange_all_reduce(const Shape& shape);
Program one_shot_all_reduce(const Shape& shape);
Program recursive_doubling_all_reduce(const Shape& shape);
Program recursive_halving_all_reduce(const Shape& shape);
Program ring_all_reduce(const Shape& shape);
Program direct_broadcast(const Shape& shape);
Program staged_broadcast(const Shape& shape);
Program binomial_broadcast(const Shape& shape);
Program chain_broadcast(const Shape& shape);
Program scatter_all_gather_broadcast(const Shape& shape);
Program send_recv(const Shape& shape);
Program direct_reduce(const Shape& shape);
Program staged_reduce(const Shape& shape);
Program binomial_reduce(const Shape& shape);
Program recursive_halving_reduce(const Shape& shape);
Program direct_scatter(const Shape& shape);
Program binomial_scatter(const Shape& shape);
Program linear_scatter(const Shape& shape);
Program direct_gather(const Shape& shape);
Program binomial_gather(const Shape& shape);
Program linear_gather(const Shape& shape);
Program direct_all_gather(const Shape& shape);
Program staged_all_gather(const Shape& shape);
Program bruck_all_gather(const Shape& shape);
Program ring_all_gather(const Shape& shape);
Program direct_reduce_scatter(const Shape& shape);
Program staged_reduce_scatter(const Shape& shape);
Program recursive_halving_reduce_scatter(const Shape& shape);
Program pairwise_reduce_scatter(const Shape& shape);
Program ring_reduce_scatter(const Shape& shape);
Program direct_all_to_all(const Shape& shape);
Program staged_all_to_all(const Shape& shape);
Program bruck_all_to_all(const Shape& shape);
Program pairwise_all_to_all(const Shape& shape);
Program linear_all_to_all(const Shape& shape);
Program recursive_doubling_scan(const Shape& shape);
Program recursive_doubling_exclusive_scan(const Shape& shape);
Program direct_scan(const Shape& shape);
Program direct_exclusive_scan(const Shape& shape);
Program staged_scan(const Shape& shape);
Program staged_exclusive_scan(const Shape& shape);
Program counter_scan(const Shape& shape);
Program counter_exclusive_scan(const Shape& shape);
Program tree_scan(const Shape& shape);
Program tree_exclusive_scan(const Shape& shape);
Program exchange_scan(const Shape& shape);
Program exchange_exclusive_scan(const Shape& shape);
Program chain_scan(const Shape& shape);
Program chain_exclusive_scan(const Shape& shape);
Program lent_broadcast(const Shape& shape);
Program lent_scatter(const Shape& shape);
Program lent_gather(const Shape& shape);
Program lent_all_gather(const Shape& shape);
Program lent_all_to_all(const Shape& shape);
Program lent_reduce(const Shape& shape);
Program lent_reduce_scatter(const Shape& shape);
Program lent_scan(const Shape& shape);
Program lent_exclusive_scan(const Shape& shape);
Program lent_message(const Shape& shape);
Program flags_barrier(const Shape& shape);
Program dissemination_barrier(const Shape& shape);

}  // namespace tutti::schedule
