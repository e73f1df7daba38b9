// A plan's places for one count: what a step moves, and where that lies, worked out once and kept from call to call.
//
// Calls repeat: a training step makes the same ones over and over, and small ones take less time than finding their
// places. Kept for calls of one segment; longer ones, and chunks of
// different counts or apart, find a place when they need it.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/layout.h"

namespace tutti::engine {

struct Plan;

struct Places {
  schedule::Layout layout;
  std::uint64_t scratch_copy_bytes = 0;  // one segment's scratch, of one plane
  // Empty unless kept. By step of the plan; by run; by operand of a run, from the start of its buffer or scratch.
  std::vector<std::uint64_t> step_bytes, run_counts, offsets;

  bool kept() const { return !step_bytes.empty(); }
  // The places of a call with chunks of one count, which begin `stride` apart (0: one behind the other); does nothing
  // where they are those of the call before.
  void fit(const Plan& plan, std::uint64_t count, std::uint64_t stride, std::uint32_t element_bytes);
  void fit_uneven(const Plan& plan, const schedule::Chunks& input, const schedule::Chunks& output,
                  std::uint32_t element_bytes);

 private:
  void keep(const Plan& plan);
};

}  // namespace tutti::engine
