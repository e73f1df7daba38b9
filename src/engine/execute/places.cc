#include "engine/execute/places.h"

#include "engine/execute/plan.h"

namespace tutti::engine {

using schedule::Buffer;
using schedule::Layout;

void Places::fit(const Plan& plan, std::uint64_t count, std::uint64_t stride, std::uint32_t element_bytes) {
  if (kept() && stride == 0 && layout.count == count && layout.element_bytes == element_bytes) return;
  const schedule::Program& program = plan.lowered.program;
  layout = Layout::of(program.verb, count, element_bytes, static_cast<std::uint32_t>(program.blocks),
                      plan.lowered.segment_bytes);
  if (stride != 0) layout.stride = stride;
  scratch_copy_bytes = layout.plane_count() * element_bytes;
  step_bytes.clear();
  if (layout.segments == 1 && layout.contiguous()) keep(plan);
}

void Places::fit_uneven(const Plan& plan, const schedule::Chunks& input, const schedule::Chunks& output,
                        std::uint32_t element_bytes) {
  layout = Layout::make_uneven(input, output, element_bytes, static_cast<std::uint32_t>(plan.lowered.program.blocks),
                               plan.lowered.segment_bytes);
  scratch_copy_bytes = layout.plane_count() * element_bytes;
  step_bytes.clear();
}

void Places::keep(const Plan& plan) {
  const auto depth = static_cast<std::uint64_t>(plan.lowered.program.scratch_depth);
  step_bytes.assign(plan.steps.size(), 0);
  run_counts.assign(plan.runs.size(), 0);
  offsets.assign(plan.run_firsts.size(), 0);
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    for (std::uint32_t r = step.runs_begin; r < step.runs_end; ++r) {
      const PlanRun& run = plan.runs[r];
      run_counts[r] = layout.place(step.sized, false, 0, run.sized_first, run.blocks).count;
      step_bytes[s] += run_counts[r] * layout.element_bytes;
      for (std::uint32_t o = step.operands_begin; o < step.operands_end; ++o) {
        const PlanOperand& operand = plan.operands[o];
        const std::uint32_t at = run.first_index + (o - step.operands_begin);
        offsets[at] = layout.place(operand.buffer, operand.alone, 0, plan.run_firsts[at], run.blocks).begin *
                      layout.element_bytes;
        if (operand.buffer == Buffer::scratch) offsets[at] += operand.plane * depth * scratch_copy_bytes;
      }
    }
  }
}

}  // namespace tutti::engine
