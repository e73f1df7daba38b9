#include "schedule/algorithms/table.h"

#include <array>

namespace tutti::schedule {
namespace {

constexpr std::array kAlgorithms = {
    // verb, name, generator, canonical, needs windows onto user buffers, needs windows onto scratch
    Algorithm{Verb::all_reduce, "direct", direct_all_reduce, true, true, false},
    Algorithm{Verb::all_reduce, "staged", staged_all_reduce, true, false, true},
    Algorithm{Verb::all_reduce, "exchange", exchange_all_reduce, true, false, false},
    Algorithm{Verb::all_reduce, "recursive_doubling", recursive_doubling_all_reduce, true, false, false},
    Algorithm{Verb::all_reduce, "recursive_halving", recursive_halving_all_reduce, true, false, false},
    Algorithm{Verb::all_reduce, "ring", ring_all_reduce, false, false, false},
    Algorithm{Verb::broadcast, "binomial", binomial_broadcast, true, false, false},
    Algorithm{Verb::send_recv, "message", send_recv, true, false, false},
};

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

const Algorithm* find_algorithm(Verb verb, std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.verb == verb && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace tutti::schedule
