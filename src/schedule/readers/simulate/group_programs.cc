#include "schedule/readers/simulate/group_programs.h"

#include <algorithm>
#include <utility>

#include "schedule/verbs.h"

namespace tutti::schedule {

Offers offers_to_simulate(const Hosts& hosts, std::uint64_t segment_bytes) {
  Offers offers;
  offers.inside = offers.across = {false, false, true, false, 4, 0};
  offers.hosts = hosts;
  offers.channels = 2;
  offers.segment_bytes = segment_bytes;
  return offers;
}

std::uint64_t segment_bytes_to_simulate(const Program& program, std::uint64_t bytes) {
  constexpr std::uint64_t kLeast = 4 << 20, kLeastOfStep = 128 << 10, kMostSegments = 64;
  const std::uint64_t segment = std::max(kLeast, bytes / kMostSegments);
  // Of chunks a segment is as large as a message (lower.h), however many ranks there are.
  if (facts_of(program.verb).cut == Cut::chunks) return segment;
  std::size_t steps = 0;
  for (const Lane& lane : program.lanes) steps = std::max(steps, lane.steps.size());
  return std::max(segment, kLeastOfStep * steps);
}

void put_group(std::span<const Lowered> group, std::span<const int> devices, const Offers& offers,
               std::vector<Lowered>& all) {
  const auto count = static_cast<int>(group.size());
  for (int rank = 0; rank < count; ++rank) {
    Lowered lowered = group[static_cast<std::size_t>(rank)];
    lowered.offers = offers;
    Program& program = lowered.program;
    const auto peer = [&](const Index& of) {
      return Index::absolute(devices[static_cast<std::size_t>(of.resolve(rank, count))]);
    };
    for (Lane& lane : program.lanes) {
      for (Step& step : lane.steps) {
        for (auto* operands : {&step.destinations, &step.sources}) {
          for (Operand& operand : *operands) {
            operand.blocks.first = Index::absolute(operand.blocks.first.resolve(rank, program.blocks));
            operand.rank = peer(operand.rank);
          }
        }
        for (Wait& wait : step.waits) wait.rank = peer(wait.rank);
      }
    }
    program.rank = devices[static_cast<std::size_t>(rank)];
    program.ranks = static_cast<int>(all.size());
    all[static_cast<std::size_t>(program.rank)] = std::move(lowered);
  }
}

}  // namespace tutti::schedule
