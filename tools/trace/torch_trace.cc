#include "tools/trace/torch_trace.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/formatted.h"
#include "base/rank_list.h"
#include "tools/trace/torch_rank.h"
#include "tools/trace/tutti_trace.h"
#include "tutti/error.h"

namespace tutti::analysis {
namespace {

// Clocks of hosts differ; two runs differ by more.
constexpr double kMostApartUs = 60e6;

struct ReadFile {
  std::string name;
  TorchRank read;
};

[[noreturn]] void refuse_together(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "these traces are not of one job: " + why);
}

void require_one_job(const std::vector<ReadFile>& files) {
  const ReadFile& first = files.front();
  const auto words = [](const ReadFile& file) {
    return formatted("%s has %d ranks of %s", file.name.c_str(), file.read.size.value_or(0), file.read.backend.c_str());
  };
  for (const ReadFile& file : files) {
    if (file.read.size != first.read.size || file.read.backend != first.read.backend)
      refuse_together(words(first) + ", " + words(file));
    if (!file.read.epoch_us || !first.read.epoch_us) continue;
    const double shift = *file.read.epoch_us - *first.read.epoch_us;
    const double apart = std::max(file.read.whole.begin_us + shift - first.read.whole.end_us,
                                  first.read.whole.begin_us - file.read.whole.end_us - shift);
    if (apart > kMostApartUs)
      refuse_together(formatted("%.0f s lie between %s and %s", apart / 1e6, first.name.c_str(), file.name.c_str()));
  }
}

// Every file at its rank: what it says, or else its place among the files.
std::vector<const ReadFile*> by_rank(const std::vector<ReadFile>& files, TracedJob& trace) {
  const int size = std::max(files.front().read.size.value_or(0), static_cast<int>(files.size()));
  if (size > kMostJobRanks)
    refuse_trace(files.front().name,
                 formatted("it says that its job has more than %lld ranks", static_cast<long long>(kMostJobRanks)));
  std::vector<const ReadFile*> found(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!files[i].read.rank)
      trace.notes.push_back(files[i].name + " does not say its rank: taken as " + rank_name(static_cast<int>(i)));
    const int rank = files[i].read.rank.value_or(static_cast<int>(i));
    if (rank < 0 || rank >= size) refuse_trace(files[i].name, formatted("it is of rank %d of %d", rank, size));
    const ReadFile*& place = found[static_cast<std::size_t>(rank)];
    if (place != nullptr)
      refuse_together(formatted("%s and %s are both of rank %d; give one file of each", place->name.c_str(),
                                files[i].name.c_str(), rank));
    place = &files[i];
  }
  return found;
}

void tell_files(const std::vector<ReadFile>& files, std::size_t ranks, TracedJob& trace) {
  if (files.size() < ranks)
    trace.notes.push_back(
        formatted("%zu of %zu ranks are here: waiting for the others counts as communication", files.size(), ranks));
  for (const ReadFile& file : files) {
    if (file.read.launches_only)
      trace.notes.push_back(file.name +
                            " has no kernels of NCCL, only its launches: profile with ProfilerActivity.CUDA");
    if (file.read.calls.empty()) trace.notes.push_back(file.name + " has no communication");
  }
}

Interval shifted(const Interval& time, double by) { return {time.begin_us + by, time.end_us + by}; }
Intervals shifted(Intervals times, double by) {
  for (Interval& time : times) time = shifted(time, by);
  return times;
}

RankTimeline timeline_of(const TorchRank& read, int rank, double shift) {
  RankTimeline timeline;
  timeline.rank = rank;
  timeline.whole = shifted(read.whole, shift);
  timeline.compute = shifted(read.compute, shift);
  timeline.under_way = shifted(read.communication, shift);
  for (const auto& [number, step] : read.steps) timeline.steps[number] = shifted(step, shift);
  return timeline;
}

// The n-th call of a group, verb and size is the same on all its ranks.
class Matcher {
 public:
  void add(const TorchCall& call, int rank, double shift) {
    const Interval time = shifted(call.time, shift);
    auto& of_rank = calls_[{call.group, call.verb, call.bytes, call.ranks}][rank];
    of_rank.push_back({rank, time.begin_us, time.begin_us, time.end_us, 0});
  }

  void tell(TracedJob& trace) {
    for (auto& [name, ranks] : calls_) {
      const bool message = std::get<1>(name) == "send_recv";
      const std::size_t count = ranks.begin()->second.size();
      const bool alike = std::ranges::all_of(ranks, [&](const auto& of) { return of.second.size() == count; });
      if (!alike && !message)
        trace.notes.push_back("calls of " + std::get<1>(name) +
                              " differ in number between ranks: waiting in them counts as communication");
      for (auto& [rank, parts] : ranks) {
        for (std::size_t i = 0; i < parts.size(); ++i) {
          if (!alike || message)
            add_call(trace, name, i, {parts[i]});
          else if (rank == ranks.begin()->first)
            add_call(trace, name, i, parts_of(ranks, i));
        }
      }
    }
  }

