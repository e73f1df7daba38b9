#include "schedule/readers/traffic.h"

#include <iterator>

namespace tutti::schedule {
namespace {

// A slot takes its size from the other operands.
std::int64_t blocks_of(const Step& step) {
  for (const auto* operands : {&step.destinations, &step.sources}) {
    for (const Operand& operand : *operands) {
      if (operand.kind != Operand::Kind::slot) return operand.blocks.count;
    }
  }
  return 0;
}

void count_step(const Step& step, Traffic& traffic) {
  const std::int64_t blocks = blocks_of(step);
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

}  // namespace tutti::schedule
