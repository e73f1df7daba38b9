#include "tools/loads.h"

#include <algorithm>
#include <vector>

#include "schedule/program.h"
#include "schedule/verbs.h"

namespace tutti::tools {

Loads loads_of(const std::map<std::pair<int, int>, std::uint64_t>& edge_bytes, double whole_bytes) {
  Loads loads;
  std::map<int, std::uint64_t> sent, received;
  std::uint64_t least = 0, most = 0, total = 0;
  for (const auto& [edge, bytes] : edge_bytes) {
    sent[edge.first] += bytes;
    received[edge.second] += bytes;
    total += bytes;
    least = loads.links == 0 ? bytes : std::min(least, bytes);
    if (bytes > most) loads.busiest_link = edge;
    most = std::max(most, bytes);
    ++loads.links;
  }
  std::uint64_t rank_most = 0;
  for (const auto* way : {&sent, &received}) {
    for (const auto& [rank, bytes] : *way) {
      if (bytes > rank_most) loads.busiest_rank = rank;
      rank_most = std::max(rank_most, bytes);
    }
  }
  const auto share = [&](std::uint64_t bytes) {
    return whole_bytes > 0 ? static_cast<double>(bytes) / whole_bytes : 0.0;
  };
  loads.least = share(least);
  loads.most = share(most);
  loads.total = share(total);
  loads.rank_most = share(rank_most);
  return loads;
}

Loads loads_of_all_alike(const schedule::Program& first) {
  std::map<int, std::uint64_t> sent;  // blocks, by receiver
  for (const schedule::Lane& lane : first.lanes) {
    for (const schedule::Step& step : lane.steps) {
      const schedule::Operand* const sized = schedule::sized_operand(step);
      for (const schedule::Operand& operand : step.destinations) {
        if (is_slot(operand) && sized != nullptr)
          sent[operand.rank.resolve(first.rank, first.ranks)] += static_cast<std::uint64_t>(sized->blocks.count);
      }
    }
  }
  std::map<std::pair<int, int>, std::uint64_t> edges;
  std::uint64_t all = 0;
  for (const auto& [to, blocks] : sent) {
    edges[{first.rank, to}] = blocks;
    all += blocks;
  }
  Loads loads = loads_of(edges, static_cast<double>(first.blocks));
  loads.links *= static_cast<std::uint64_t>(first.ranks);
  loads.total *= first.ranks;
  loads.busiest_rank = first.rank;
  loads.rank_most = static_cast<double>(all) / first.blocks;
  return loads;
}

std::string least_formula(Verb verb) {
  const schedule::VerbFacts& facts = schedule::facts_of(verb);
  if (facts.passes == 0) return "";
  return (facts.passes == 1 ? std::string() : std::to_string(facts.passes) + " ") +
         (facts.own_stays ? "(p-1)/p n" : "n");
}

}  // namespace tutti::tools
