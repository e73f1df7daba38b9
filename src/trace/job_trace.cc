#include "trace/job_trace.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>

#include "base/folders.h"
#include "base/formatted.h"
#include "schedule/verbs.h"
#include "trace/calls.h"
#include "trace/rows.h"
#include "tutti/error.h"

namespace tutti::trace {
namespace {

// How far the clocks of two machines may drift apart after they were compared.
constexpr double kDrift = 50e-6;

template <std::size_t kBytes>
std::string text_of(const std::array<char, kBytes>& text) {
  return {text.begin(), std::find(text.begin(), text.end(), 0)};
}

struct RingFile {
  std::string path;
  int rank = 0;  // by its name
};

std::vector<RingFile> rings_in(const std::string& folder) {
  std::vector<RingFile> found;
  const auto names = names_in(folder);
  if (!names) {
    throw Error(ErrorCode::invalid_argument,
                "cannot look into the folder of rings '" + folder + "': " + std::generic_category().message(errno));
  }
  for (const std::string& name : *names) {
    int rank = 0, length = 0;
    const bool is_ring = std::sscanf(name.c_str(), "rank-%d.ring%n", &rank, &length) == 1 &&
                         static_cast<std::size_t>(length) == name.size() && rank >= 0;
    if (is_ring) found.push_back({folder + "/" + name, rank});
  }
  std::ranges::sort(found, {}, &RingFile::rank);
  return found;
}

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

void require_one_job(const RingFacts& a, const std::string& path_a, const RingFacts& b, const std::string& path_b) {
  const std::string both = "'" + path_a + "' and '" + path_b + "' ";
  if (a.job != b.job) {
    refuse(both + "are of different jobs, " +
           formatted("%llx and %llx", static_cast<unsigned long long>(a.job), static_cast<unsigned long long>(b.job)) +
           "; keep the rings of each job in a folder of their own");
  }
  if (a.size != b.size || a.recorded != b.recorded || a.hosts != b.hosts || a.library != b.library) {
    refuse(both + "do not belong together: a job of " + std::to_string(a.size) + " ranks on " +
           std::to_string(a.hosts) + " hosts, and one of " + std::to_string(b.size) + " on " + std::to_string(b.hosts) +
           ", by the versions " + text_of(a.library) + " and " + text_of(b.library));
  }
  if (a.rank == b.rank) refuse(both + "are both of rank " + std::to_string(a.rank) + "; leave one of them out");
}

class JobReader {
 public:
  JobTrace read(const std::string& folder) {
    for (const RingFile& file : rings_in(folder)) read_file(file);
    if (job_.files.empty()) {
      refuse(unread_.empty() ? "'" + folder + "' has no rings of a job (rank-0.ring and so on)"
                             : "no ring in '" + folder + "' can be read: " + unread_.begin()->second);
    }
    for (const auto& [rank, why] : unread_) {
      if (rank < job_.ranks && !job_.parts[static_cast<std::size_t>(rank)].found)
        job_.parts[static_cast<std::size_t>(rank)].why = why;
    }
    find_clocks();
    for (int rank = 0; rank < job_.ranks; ++rank) add_slices(rank);
    set_origin();
    tell_all_in(job_);
    assign_rows(job_);
    std::ranges::stable_sort(job_.slices, [](const Slice& a, const Slice& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    return std::move(job_);
  }

 private:
  void read_file(const RingFile& file) {
    Recording recording;
    try {
      recording = read_recording(file.path);
    } catch (const Error& error) {
      unread_.emplace(file.rank, error.what());
      return;
    }
    const RingFacts& facts = recording.facts;
    if (job_.files.empty()) {
      first_ = facts;
      job_.job = facts.job;
      job_.ranks = facts.size;
      job_.recorded = facts.rings();
      job_.library = text_of(facts.library);
      job_.parts.resize(static_cast<std::size_t>(facts.size));
      job_.hosts.resize(static_cast<std::size_t>(facts.hosts));
      paths_.resize(job_.parts.size());
    } else {
      require_one_job(first_, job_.files.front(), facts, file.path);
    }
    job_.files.push_back(file.path);
    const auto rank = static_cast<std::size_t>(facts.rank);
    JobTrace::Part& part = job_.parts[rank];
    if (part.found) require_one_job(part.recording.facts, paths_[rank], facts, file.path);
    paths_[rank] = file.path;
    part.found = true;
    part.events = recording.events.size();
    part.recording = std::move(recording);
  }

  // Ranks of a host have one counter: the pairs that are farthest apart tell best how quick it is.
  void find_clocks() {
    clocks_.resize(job_.parts.size());
    std::vector<std::optional<std::pair<ClockPair, ClockPair>>> of_hosts(job_.hosts.size());
    for (const JobTrace::Part& part : job_.parts) {
      if (!part.found) continue;
      const RingFacts& facts = part.recording.facts;
      JobTrace::Host& host = job_.hosts[static_cast<std::size_t>(facts.host)];
      host.name = text_of(facts.host_name);
      host.ranks.push_back(facts.rank);
      host.offset_ns = facts.clock_offset_ns;
      const auto lasted = static_cast<double>(part.recording.latest.steady_ns - part.recording.first.steady_ns);
      const auto drift = facts.host == 0 ? 0 : static_cast<std::int64_t>(kDrift * std::max(lasted, 0.0));
      host.error_ns = std::max(host.error_ns, static_cast<std::int64_t>(facts.clock_error_ns) + drift);
      auto& pairs = of_hosts[static_cast<std::size_t>(facts.host)];
      if (!pairs) pairs.emplace(part.recording.first, part.recording.latest);
      if (part.recording.first.ticks < pairs->first.ticks) pairs->first = part.recording.first;
      if (part.recording.latest.ticks > pairs->second.ticks) pairs->second = part.recording.latest;
    }
    for (std::size_t rank = 0; rank < job_.parts.size(); ++rank) {
      if (!job_.parts[rank].found) continue;
      const auto& pairs = of_hosts[static_cast<std::size_t>(job_.parts[rank].recording.facts.host)];
      clocks_[rank] = TicksToNs(pairs->first, pairs->second);
    }
  }

  void add_slices(int rank) {
    JobTrace::Part& part = job_.parts[static_cast<std::size_t>(rank)];
    if (!part.found) return;
    const std::int64_t offset = part.recording.facts.clock_offset_ns;
    const TicksToNs& to_ns = *clocks_[static_cast<std::size_t>(rank)];
    for (const TraceEvent& event : part.recording.events) {
      if (static_cast<std::uint8_t>(event.kind) >= kEventKinds) continue;
      Slice slice{.event = event, .rank = rank};
      slice.begin_ns = to_ns(event.begin) + offset;
      slice.end_ns = std::max(slice.begin_ns, to_ns(event.end) + offset);
      const bool has_middle = event.kind == EventKind::call || event.kind == EventKind::bucket;
      slice.middle_ns = has_middle ? std::clamp(to_ns(event.middle) + offset, slice.begin_ns, slice.end_ns) : 0;
      job_.slices.push_back(slice);
    }
    part.nameless =
        static_cast<std::uint64_t>(std::ranges::count_if(part.recording.events, [](const TraceEvent& event) {
          return event.kind == EventKind::call && event.communicator == TraceEvent::kNone;
        }));
    part.recording.events = {};
  }

  void set_origin() {
    if (job_.slices.empty()) return;
    const std::int64_t origin = std::ranges::min_element(job_.slices, {}, &Slice::begin_ns)->begin_ns;
    for (Slice& slice : job_.slices) {
      slice.begin_ns -= origin;
      slice.end_ns -= origin;
      slice.middle_ns -= origin;
    }
  }

  JobTrace job_;
  RingFacts first_;
  std::vector<std::string> paths_;                // by rank
  std::map<int, std::string> unread_;             // by the rank of the file's name
  std::vector<std::optional<TicksToNs>> clocks_;  // by rank
};

}  // namespace

const Recording::Communicator* JobTrace::communicator_of(const Slice& slice) const {
  const auto& known = parts[static_cast<std::size_t>(slice.rank)].recording.communicators;
  return slice.event.communicator < known.size() ? &known[slice.event.communicator] : nullptr;
}

std::string_view JobTrace::name_of(const Slice& slice) const {
  const auto& names = parts[static_cast<std::size_t>(slice.rank)].recording.names;
  return slice.event.name < names.size() ? std::string_view(names[slice.event.name]) : std::string_view();
}

int JobTrace::job_rank(const Slice& slice, int rank) const {
  const Recording::Communicator* const communicator = communicator_of(slice);
  return communicator == nullptr ? -1 : communicator->job_rank(rank);
}

bool JobTrace::all_found() const { return std::ranges::count_if(parts, &Part::found) >= recorded; }

bool JobTrace::all_ended() const {
  return std::ranges::count_if(parts, [](const Part& part) { return part.found && part.recording.ended; }) >= recorded;
}

JobTrace read_job(const std::string& folder) { return JobReader().read(folder); }

}  // namespace tutti::trace
