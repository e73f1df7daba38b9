#include "schedule/algorithms/table.h"

#include <array>

namespace tutti::schedule {
namespace {

constexpr std::array kAlgorithms = {
    // verb, name, generator, canonical, needs windows onto user buffers, needs windows onto scratch,
    // and where they are not the usual: a lane per edge, in place, credits, messages are lent, also in place
    Algorithm{Verb::all_reduce, "direct", direct_all_reduce, true, true, false},
    Algorithm{Verb::all_reduce, "staged", staged_all_reduce, true, false, true},
    Algorithm{Verb::all_reduce, "exchange", exchange_all_reduce, true, false, false},
    Algorithm{Verb::all_reduce, "one_shot", one_shot_all_reduce, true, false, true},
    Algorithm{Verb::all_reduce, "recursive_doubling", recursive_doubling_all_reduce, true, false, false},
    Algorithm{Verb::all_reduce, "recursive_halving", recursive_halving_all_reduce, true, false, false},
    Algorithm{Verb::all_reduce, "ring", ring_all_reduce, false, false, false, false, true, 2},
    Algorithm{Verb::broadcast, "direct", direct_broadcast, true, true, false},
    Algorithm{Verb::broadcast, "staged", staged_broadcast, true, false, true},
    Algorithm{Verb::broadcast, "binomial", binomial_broadcast, true, false, false},
    Algorithm{Verb::broadcast, "chain", chain_broadcast, true, false, false},
    Algorithm{Verb::broadcast, "scatter_all_gather", scatter_all_gather_broadcast, true, false, false},
    Algorithm{Verb::broadcast, "lent", lent_broadcast, true, false, false, false, true, 1, true, true},
    Algorithm{Verb::send_recv, "message", send_recv, true, false, false},
    Algorithm{Verb::send_recv, "lent", lent_message, true, false, false, false, true, 1, true, true},
    Algorithm{Verb::reduce, "direct", direct_reduce, true, true, false},
    Algorithm{Verb::reduce, "staged", staged_reduce, true, false, true},
    Algorithm{Verb::reduce, "binomial", binomial_reduce, true, false, false},
    Algorithm{Verb::reduce, "recursive_halving", recursive_halving_reduce, true, false, false},
    Algorithm{Verb::reduce, "lent", lent_reduce, true, false, false, false, true, 1, true, true},
    Algorithm{Verb::scatter, "direct", direct_scatter, true, true, false},
    Algorithm{Verb::scatter, "binomial", binomial_scatter, true, false, false},
    Algorithm{Verb::scatter, "linear", linear_scatter, true, false, false, true},
    Algorithm{Verb::scatter, "lent", lent_scatter, true, false, false, true, true, 1, true, true},
    Algorithm{Verb::gather, "direct", direct_gather, true, true, false},
    Algorithm{Verb::gather, "binomial", binomial_gather, true, false, false},
    Algorithm{Verb::gather, "linear", linear_gather, true, false, false, true},
    Algorithm{Verb::gather, "lent", lent_gather, true, false, false, true, true, 1, true, true},
    Algorithm{Verb::all_gather, "direct", direct_all_gather, true, true, false},
    Algorithm{Verb::all_gather, "staged", staged_all_gather, true, false, true},
    Algorithm{Verb::all_gather, "bruck", bruck_all_gather, true, false, false},
    Algorithm{Verb::all_gather, "ring", ring_all_gather, true, false, false, false, true, 2},
    Algorithm{Verb::all_gather, "lent", lent_all_gather, true, false, false, false, true, 1, true, true},
    Algorithm{Verb::reduce_scatter, "direct", direct_reduce_scatter, true, true, false},
    Algorithm{Verb::reduce_scatter, "staged", staged_reduce_scatter, true, false, true},
    Algorithm{Verb::reduce_scatter, "recursive_halving", recursive_halving_reduce_scatter, true, false, false},
    Algorithm{Verb::reduce_scatter, "pairwise", pairwise_reduce_scatter, true, false, false},
    Algorithm{Verb::reduce_scatter, "ring", ring_reduce_scatter, false, false, false, false, true, 2},
    Algorithm{Verb::reduce_scatter, "lent", lent_reduce_scatter, true, false, false, false, true, 1, true, true},
    Algorithm{Verb::all_to_all, "direct", direct_all_to_all, true, true, false, false, false},
    Algorithm{Verb::all_to_all, "staged", staged_all_to_all, true, false, true},
    Algorithm{Verb::all_to_all, "bruck", bruck_all_to_all, true, false, false},
    Algorithm{Verb::all_to_all, "pairwise", pairwise_all_to_all, true, false, false},
    Algorithm{Verb::all_to_all, "linear", linear_all_to_all, true, false, false, true},
    Algorithm{Verb::all_to_all, "lent", lent_all_to_all, true, false, false, false, true, 1, true, false},
    Algorithm{Verb::scan, "direct", direct_scan, true, true, false},
    Algorithm{Verb::scan, "staged", staged_scan, true, false, true},
    Algorithm{Verb::scan, "recursive_doubling", recursive_doubling_scan, true, false, false},
    Algorithm{Verb::scan, "tree", tree_scan, true, false, false},
    Algorithm{Verb::scan, "counter", counter_scan, true, false, false},
    Algorithm{Verb::scan, "exchange", exchange_scan, true, false, false},
    Algorithm{Verb::scan, "chain", chain_scan, false, false, false},
    Algorithm{Verb::scan, "lent", lent_scan, true, false, false, false, true, 1, true, false},
    Algorithm{Verb::exclusive_scan, "direct", direct_exclusive_scan, true, true, false, false, false},
    Algorithm{Verb::exclusive_scan, "staged", staged_exclusive_scan, true, false, true},
    Algorithm{Verb::exclusive_scan, "recursive_doubling", recursive_doubling_exclusive_scan, true, false, false},
    Algorithm{Verb::exclusive_scan, "tree", tree_exclusive_scan, true, false, false},
    Algorithm{Verb::exclusive_scan, "counter", counter_exclusive_scan, true, false, false},
    Algorithm{Verb::exclusive_scan, "exchange", exchange_exclusive_scan, true, false, false},
    Algorithm{Verb::exclusive_scan, "chain", chain_exclusive_scan, false, false, false},
    Algorithm{Verb::exclusive_scan, "lent", lent_exclusive_scan, true, false, false, false, true, 1, true, false},
    Algorithm{Verb::barrier, "flags", flags_barrier, true, false, true},
    Algorithm{Verb::barrier, "dissemination", dissemination_barrier, true, false, false},
};

static_assert(kAlgorithms.size() <= kMostAlgorithms);

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

const Algorithm* find_algorithm(Verb verb, std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.verb == verb && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace tutti::schedule
