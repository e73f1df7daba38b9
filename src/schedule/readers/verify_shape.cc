#include "schedule/readers/verify_shape.h"

#include <algorithm>
#include <initializer_list>

namespace tutti::schedule::verification {
namespace {

// What a run keeps in memory is bounded: programs may come from files, with any numbers in them.
constexpr std::uint64_t kMostCells = std::uint64_t{1} << 26;
constexpr std::uint64_t kMostClocks = std::uint64_t{1} << 28;  // words of all lanes' clocks
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;   // of a buffer

// The product, or the largest number where that is too small to tell.
std::uint64_t product(std::initializer_list<std::uint64_t> factors) {
  std::uint64_t all = 1;
  for (const std::uint64_t factor : factors) {
    if (__builtin_mul_overflow(all, factor, &all)) return ~std::uint64_t{0};
  }
  return all;
}

void check_published(const Program& program, Problems& problems) {
  for (std::size_t i = 0; i < program.lanes.size(); ++i) {
    const Lane& lane = program.lanes[i];
    if (!lane.published) continue;
    if (i >= kPublishedLanes) {
      problems.add(kMalformed, "rank ", program.rank, ": publishes lane ", i, " ('", lane.name,
                   "'), and there are flags for the first ", kPublishedLanes, " lanes");
    }
    if (lane.steps.size() >> kPublishedStepBits != 0) {
      problems.add(kMalformed, "rank ", program.rank, ": publishes a lane of ", lane.steps.size(),
                   " steps, and flags count fewer than ", 1 << kPublishedStepBits);
    }
  }
}

void check_program(const Program& program, const Hosts& hosts, Problems& problems) {
  const auto malformed = [&](const auto&... parts) { problems.add(kMalformed, "rank ", program.rank, ": ", parts...); };
  if (program.blocks < 1) malformed(program.blocks, " blocks");
  if (program.scratch_depth < 1) malformed("scratch is ", program.scratch_depth, " segments deep");
  if (program.scratch_planes < 0) malformed(program.scratch_planes, " planes of scratch");
  if (program.channels < 1) malformed(program.channels, " channels of an edge");
  if (program.root < 0 || program.root >= program.ranks)
    malformed("root ", program.root, " of ", program.ranks, " ranks");
  if (program.verb == Verb::send_recv && program.ranks > 2) malformed("send_recv among ", program.ranks, " ranks");
  if (const std::size_t placed = hosts.by_rank().size();
      hosts.several() && placed != static_cast<std::size_t>(program.ranks))
    malformed(placed, " of ", program.ranks, " ranks are on hosts");
  check_published(program, problems);
}

void check_agreement(const Lowered& first, const Lowered& other, Problems& problems) {
  const auto differ = [&](std::string_view what) {
    problems.add(kMalformed, "ranks ", first.program.rank, " and ", other.program.rank, " differ in ", what);
  };
  if (first.program.verb != other.program.verb) differ("verb");
  if (first.program.algorithm != other.program.algorithm) differ("algorithm");
  if (first.program.root != other.program.root) differ("root");
  if (first.program.blocks != other.program.blocks) differ("blocks");
  if (first.program.message_blocks != other.program.message_blocks) differ("blocks per message");
  if (first.program.channels != other.program.channels) differ("channels of an edge");
  if (first.program.hears_first != other.program.hears_first) differ("whether they hear first");
  // The number of planes may differ: a rank that receives nothing into scratch needs none.
  if (first.program.scratch_depth != other.program.scratch_depth) differ("scratch depth");
  if (first.segment_bytes != other.segment_bytes)
    differ("segment bound, so that they would cut the vector differently");
  if (first.offers != other.offers) differ("what the transport offers");
}

// Whether the layout can be computed in 64 bits.
bool check_count(const Program& program, const VerifyOptions& options, Problems& problems) {
  const auto blocks = static_cast<std::uint64_t>(program.blocks);
  if (product({options.count, options.element_bytes, blocks}) <= kMostBytes &&
      product({options.segments, options.element_bytes, blocks, kLineBytes}) <= kMostBytes) {
    return true;
  }
  problems.add(kMalformed, options.count, " elements of ", options.element_bytes, " bytes in ", blocks,
               " blocks are more than any memory holds");
  return false;
}

}  // namespace

bool check_shape(std::span<const Lowered> programs, const VerifyOptions& options, Problems& problems) {
  if (programs.empty()) problems.add(kMalformed, "no programs");
  if (options.element_bytes == 0) problems.add(kMalformed, "elements of no bytes");
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Program& program = programs[i].program;
    if (program.rank != static_cast<int>(i) || program.ranks != static_cast<int>(programs.size())) {
      problems.add(kMalformed, "program ", i, " of ", programs.size(), " is for rank ", program.rank, " of ",
                   program.ranks);
    }
    check_program(program, programs[i].offers.hosts, problems);
    check_agreement(programs[0], programs[i], problems);
  }
  return problems.empty() && check_count(programs[0].program, options, problems);
}

