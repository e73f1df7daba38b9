#include "engine/candidates.h"

#include <algorithm>
#include <array>

namespace tutti::engine {
namespace {

using Where = Candidate::Where;

constexpr std::uint64_t any_size(std::uint64_t) { return kAnyBytes; }

// In an exchange each rank stores and loads p - 1 vectors, in all p * (p - 1); worth it while that is cheaper than a
// second synchronisation. Measured with 2, 4 and 8 processes on 2 cores: 32 KB, 8 KB and 2 KB.
constexpr std::uint64_t exchange_bytes(std::uint64_t ranks) {
  return ranks == 1 ? kAnyBytes : std::max<std::uint64_t>(64, (128 << 10) / (ranks * ranks));
}
// Over streams every message is a system call at both ends: with this many ranks rounds are cheaper, however small.
constexpr std::uint64_t exchange_stream_bytes(std::uint64_t ranks) {
  constexpr std::uint64_t kMostExchanging = 64;
  return ranks > kMostExchanging ? 0 : exchange_bytes(ranks);
}
// lg p rounds of everything against more rounds, or more synchronisation, for the least bytes.
constexpr std::uint64_t few_rounds_bytes(std::uint64_t) { return 32 << 10; }
// With two ranks a tree is one message, and nothing moves less.
constexpr std::uint64_t tree_bytes(std::uint64_t ranks) { return ranks <= 2 ? kAnyBytes : 256 << 10; }
constexpr std::uint64_t few_bytes_per_rank(std::uint64_t ranks) { return ranks * 512; }

constexpr std::array kCandidates = {
    Candidate{Verb::all_reduce, "exchange", Where::memory, exchange_bytes, "one message deep, and the vector is small"},
    Candidate{Verb::all_reduce, "exchange", Where::messages, exchange_stream_bytes,
              "one message deep, and the vector is small"},
    Candidate{Verb::all_reduce, "recursive_doubling", Where::messages, few_rounds_bytes,
              "fewest rounds, in canonical order"},
    Candidate{Verb::all_reduce, "staged", Where::memory, any_size, "each rank reduces its chunk out of shared memory"},
    Candidate{Verb::all_reduce, "recursive_halving", Where::messages, any_size,
              "moves each byte twice, the least there is, in canonical order"},
    Candidate{Verb::all_reduce, "direct", Where::symmetric, any_size, "no copies"},

    Candidate{Verb::broadcast, "binomial", Where::memory, few_rounds_bytes, "fewest rounds"},
    Candidate{Verb::broadcast, "staged", Where::memory, any_size, "all read what the root stages"},
    Candidate{Verb::broadcast, "binomial", Where::messages, tree_bytes, "fewest rounds"},
    Candidate{Verb::broadcast, "scatter_all_gather", Where::messages, any_size,
              "no rank sends the whole more than twice"},
    Candidate{Verb::broadcast, "direct", Where::symmetric, any_size, "no copies"},

    Candidate{Verb::reduce, "binomial", Where::memory, few_rounds_bytes, "fewest rounds, in canonical order"},
    Candidate{Verb::reduce, "staged", Where::memory, any_size, "each rank reduces its share out of shared memory"},
    Candidate{Verb::reduce, "binomial", Where::messages, tree_bytes, "fewest rounds, in canonical order"},
    Candidate{Verb::reduce, "recursive_halving", Where::messages, any_size, "all ranks share the additions"},
    Candidate{Verb::reduce, "direct", Where::symmetric, any_size, "no copies"},

    Candidate{Verb::scatter, "binomial", Where::anywhere, few_bytes_per_rank, "fewest rounds"},
    Candidate{Verb::scatter, "linear", Where::anywhere, any_size, "each byte leaves the root once"},
    Candidate{Verb::scatter, "direct", Where::symmetric, any_size, "no copies"},
    Candidate{Verb::scatter, "linear", Where::anywhere, any_size, "needs no rank to know others' counts", true},

    Candidate{Verb::gather, "binomial", Where::anywhere, few_bytes_per_rank, "fewest rounds"},
    Candidate{Verb::gather, "linear", Where::anywhere, any_size, "each byte reaches the root once"},
    Candidate{Verb::gather, "direct", Where::symmetric, any_size, "no copies"},
    Candidate{Verb::gather, "linear", Where::anywhere, any_size, "needs no rank to know others' counts", true},

    Candidate{Verb::all_gather, "bruck", Where::anywhere, few_rounds_bytes, "fewest rounds"},
    Candidate{Verb::all_gather, "staged", Where::memory, any_size, "all read what each rank stages"},
    Candidate{Verb::all_gather, "ring", Where::messages, any_size, "each byte passes each rank once"},
    Candidate{Verb::all_gather, "direct", Where::symmetric, any_size, "no copies"},
    Candidate{Verb::all_gather, "ring", Where::anywhere, any_size, "each byte passes each rank once", true},

    Candidate{Verb::reduce_scatter, "recursive_halving", Where::memory, few_rounds_bytes,
              "fewest rounds, in canonical order"},
    Candidate{Verb::reduce_scatter, "staged", Where::memory, any_size,
              "each rank reduces its chunk out of shared memory"},
    Candidate{Verb::reduce_scatter, "recursive_halving", Where::messages, tree_bytes,
              "fewest rounds, in canonical order"},
    Candidate{Verb::reduce_scatter, "pairwise", Where::messages, any_size, "each byte moves once, in canonical order"},
    Candidate{Verb::reduce_scatter, "direct", Where::symmetric, any_size, "no copies"},
    Candidate{Verb::reduce_scatter, "pairwise", Where::anywhere, any_size, "each byte moves once, in canonical order",
              true},

    Candidate{Verb::all_to_all, "bruck", Where::anywhere, few_bytes_per_rank, "fewest rounds"},
    Candidate{Verb::all_to_all, "staged", Where::memory, any_size, "all read what each rank stages"},
    Candidate{Verb::all_to_all, "pairwise", Where::messages, any_size, "each byte moves once"},
    Candidate{Verb::all_to_all, "direct", Where::symmetric, any_size, "no copies"},
    Candidate{Verb::all_to_all, "linear", Where::anywhere, any_size, "needs no rank to know others' counts", true},

    Candidate{Verb::scan, "recursive_doubling", Where::anywhere, any_size, "fewest rounds"},
    Candidate{Verb::exclusive_scan, "recursive_doubling", Where::anywhere, any_size, "fewest rounds"},
    Candidate{Verb::barrier, "flags", Where::memory, any_size, "one store and a look at each peer's"},
    Candidate{Verb::barrier, "dissemination", Where::messages, any_size, "fewest rounds"},
    Candidate{Verb::send_recv, "message", Where::anywhere, any_size, "there is one way"},
};

}  // namespace

std::span<const Candidate> candidates() { return kCandidates; }

}  // namespace tutti::engine
