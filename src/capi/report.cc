// Marks and the report of what was called between two of them.
#include "tutti/train/report.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "capi/errors.h"
#include "capi/handles.h"
#include "capi/told.h"

using namespace tutti::capi;

namespace tutti::capi {

tutti_verb_counters to_c(const VerbCounters& counters) {
  return {counters.calls, counters.bytes, static_cast<std::uint64_t>(counters.waited.count()),
          static_cast<std::uint64_t>(counters.under_way.count())};
}

}  // namespace tutti::capi

namespace {

using std::chrono::nanoseconds;
static_assert(TUTTI_VERBS == tutti::kVerbs);

tutti::train::Mark mark_of(const tutti_mark* given, const char* what) {
  if (given == nullptr) reject(std::string(what) + " is NULL");
  tutti::train::Mark mark;
  mark.at = std::chrono::steady_clock::time_point(nanoseconds(given->at_ns));
  mark.ranks = static_cast<int>(given->ranks);
  mark.counters.busy = nanoseconds(given->busy_ns);
  for (std::size_t i = 0; i < tutti::kVerbs; ++i) {
    const tutti_verb_counters& verb = given->verbs[i];
    mark.counters.verbs[i] = {verb.calls, verb.bytes, nanoseconds(verb.waited_ns), nanoseconds(verb.under_way_ns)};
  }
  return mark;
}

}  // namespace

tutti_code tutti_take_mark(tutti_comm comm, tutti_mark* mark) {
  return guarded([&] {
    tutti_mark& result = place(mark, "tutti_take_mark: mark");
    const tutti::train::Mark taken = tutti::train::mark(communicator_of(comm));
    result.at_ns = nanoseconds(taken.at.time_since_epoch()).count();
    result.busy_ns = static_cast<std::uint64_t>(taken.counters.busy.count());
    result.ranks = taken.ranks;
    std::ranges::transform(taken.counters.verbs, result.verbs, [](const auto& verb) { return to_c(verb); });
  });
}

tutti_code tutti_report(const tutti_mark* from, const tutti_mark* to, int64_t steps, tutti_report_format format,
                        char* text, size_t room, size_t* length) {
  return guarded([&] {
    tell(
        [&] {
          return tutti::train::report(mark_of(from, "tutti_report: from"), mark_of(to, "tutti_report: to"), steps);
        },
        format, text, room, length, "tutti_report");
  });
}
