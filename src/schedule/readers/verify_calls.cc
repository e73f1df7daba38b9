// Programs verified for calls of counts as they come.
#include <cstdint>

#include "schedule/readers/verify.h"
#include "schedule/verbs.h"

namespace tutti::schedule {
namespace {

// Whole cache lines but for the last block, which is short, in so many segments.
std::uint64_t ragged_count(const Program& program, std::uint64_t segments) {
  if (!moves_data(program.verb)) return 0;
  const bool vector = facts_of(program.verb).cut == Cut::vector;
  return 16 * segments * (vector ? static_cast<std::uint64_t>(program.blocks) : 1) - 3;
}

}  // namespace

VerifyReport verify_calls(std::span<const Lowered> programs, bool in_place) {
  VerifyOptions options;
  options.in_place = in_place;
  for (const std::uint32_t segments : {1u, 3u}) {
    options.segments = segments;
    options.count = programs.empty() ? 0 : ragged_count(programs.front().program, segments);
    VerifyReport report = verify(programs, options);
    if (!report.ok() || segments == 3) return report;
  }
  return {};
}

}  // namespace tutti::schedule
