#include "schedule/algorithms/table.h"

#include <iterator>

#include "base/mix.h"
#include "schedule/algorithms/generators.h"

namespace tutti::schedule {
namespace {

constexpr Algorithm kAlgorithms[] = {
#define ALGORITHM(verb_, name_, ...) \
  Algorithm{.verb = Verb::verb_, .name = #name_, .generate = name_##_##verb_, __VA_ARGS__},
#include "schedule/algorithms/algorithms.def"
#undef ALGORITHM
};

static_assert(std::size(kAlgorithms) <= kMostAlgorithms);

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }
constinit const Algorithm* const kFirstAlgorithm = kAlgorithms;

const Algorithm* find_algorithm(Verb verb, std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.verb == verb && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

std::uint64_t hash_of_table() {
  std::uint64_t hash = 0;
  const auto add = [&](auto value) { hash = mix(hash, static_cast<std::uint64_t>(value) + 1); };
  const auto add_name = [&](std::string_view name) {
    add(name.size());
    for (const char letter : name) add(static_cast<unsigned char>(letter));
  };
  for (const Algorithm& row : kAlgorithms) {
    add_name(name_of(row.verb));
    add_name(row.name);
    add(row.order);
    for (const bool fact : {row.user_windows, row.scratch_windows, row.per_edge, row.in_place, row.single_copy,
                            row.single_copy_in_place, row.only_messages, row.hierarchical, row.grid})
      add(fact);
    add(row.credits);
    add(row.counts);
  }
  return hash;
}

}  // namespace tutti::schedule