 private:
  using Name = std::tuple<std::string, std::string, double, int>;  // group, verb, bytes, ranks
  using ByRank = std::map<int, std::vector<CallPart>>;

  static std::vector<CallPart> parts_of(const ByRank& ranks, std::size_t which) {
    std::vector<CallPart> parts;
    for (const auto& [rank, list] : ranks) parts.push_back(list[which]);
    const auto length = [](const CallPart& part) { return part.ended_us - part.entered_us; };
    const double shortest = length(*std::ranges::min_element(parts, {}, length));
    const double longest = length(*std::ranges::max_element(parts, {}, length));
    for (CallPart& part : parts) {
      part.late_us = longest - length(part);
      part.ready_us = part.ended_us - shortest;
    }
    return parts;
  }

  static void add_call(TracedJob& trace, const Name& name, std::size_t sequence, std::vector<CallPart> parts) {
    TracedCall call;
    call.verb = std::get<1>(name);
    call.sequence = static_cast<std::int64_t>(sequence);
    call.bytes = std::get<2>(name);
    call.message = call.verb == "send_recv";
    call.ranks = call.message ? 1 : std::max(std::get<3>(name), static_cast<int>(parts.size()));
    call.parts = std::move(parts);
    if (call.parts.size() > 1) {
      const int last = call.last_to_enter().rank;
      for (const CallPart& part : call.parts)
        if (part.rank != last && part.ready_us > part.entered_us)
          trace.ranks[static_cast<std::size_t>(part.rank)].waits.push_back({last, {part.entered_us, part.ready_us}});
    }
    trace.calls.push_back(std::move(call));
  }

  std::map<Name, ByRank> calls_;
};

// Of what was under way, all but the waiting for others.
void finish(TracedJob& trace) {
  std::vector<std::vector<Interval>> waiting(trace.ranks.size()), ready(trace.ranks.size());
  for (const TracedCall& call : trace.calls) {
    for (const CallPart& part : call.parts) {
      waiting[static_cast<std::size_t>(part.rank)].push_back({part.entered_us, part.ready_us});
      ready[static_cast<std::size_t>(part.rank)].push_back({part.ready_us, part.ended_us});
    }
  }
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    RankTimeline& timeline = trace.ranks[rank];
    timeline.communication =
        without(timeline.under_way, without(united(std::move(waiting[rank])), united(std::move(ready[rank]))));
  }
}

}  // namespace

TracedJob torch_trace(std::span<const NamedEvents> named) {
  std::vector<ReadFile> files;
  TracedJob trace;
  trace.recorder = TracedJob::Recorder::torch;
  for (const NamedEvents& one : named) {
    try {
      files.push_back({one.name, torch_rank(*one.file)});
    } catch (const Error& error) {
      refuse_trace(one.name, error.what());
    } catch (const Json::exception& error) {
      refuse_trace(one.name, error.what());
    }
    const TorchRank& read = files.back().read;
    if (read.whole.length_us() <= 0)
      refuse_trace(one.name, "it has no operators, no kernels and no steps, and no member `tutti`");
    const std::string missing = what_is_missing(*one.file, read.unreadable, read.whole.length_us());
    if (!missing.empty()) trace.notes.push_back(one.name + ": " + missing);
  }
  require_one_job(files);
  trace.backend = files.front().read.backend;
  const std::vector<const ReadFile*> found = by_rank(files, trace);
  tell_files(files, found.size(), trace);
  // Times begin with the first event of all, as far as clocks can be put on one axis.
  double zero = std::numeric_limits<double>::max();
  for (const ReadFile& file : files) zero = std::min(zero, file.read.whole.begin_us + file.read.epoch_us.value_or(0));
  const bool one_axis = std::ranges::all_of(files, [](const ReadFile& file) { return file.read.epoch_us.has_value(); });
  const auto shift_of = [&](const TorchRank& read) { return one_axis ? *read.epoch_us - zero : -read.whole.begin_us; };
  Matcher matcher;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    const auto number = static_cast<int>(rank);
    if (found[rank] == nullptr) {
      trace.ranks.emplace_back();
      trace.ranks.back().rank = number;
      trace.ranks.back().found = false;
      continue;
    }
    const TorchRank& read = found[rank]->read;
    trace.ranks.push_back(timeline_of(read, number, shift_of(read)));
    for (const TorchCall& call : read.calls) matcher.add(call, number, shift_of(read));
  }
  matcher.tell(trace);
  finish(trace);
  return trace;
}

}  // namespace tutti::analysis