bool check_shape_of_one(const Lowered& lowered, const VerifyOptions& options, Problems& problems) {
  if (options.element_bytes == 0) problems.add(kMalformed, "elements of no bytes");
  check_program(lowered.program, lowered.offers.hosts, problems);
  return problems.empty() && check_count(lowered.program, options, problems);
}

Layout layout_of(const Lowered& lowered, const VerifyOptions& options) {
  std::uint64_t bytes = lowered.segment_bytes;
  const auto blocks = static_cast<std::uint32_t>(lowered.program.blocks);
  const Verb verb = lowered.program.verb;
  if (!moves_data(verb)) return Layout::of(verb, 0, options.element_bytes, blocks, bytes);
  if (options.segments > 1) {
    const std::uint64_t unit = Layout::line_elements(options.element_bytes) * blocks;
    const std::uint64_t whole = facts_of(verb).cut == Cut::vector ? options.count : options.count * blocks;
    const std::uint64_t even = (whole + options.segments - 1) / options.segments;
    const std::uint64_t cut = std::max<std::uint64_t>(1, (even + unit - 1) / unit) * unit * options.element_bytes;
    bytes = bytes == 0 ? cut : std::min(bytes, cut);
  }
  return Layout::of(verb, options.count, options.element_bytes, blocks, bytes);
}

bool check_bounds(std::span<const Lowered> programs, const Layout& layout, Problems& problems) {
  std::uint64_t cells = 0, lanes = 0;
  for (const Lowered& lowered : programs) {
    const auto planes = static_cast<std::uint64_t>(lowered.program.scratch_planes);
    const auto depth = static_cast<std::uint64_t>(lowered.program.scratch_depth);
    const std::uint64_t needed = product({planes, depth, layout.plane_count(), layout.element_bytes});
    if (lowered.offers.scratch_bytes != 0 && needed > lowered.offers.scratch_bytes) {
      problems.add(kMalformed, "rank ", lowered.program.rank, ": scratch of ", needed,
                   " bytes, and the transport offers ", lowered.offers.scratch_bytes);
    }
    // Each is at most kMostCells when it is added, so that the sum cannot wrap.
    cells += std::min(kMostCells + 1, product({planes, depth, layout.blocks}));
    cells += std::min(kMostCells + 1, product({2, layout.segments, layout.blocks}));
    lanes += lowered.program.lanes.size();
  }
  const std::uint64_t clocks = product({lanes, lanes + programs.size()});
  if (cells > kMostCells || clocks > kMostClocks) {
    problems.add(kMalformed, "too large to be verified: ", programs.size(), " ranks, ", lanes, " lanes, ",
                 layout.segments, " segments of ", layout.blocks, " blocks, and their scratch");
  }
  return problems.empty();
}

}  // namespace tutti::schedule::verification
