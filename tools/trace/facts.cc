#include "tools/trace/facts.h"

#include "base/formatted.h"
#include "base/rank_list.h"
#include "tools/json_shape.h"

namespace tutti::analysis {
namespace {

// What is read of it.
const Json& example_of_facts() {
  static const Json kFacts = Json::parse(R"({
    "format?": 0, "job?": "", "ranks?": 0, "rows?": [""],
    "hosts?": [{"name?": "", "clock_error_us?": 0}],
    "communicators?": [{"id": "", "ranks": [0]}],
    "parts?": [{"rank?": 0, "found?": true, "recorded?": true, "ended?": true, "lost?": 0, "nameless?": 0}]})");
  return kFacts;
}

}  // namespace

std::string why_unreadable(const Json& facts) {
  const auto format = facts.is_object() ? facts.find("format") : facts.end();
  if (facts.is_object() && format != facts.end() && format->is_number() && format->get<double>() > kTraceFormat)
    return "its format is " + format->dump() + ", this build reads " + std::to_string(kTraceFormat) +
           "; read it with the version that wrote it";
  if (std::string wrong = tools::wrong_with(facts, example_of_facts(), "tutti"); !wrong.empty()) return wrong;
  const auto ranks = facts.find("ranks");
  if (ranks == facts.end() || !(ranks->get<double>() >= 1) || ranks->get<double>() > kMostJobRanks)
    return "it does not say how many ranks the job has: `tutti.ranks`, as docs/trace.md has it";
  return "";
}

std::vector<std::string> notes_of(const Json& facts) {
  std::vector<std::string> notes;
  for (const Json& host : facts.value("hosts", Json::array()))
    if (const double error = host.value("clock_error_us", 0.0); error > 0)
      notes.push_back(formatted("clocks: that of %s may be %.4g us off", host.value("name", "").c_str(), error));
  for (const Json& part : facts.value("parts", Json::array())) {
    const std::string name = rank_name(part.value("rank", 0));
    if (!part.value("recorded", true)) continue;
    if (!part.value("found", true)) {
      notes.push_back("nothing is left of " + name);
      continue;
    }
    if (const auto lost = part.value("lost", std::int64_t{0}); lost > 0)
      notes.push_back(name + " lost its oldest events, " + std::to_string(lost) + " of them");
    if (const auto nameless = part.value("nameless", std::int64_t{0}); nameless > 0)
      notes.push_back(name + " had no room for more names: algorithms or spans are left out");
    if (!part.value("ended", true)) notes.push_back(name + " was killed, or still ran");
  }
  return notes;
}

}  // namespace tutti::analysis
