#include "tools/trace/traced_job.h"

#include <algorithm>

#include "schedule/verbs.h"

namespace tutti::analysis {
namespace {

std::string without_underscores(std::string_view name) {
  std::string letters(name);
  std::erase(letters, '_');
  return letters;
}

}  // namespace

const CallPart& TracedCall::last_to_enter() const { return *std::ranges::max_element(parts, {}, &CallPart::late_us); }

const CallPart& TracedCall::longest_part() const {
  return *std::ranges::max_element(parts, {}, [](const CallPart& part) { return part.took_us(); });
}

double TracedCall::took_us() const { return parts.empty() ? 0 : std::max(0.0, longest_part().took_us()); }

double TracedCall::busbw() const {
  const double us = took_us();
  if (!(us > 0)) return 0;
  for (const schedule::VerbFacts& facts : schedule::kVerbTable)
    if (verb == name_of(facts.verb)) return bytes * schedule::least_moved(facts.verb, message ? 2 : ranks) / us * 1e-3;
  return 0;
}

Interval TracedJob::whole() const {
  std::optional<Interval> all;
  for (const RankTimeline& rank : ranks) {
    if (!rank.found) continue;
    if (!all) all = rank.whole;
    all->begin_us = std::min(all->begin_us, rank.whole.begin_us);
    all->end_us = std::max(all->end_us, rank.whole.end_us);
  }
  return all.value_or(Interval{});
}

std::string verb_of(std::string_view name) {
  if (name == "send" || name == "recv" || name == "SendRecv") return std::string(name_of(Verb::send_recv));
  std::string letters = without_underscores(name);
  std::ranges::transform(letters, letters.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  // The longest that it begins with: reduce_scatter_tensor_coalesced is no reduce.
  std::string_view found;
  for (const schedule::VerbFacts& facts : schedule::kVerbTable) {
    const std::string_view verb = name_of(facts.verb);
    if (letters.starts_with(without_underscores(verb)) && verb.size() > found.size()) found = verb;
  }
  return found.empty() ? std::string(name) : std::string(found);
}

}  // namespace tutti::analysis
