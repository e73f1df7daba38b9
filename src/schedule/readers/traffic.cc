#include "schedule/readers/traffic.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace tutti::schedule {
namespace {

void count_step(const Step& step, Traffic& traffic) {
  const Operand* sized = sized_operand(step);
  const std::int64_t blocks = sized == nullptr ? 0 : sized->blocks.count;
  ++traffic.steps;
  for (const Operand& operand : step.destinations) {
    if (operand.kind == Operand::Kind::window) traffic.blocks_stored += blocks;
    if (operand.kind != Operand::Kind::slot) continue;
    ++traffic.messages_sent;
    traffic.blocks_sent += blocks;
  }
  for (const Operand& operand : step.sources) {
    if (operand.kind == Operand::Kind::window) traffic.blocks_loaded += blocks;
    if (operand.kind != Operand::Kind::slot) continue;
    ++traffic.messages_received;
    traffic.blocks_received += blocks;
  }
  if (step.op == StepOp::reduce) traffic.blocks_reduced += blocks * (std::ssize(step.sources) - 1);
}

}  // namespace

Traffic traffic_of(const Program& program) {
  Traffic traffic;
  for (const Lane& lane : program.lanes) {
    for (const Step& step : lane.steps) count_step(step, traffic);
  }
  return traffic;
}

BusiestRank busiest_of(const Algorithm& row, int ranks, int root) {
  BusiestRank most;
  const Hosts hosts = row.hierarchical ? Hosts::in_blocks(std::vector{(ranks + 1) / 2, ranks / 2}) : Hosts();
  for (int rank = 0; rank < ranks; ++rank) {
    const Program program = row.generate({ranks, rank, root, hosts});
    const Traffic traffic = traffic_of(program);
    const std::int64_t blocks =
        std::max(traffic.blocks_sent, traffic.blocks_received) + traffic.blocks_loaded + traffic.blocks_stored;
    most.steps = std::max(most.steps, traffic.steps);
    most.moved = std::max(most.moved, static_cast<double>(blocks) / program.blocks);
    most.scratch = std::max(most.scratch, program.scratch_planes * program.scratch_depth);
  }
  return most;
}

}  // namespace tutti::schedule
