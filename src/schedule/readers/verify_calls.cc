// Programs verified for calls of counts as they come.
#include <cstdint>

#include "schedule/readers/verify.h"
#include "schedule/readers/verify_rotation.h"
#include "schedule/verbs.h"

namespace tutti::schedule {
namespace {

// Whole cache lines but for the last block, which is short, in so many segments.
std::uint64_t ragged_count(const Program& program, std::uint64_t segments) {
  if (!moves_data(program.verb)) return 0;
  const bool vector = facts_of(program.verb).cut == Cut::vector;
  return 16 * segments * (vector ? static_cast<std::uint64_t>(program.blocks) : 1) - 3;
}

VerifyOptions call_of(const Program& program, std::uint32_t segments, bool in_place) {
  return {ragged_count(program, segments), 4, segments, 0, in_place};
}

}  // namespace

VerifyReport verify_calls(std::span<const Lowered> programs, bool in_place) {
  if (programs.empty()) return verify(programs, {});
  VerifyReport report = verify(programs, call_of(programs.front().program, 1, in_place));
  return report.ok() ? verify(programs, call_of(programs.front().program, 3, in_place)) : report;
}

std::optional<VerifyReport> verify_calls_by_rotation(const Lowered& first, bool in_place) {
  std::optional<VerifyReport> report = verify_rotation(first, call_of(first.program, 1, in_place));
  return report && report->ok() ? verify_rotation(first, call_of(first.program, 3, in_place)) : report;
}

}  // namespace tutti::schedule
