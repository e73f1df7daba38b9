#include "engine/candidates.h"

#include <array>

#include "base/mix.h"
#include "schedule/algorithms/table.h"

namespace tutti::engine {
namespace {

using Where = Candidate::Where;

constexpr std::array kCandidates = {
    Candidate{Verb::all_reduce, "exchange", Where::anywhere, "one message deep"},
    Candidate{Verb::all_reduce, "recursive_doubling", Where::anywhere, "fewest rounds"},
    Candidate{Verb::all_reduce, "recursive_halving", Where::anywhere, "each byte moves twice, the least there is"},
    Candidate{Verb::all_reduce, "ring", Where::anywhere, "each byte moves twice, between neighbours only"},
    Candidate{Verb::all_reduce, "one_shot", Where::memory, "one wait for the others"},
    Candidate{Verb::all_reduce, "staged", Where::memory, "each rank reduces its chunk out of shared memory"},
    Candidate{Verb::all_reduce, "direct", Where::symmetric, "no copies"},

    Candidate{Verb::broadcast, "binomial", Where::anywhere, "fewest rounds"},
    Candidate{Verb::broadcast, "chain", Where::anywhere, "no rank sends more than once"},
    Candidate{Verb::broadcast, "scatter_all_gather", Where::anywhere, "no rank sends the whole more than twice"},
    Candidate{Verb::broadcast, "staged", Where::memory, "all read what the root stages"},
    Candidate{Verb::broadcast, "lent", Where::lending, "one copy, out of the sender's own memory"},
    Candidate{Verb::broadcast, "direct", Where::symmetric, "no copies"},

    Candidate{Verb::reduce, "binomial", Where::anywhere, "fewest rounds"},
    Candidate{Verb::reduce, "recursive_halving", Where::anywhere, "all ranks share the additions"},
    Candidate{Verb::reduce, "staged", Where::memory, "each rank reduces its share out of shared memory"},
    Candidate{Verb::reduce, "lent", Where::lending, "one copy, out of the sender's own memory"},
    Candidate{Verb::reduce, "direct", Where::symmetric, "no copies"},

    Candidate{Verb::scatter, "binomial", Where::anywhere, "fewest rounds"},
    Candidate{Verb::scatter, "linear", Where::anywhere, "each byte leaves the root once"},
    Candidate{Verb::scatter, "lent", Where::lending, "one copy, out of the sender's own memory"},
    Candidate{Verb::scatter, "direct", Where::symmetric, "no copies"},
    Candidate{Verb::scatter, "linear", Where::anywhere, "needs no rank to know others' counts", true},

    Candidate{Verb::gather, "binomial", Where::anywhere, "fewest rounds"},
    Candidate{Verb::gather, "linear", Where::anywhere, "each byte reaches the root once"},
    Candidate{Verb::gather, "lent", Where::lending, "one copy, out of the sender's own memory"},
    Candidate{Verb::gather, "direct", Where::symmetric, "no copies"},
    Candidate{Verb::gather, "linear", Where::anywhere, "needs no rank to know others' counts", true},

    Candidate{Verb::all_gather, "bruck", Where::anywhere, "fewest rounds"},
    Candidate{Verb::all_gather, "ring", Where::anywhere, "each byte passes each rank once"},
    Candidate{Verb::all_gather, "staged", Where::memory, "all read what each rank stages"},
    Candidate{Verb::all_gather, "lent", Where::lending, "one copy, out of the sender's own memory"},
    Candidate{Verb::all_gather, "direct", Where::symmetric, "no copies"},
    Candidate{Verb::all_gather, "ring", Where::anywhere, "each byte passes each rank once", true},

    Candidate{Verb::reduce_scatter, "recursive_halving", Where::anywhere, "fewest rounds"},
    Candidate{Verb::reduce_scatter, "pairwise", Where::anywhere, "each byte moves once"},
    Candidate{Verb::reduce_scatter, "ring", Where::anywhere, "each byte moves once, between neighbours only"},
    Candidate{Verb::reduce_scatter, "staged", Where::memory, "each rank reduces its chunk out of shared memory"},
    Candidate{Verb::reduce_scatter, "lent", Where::lending, "one copy, out of the sender's own memory"},
    Candidate{Verb::reduce_scatter, "direct", Where::symmetric, "no copies"},
    Candidate{Verb::reduce_scatter, "pairwise", Where::anywhere, "each byte moves once", true},

    Candidate{Verb::all_to_all, "bruck", Where::anywhere, "fewest rounds"},
    Candidate{Verb::all_to_all, "pairwise", Where::anywhere, "each byte moves once"},
    Candidate{Verb::all_to_all, "staged", Where::memory, "all read what each rank stages"},
    Candidate{Verb::all_to_all, "lent", Where::lending, "one copy, out of the sender's own memory"},
    Candidate{Verb::all_to_all, "direct", Where::symmetric, "no copies"},
    Candidate{Verb::all_to_all, "linear", Where::anywhere, "needs no rank to know others' counts", true},

    Candidate{Verb::scan, "direct", Where::symmetric, "no copies"},
    Candidate{Verb::scan, "staged", Where::memory, "each rank adds up its share of everybody's result"},
    Candidate{Verb::scan, "tree", Where::anywhere, "all messages go up, and few"},
    Candidate{Verb::scan, "counter", Where::anywhere, "all messages go up, to the neighbour"},
    Candidate{Verb::scan, "exchange", Where::anywhere, "one message deep"},
    Candidate{Verb::scan, "recursive_doubling", Where::anywhere, "fewest rounds"},
    Candidate{Verb::scan, "lent", Where::lending, "one copy, out of the sender's own memory"},
    Candidate{Verb::scan, "chain", Where::anywhere, "each byte moves once"},
    Candidate{Verb::exclusive_scan, "direct", Where::symmetric, "no copies"},
    Candidate{Verb::exclusive_scan, "staged", Where::memory, "each rank adds up its share of everybody's result"},
    Candidate{Verb::exclusive_scan, "tree", Where::anywhere, "all messages go up, and few"},
    Candidate{Verb::exclusive_scan, "counter", Where::anywhere, "all messages go up, to the neighbour"},
    Candidate{Verb::exclusive_scan, "exchange", Where::anywhere, "one message deep"},
    Candidate{Verb::exclusive_scan, "recursive_doubling", Where::anywhere, "fewest rounds"},
    Candidate{Verb::exclusive_scan, "lent", Where::lending, "one copy, out of the sender's own memory"},
    Candidate{Verb::exclusive_scan, "chain", Where::anywhere, "each byte moves once"},
    Candidate{Verb::barrier, "flags", Where::memory, "one store and a look at each peer's"},
    Candidate{Verb::barrier, "dissemination", Where::messages, "fewest rounds"},
    Candidate{Verb::send_recv, "message", Where::anywhere, "small ones travel fast"},
    Candidate{Verb::send_recv, "lent", Where::lending, "one copy, out of the sender's own memory"},
};

}  // namespace

std::span<const Candidate> candidates() { return kCandidates; }

std::uint64_t hash_of_tables() {
  std::uint64_t hash = 0;
  const auto add = [&](auto value) { hash = mix(hash, static_cast<std::uint64_t>(value) + 1); };
  const auto add_name = [&](std::string_view name) {
    add(name.size());
    for (const char letter : name) add(static_cast<unsigned char>(letter));
  };
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    add_name(name_of(row.verb));
    add_name(row.name);
    for (const bool fact : {row.canonical, row.user_windows, row.scratch_windows, row.per_edge, row.in_place, row.lent,
                            row.lends_in_place})
      add(fact);
  }
  for (const Candidate& candidate : kCandidates) {
    add_name(name_of(candidate.verb));
    add_name(candidate.algorithm);
    add(candidate.where);
    add(candidate.uneven);
  }
  return hash;
}

}  // namespace tutti::engine
