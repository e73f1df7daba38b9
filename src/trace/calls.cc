#include "trace/calls.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tutti::trace {
namespace {

bool is_collective(const Slice& slice) {
  return slice.event.kind == EventKind::call && static_cast<Verb>(slice.event.what) != Verb::send_recv &&
         slice.event.what < kVerbs;
}

bool is_message(const Slice& slice) {
  return slice.event.kind == EventKind::call && static_cast<Verb>(slice.event.what) == Verb::send_recv;
}

// What both ends of a message know it by: the communicator, the call, from whom to whom, the channel. Messages of calls
// come as they are numbered; those of steps in the order in which they were sent.
using Way = std::tuple<std::uint64_t, std::uint64_t, int, int, int>;
constexpr int kNoChannel = -1;  // a call that is a message

struct Ends {
  std::vector<std::size_t> sent, received;
};

int channel_at(std::uint8_t flags, int from) { return flags >> from & 7; }

}  // namespace

void tell_all_in(JobTrace& job) {
  struct Entered {
    int ranks = 0;
    std::int64_t last_ns = 0;
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, Entered> calls;  // by communicator and number
  const auto key_of = [&](const Slice& slice) {
    return std::pair(job.communicator_of(slice)->id, slice.event.sequence);
  };
  for (const Slice& slice : job.slices) {
    if (!is_collective(slice) || job.communicator_of(slice) == nullptr) continue;
    Entered& call = calls[key_of(slice)];
    call.last_ns = call.ranks++ == 0 ? slice.begin_ns : std::max(call.last_ns, slice.begin_ns);
  }
  for (Slice& slice : job.slices) {
    if (!is_collective(slice) || job.communicator_of(slice) == nullptr) continue;
    const Entered& call = calls[key_of(slice)];
    if (call.ranks == job.communicator_of(slice)->size) slice.all_in_ns = call.last_ns;
  }
}

std::vector<Flow> flows_of(const JobTrace& job) {
  std::map<Way, Ends> ways;
  for (std::size_t i = 0; i < job.slices.size(); ++i) {
    const Slice& slice = job.slices[i];
    const TraceEvent& event = slice.event;
    const Recording::Communicator* const communicator = job.communicator_of(slice);
    if (communicator == nullptr) continue;
    const auto end = [&](int peer, bool sends, int channel) {
      const int other = communicator->job_rank(peer);
      Ends& ends =
          ways[{communicator->id, event.sequence, sends ? slice.rank : other, sends ? other : slice.rank, channel}];
      (sends ? ends.sent : ends.received).push_back(i);
    };
    if (is_message(slice)) end(event.peer(), (event.flags & TraceEvent::kSends) != 0, kNoChannel);
    if (event.kind != EventKind::step) continue;
    const int gives = channel_at(event.flags, TraceEvent::kGivesChannel);
    const int takes = channel_at(event.flags, TraceEvent::kTakesChannel);
    if ((event.flags & TraceEvent::kGives) != 0)
      RankSet(event.amount).for_each([&](int peer) { end(peer, true, gives); });
    if ((event.flags & TraceEvent::kTakes) != 0)
      RankSet(event.other).for_each([&](int peer) { end(peer, false, takes); });
  }
  std::vector<Flow> flows;
  for (const auto& [way, ends] : ways) {
    // Where one end has lost some nobody knows which; a call's own number is enough.
    const bool numbered = std::get<4>(way) == kNoChannel;
    if (!numbered && ends.sent.size() != ends.received.size()) continue;
    for (std::size_t i = 0; i < std::min(ends.sent.size(), ends.received.size()); ++i)
      flows.push_back({ends.sent[i], ends.received[i]});
  }
  return flows;
}

std::vector<RanSchedule> schedules_of(const JobTrace& job) {
  using Kind = std::tuple<int, std::string, int>;  // verb, algorithm, ranks
  std::map<Kind, std::set<std::pair<std::uint64_t, std::uint64_t>>> ran;
  for (const Slice& slice : job.slices) {
    const Recording::Communicator* const communicator = job.communicator_of(slice);
    if (!is_collective(slice) || communicator == nullptr || job.name_of(slice).empty()) continue;
    ran[{slice.event.what, std::string(job.name_of(slice)), communicator->size}].emplace(communicator->id,
                                                                                         slice.event.sequence);
  }
  std::vector<RanSchedule> schedules;
  for (const auto& [kind, calls] : ran)
    schedules.push_back({static_cast<Verb>(std::get<0>(kind)), std::get<1>(kind), std::get<2>(kind), calls.size()});
  return schedules;
}

}  // namespace tutti::trace
