#include "schedule/readers/simulate/group_programs.h"

#include <utility>

namespace tutti::schedule {

Offers offers_to_simulate(const Hosts& hosts, std::uint64_t segment_bytes) {
  Offers offers;
  offers.inside = offers.across = {false, false, true, false, 4, 0};
  offers.hosts = hosts;
  offers.channels = 2;
  offers.segment_bytes = segment_bytes;
  return offers;
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
