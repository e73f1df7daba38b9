#include "schedule/readers/describe.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "schedule/fold.h"
#include "schedule/readers/columns.h"
#include "schedule/readers/phrases.h"
#include "schedule/readers/traffic.h"
#include "schedule/verbs.h"

namespace tutti::schedule {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kStepIndent = 7;

using Ranks = std::vector<int>;

const Program& program_of(std::span<const Lowered> programs, int rank) {
  return programs[static_cast<std::size_t>(rank)].program;
}

bool same_skeleton(const Program& a, const Program& b) {
  return std::equal(a.lanes.begin(), a.lanes.end(), b.lanes.begin(), b.lanes.end(), [](const Lane& x, const Lane& y) {
    return x.name == y.name && x.published == y.published && x.steps.size() == y.steps.size();
  });
}

// Whether at least half of all steps are the same on both ranks, which makes them easier to read together.
bool mostly_equal(const Program& a, const Program& b) {
  if (!same_skeleton(a, b)) return false;
  std::size_t steps = 0;
  std::size_t equal = 0;
  for (std::size_t lane = 0; lane < a.lanes.size(); ++lane) {
    for (std::size_t step = 0; step < a.lanes[lane].steps.size(); ++step) {
      ++steps;
      if (a.lanes[lane].steps[step] == b.lanes[lane].steps[step]) ++equal;
    }
  }
  return 2 * equal >= steps;
}

// Groups of ranks that are told together.
std::vector<Ranks> told_together(std::span<const Lowered> programs) {
  std::vector<Ranks> groups;
  for (const Ranks& ranks : fold_ranks(programs)) {
    const Program& program = program_of(programs, ranks.front());
    const auto close = [&](const Ranks& group) { return mostly_equal(program_of(programs, group.front()), program); };
    const auto found = std::find_if(groups.begin(), groups.end(), close);
    if (found == groups.end()) {
      groups.push_back(ranks);
    } else {
      found->insert(found->end(), ranks.begin(), ranks.end());
      std::sort(found->begin(), found->end());
    }
  }
  return groups;
}

std::string text_of_step(const Step& step, const Program& program, std::size_t width) {
  std::string line = padded(name_of(step.op), 6);
  if (step.op != StepOp::wait) {
    line += "  " + padded(phrase_of(step.destinations, Side::destination, program.blocks), width);
    line += "  " + std::string(symbol_of(step.op)) + "  " + phrase_of(step.sources, Side::source, program.blocks);
  }
  return trimmed(line) + (step.last ? "  (final)" : "");
}

std::string text_of_waits(const Step& step, const Program& program) {
  if (step.waits.empty()) return {};
  Wrapped waits("        after", kStepIndent + 14, kColumns);
  const char* gap = " ";
  for (const std::string& phrase : phrases_of(step.waits, program)) {
    waits.add(phrase, gap);
    gap = "; ";
  }
  return waits.text();
}

// What `say` says of a place on these ranks, one line per variant, with the ranks that have it where they differ.
template <class Say>
std::string over_variants(const Ranks& ranks, Say&& say) {
  std::vector<std::pair<std::string, Ranks>> variants;
  for (const int rank : ranks) {
    const std::string text = say(rank);
    const auto same = [&](const auto& variant) { return variant.first == text; };
    const auto found = std::find_if(variants.begin(), variants.end(), same);
    if (found == variants.end()) {
      variants.push_back({text, {rank}});
    } else {
      found->second.push_back(rank);
    }
  }
  std::string text;
  for (const auto& [line, having] : variants) {
    if (line.empty()) continue;
    if (!text.empty()) text += std::string(kStepIndent, ' ');
    text += line;
    if (variants.size() > 1) text += (having.size() == 1 ? "  on rank " : "  on ranks ") + text_of_ranks(having);
    text += "\n";
  }
  return text;
}

std::string text_of_lane(std::span<const Lowered> programs, const Ranks& ranks, std::size_t lane) {
  const Lane& first = program_of(programs, ranks.front()).lanes[lane];
  std::size_t width = 0;
  for (const int rank : ranks) {
    const Program& program = program_of(programs, rank);
    for (const Step& step : program.lanes[lane].steps) {
      width = std::max(width, width_of(phrase_of(step.destinations, Side::destination, program.blocks)));
    }
  }
  std::string text = "  lane " + first.name + (first.published ? ", its progress published\n" : "\n");
  for (std::size_t step = 0; step < first.steps.size(); ++step) {
    const auto at = [&](int rank) -> const Step& { return program_of(programs, rank).lanes[lane].steps[step]; };
    text += padded("    " + std::to_string(step), kStepIndent);
    text += over_variants(ranks, [&](int rank) { return text_of_step(at(rank), program_of(programs, rank), width); });
    const auto say_waits = [&](int rank) { return text_of_waits(at(rank), program_of(programs, rank)); };
    if (const std::string waits = over_variants(ranks, say_waits); !waits.empty()) {
      text += std::string(kStepIndent, ' ') + waits;
    }
  }
  return text;
}

// One number where all ranks agree, else the least and the most.
std::string over_ranks(std::span<const Traffic> all, std::int64_t Traffic::*number, double unit = 1.0) {
  const auto by_number = [&](const Traffic& a, const Traffic& b) { return a.*number < b.*number; };
  const auto [least, most] = std::minmax_element(all.begin(), all.end(), by_number);
  char text[64];
  if ((*least).*number == (*most).*number) {
    std::snprintf(text, sizeof text, "%.4g", static_cast<double>((*most).*number) / unit);
  } else {
    std::snprintf(text, sizeof text, "%.4g to %.4g", static_cast<double>((*least).*number) / unit,
                  static_cast<double>((*most).*number) / unit);
  }
  return text;
}

std::string credits_of(const Offers& offers) {
  const auto credits = [](const EdgeOffers& edge) {
    return std::to_string(edge.credits) + (edge.credits == 1 ? " credit" : " credits") + " per edge";
  };
  if (!offers.hosts.several()) return credits(offers.inside);
  return credits(offers.inside) + " inside a host, " + std::to_string(offers.across.credits) + " across";
}

// "0-2 | 3, 4": the ranks of each host.
std::string text_of_hosts(const Hosts& hosts) {
  std::vector<Ranks> ranks(static_cast<std::size_t>(hosts.count()));
  for (std::size_t rank = 0; rank < hosts.by_rank().size(); ++rank)
    ranks[static_cast<std::size_t>(hosts.by_rank()[rank])].push_back(static_cast<int>(rank));
  std::string text;
  for (const Ranks& each : ranks) text += (text.empty() ? "" : " | ") + text_of_ranks(each);
  return text;
}

std::string facts(std::span<const Lowered> programs) {
  std::vector<Traffic> all;
  std::int32_t scratch = 0;
  for (const Lowered& lowered : programs) {
    all.push_back(traffic_of(lowered.program));
    scratch = std::max(scratch, lowered.program.scratch_planes * lowered.program.scratch_depth);
  }
  const Lowered& first = programs.front();
  const auto any = [&](std::int64_t Traffic::*number) {
    return std::any_of(all.begin(), all.end(), [&](const Traffic& traffic) { return traffic.*number != 0; });
  };
  const auto count = [&](std::int64_t Traffic::*number) { return over_ranks(all, number); };
  const auto share = [&](std::int64_t Traffic::*number) {
    return over_ranks(all, number, first.program.blocks) + " n";
  };

  const bool chunks = facts_of(first.program.verb).cut == Cut::chunks;
  std::string text = std::string("each rank, for ") + (chunks ? "chunks of n bytes in all" : "a vector of n bytes") +
                     "\n  steps     " + count(&Traffic::steps) + "\n";
  if (any(&Traffic::messages_sent)) {
    text += "  messages  " + count(&Traffic::messages_sent) + " sent with " + share(&Traffic::blocks_sent) + ", " +
            count(&Traffic::messages_received) + " received with " + share(&Traffic::blocks_received) + "; " +
            credits_of(first.offers) + "\n";
  }
  if (any(&Traffic::blocks_loaded)) text += "  loaded    " + share(&Traffic::blocks_loaded) + " through windows\n";
  if (any(&Traffic::blocks_stored)) text += "  stored    " + share(&Traffic::blocks_stored) + " through windows\n";
  if (any(&Traffic::blocks_reduced)) text += "  reduced   " + share(&Traffic::blocks_reduced) + "\n";
  if (first.program.hears_first) text += "  hears     every sender before it writes its output\n";
  if (scratch != 0) text += "  scratch   " + std::to_string(scratch) + (scratch == 1 ? " segment\n" : " segments\n");
  if (first.offers.hosts.several()) text += "  hosts     ranks " + text_of_hosts(first.offers.hosts) + "\n";
  if (first.segment_bytes != 0) text += "  segments  of at most " + std::to_string(first.segment_bytes) + " bytes\n";
  return text;
}

}  // namespace

std::string describe(std::span<const Lowered> programs) {
  require_program_set(programs);
  const Program& first = programs.front().program;
  const auto plural = [](int n, const char* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); };
  std::string text = std::string(name_of(first.verb)) + " by " + first.algorithm + ": " + plural(first.ranks, "rank") +
                     ", " + plural(first.blocks, "block") + "\n\n";
  for (const Ranks& ranks : told_together(programs)) {
    text += ranks.size() == 1 ? "rank " + text_of_ranks(ranks) + ":\n" : "ranks " + text_of_ranks(ranks) + ", each:\n";
    for (std::size_t lane = 0; lane < program_of(programs, ranks.front()).lanes.size(); ++lane) {
      text += text_of_lane(programs, ranks, lane);
    }
    text += "\n";
  }
  return text + facts(programs);
}

}  // namespace tutti::schedule
