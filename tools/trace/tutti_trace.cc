#include "tools/trace/tutti_trace.h"

#include <algorithm>
#include <utility>

#include "base/formatted.h"
#include "base/rank_list.h"
#include "tutti/error.h"

namespace tutti::analysis {
namespace {

// Where an event lies: a rank and one of its rows.
struct TraceRow {
  std::int64_t thread = 0;
  int rank = 0;
  bool is_program = false;  // what the program itself did, on its first thread
};

// One end of a flow.
struct FlowEnd {
  std::int64_t thread = 0;
  double at_us = 0;
};

// What lies on a row, one within another: steps of a call that goes on while a shorter one comes and ends.
template <class What>
class Placed {
 public:
  void add(std::int64_t thread, const Interval& time, What what) { rows_[thread].push_back({time, what}); }
  // Once all are there, before the first at().
  void sort() {
    for (auto& [thread, row] : rows_) {
      std::ranges::stable_sort(row, [](const Slice& a, const Slice& b) {
        return a.time.begin_us != b.time.begin_us ? a.time.begin_us < b.time.begin_us : a.time.end_us > b.time.end_us;
      });
      std::vector<std::size_t> open;
      for (std::size_t i = 0; i < row.size(); ++i) {
        while (!open.empty() && row[open.back()].time.end_us <= row[i].time.begin_us) open.pop_back();
        row[i].around = open.empty() ? kNone : open.back();
        open.push_back(i);
      }
    }
  }
  // The innermost that lasts at that time.
  std::optional<What> at(const FlowEnd& end) const {
    const auto found = rows_.find(end.thread);
    if (found == rows_.end()) return std::nullopt;
    const std::vector<Slice>& row = found->second;
    const auto behind =
        std::ranges::upper_bound(row, end.at_us + kHalfTick_us, {}, [](const Slice& s) { return s.time.begin_us; });
    std::size_t i = behind == row.begin() ? kNone : static_cast<std::size_t>(behind - row.begin()) - 1;
    while (i != kNone && row[i].time.end_us + kHalfTick_us < end.at_us) i = row[i].around;
    return i == kNone ? std::nullopt : std::optional(row[i].what);
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Slice {
    Interval time;
    What what;
    std::size_t around = kNone;  // the innermost one that it lies in
  };

  std::map<std::int64_t, std::vector<Slice>> rows_;
};

class TraceBuilder {
 public:
  explicit TraceBuilder(const Json& facts);

  void add(const Json& event);
  TracedJob finish();

 private:
  using CallName = std::pair<std::string, std::int64_t>;  // communicator and number, of collectives

  // One rank's part of a call, until all parts are known.
  struct Part {
    CallPart part;
    double began_us = 0;
  };

  // A message as its sender had it: the receiver's part tells of it, but the sender's time was its own.
  struct Send {
    int rank = 0;
    Interval time;
    double ready_us = 0;  // from here on its bytes were on their way: what comes before waited for the receiver
  };

  TraceRow row_of(std::int64_t thread) const;
  void add_call(const TraceRow& row, const Json& event, const Json& arguments, const Interval& time);
  void add_wait(const TraceRow& row, const Json& arguments, const Interval& time);
  void add_step(const TraceRow& row, const Json& event, const Json& arguments, const Interval& time);
  void add_flow(const Json& event, const std::string& phase);
  void finish_calls();
  void finish_flows();
  void finish_steps();
  void tell_parts(const Json& facts);

  int ranks_;
  std::vector<bool> program_rows_;
  std::map<std::string, int> communicators_;  // how many ranks each has
  TracedJob trace_;
  std::vector<std::vector<Part>> parts_;  // by call
  std::vector<double> all_in_;            // by call; below 0 where it is not known
  std::map<CallName, std::size_t> collectives_;
  std::size_t nameless_ = 0;                             // parts of calls of which nobody knows whose they are
  std::vector<CallName> step_calls_;                     // by step: its call may stand behind it in the file
  std::size_t partial_ = 0;                              // calls that some ranks' parts are missing of
  std::vector<std::vector<Interval>> held_, under_way_;  // by rank
  std::vector<std::vector<std::pair<std::int64_t, Interval>>> train_steps_;  // by rank, as they are numbered
  std::vector<Send> sends_;
  std::map<std::string, std::pair<std::optional<FlowEnd>, std::optional<FlowEnd>>> flows_;
  Placed<std::size_t> steps_, receives_, sent_;
};

TraceBuilder::TraceBuilder(const Json& facts) : ranks_(facts.at("ranks").get<int>()) {
  trace_.job = facts.value("job", "");
  trace_.ranks.resize(static_cast<std::size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    trace_.ranks[static_cast<std::size_t>(rank)].rank = rank;
    trace_.ranks[static_cast<std::size_t>(rank)].found = false;
  }
  held_.resize(trace_.ranks.size());
  under_way_.resize(trace_.ranks.size());
  train_steps_.resize(trace_.ranks.size());
  for (const Json& row : facts.value("rows", Json::array()))
    program_rows_.push_back(row.get<std::string>().starts_with("program"));
  if (program_rows_.empty()) program_rows_.push_back(true);
  for (const Json& of : facts.value("communicators", Json::array()))
    communicators_[of.at("id").get<std::string>()] = static_cast<int>(of.at("ranks").size());
  tell_parts(facts);
}

void TraceBuilder::tell_parts(const Json& facts) {
  for (const Json& host : facts.value("hosts", Json::array())) {
    trace_.hosts.push_back(host.value("name", ""));
    if (const double error = host.value("clock_error_us", 0.0); error > 0)
      trace_.notes.push_back(formatted("clocks: that of %s may be %.4g us off", trace_.hosts.back().c_str(), error));
  }
  for (const Json& part : facts.value("parts", Json::array())) {
    const std::string name = rank_name(part.value("rank", 0));
    if (!part.value("recorded", true)) continue;
    if (!part.value("found", true)) {
      trace_.notes.push_back("nothing is left of " + name);
      continue;
    }
    if (const auto lost = part.value("lost", std::int64_t{0}); lost > 0)
      trace_.notes.push_back(name + " lost its oldest events, " + std::to_string(lost) + " of them");
    if (const auto nameless = part.value("nameless", std::int64_t{0}); nameless > 0)
      trace_.notes.push_back(name + " had no room for more names: algorithms or spans are left out");
    if (!part.value("ended", true)) trace_.notes.push_back(name + " was killed, or still ran");
  }
}

TraceRow TraceBuilder::row_of(std::int64_t thread) const {
  const auto row = static_cast<std::size_t>(thread / ranks_);
  return {thread, static_cast<int>(thread % ranks_), row < program_rows_.size() && program_rows_[row]};
}

void TraceBuilder::add(const Json& event) {
  const std::string phase = event.value("ph", "");
  if (phase == "s" || phase == "f") return add_flow(event, phase);
  if (phase != "X") return;
  const auto thread = event.at("tid").get<std::int64_t>();
  if (thread < 0) return;
  const TraceRow row = row_of(thread);
  const double begin = event.at("ts").get<double>();
  const Interval time = {begin, begin + event.value("dur", 0.0)};
  RankTimeline& rank = trace_.ranks[static_cast<std::size_t>(row.rank)];
  rank.whole =
      rank.found ? Interval{std::min(rank.whole.begin_us, begin), std::max(rank.whole.end_us, time.end_us)} : time;
  rank.found = true;
  const std::string category = event.value("cat", "");
  const Json arguments = event.value("args", Json::object());
  if (category == "call") add_call(row, event, arguments, time);
  if (category == "wait") add_wait(row, arguments, time);
  if (category == "step") add_step(row, event, arguments, time);
  if (category == "train")
    train_steps_[static_cast<std::size_t>(row.rank)].emplace_back(arguments.at("step").get<std::int64_t>(), time);
}

void TraceBuilder::add_call(const TraceRow& row, const Json& event, const Json& arguments, const Interval& time) {
  const auto rank = static_cast<std::size_t>(row.rank);
  if (row.is_program && !arguments.value("async", false)) held_[rank].push_back(time);
  under_way_[rank].push_back(time);
  TracedCall call;
  call.verb = event.at("name").get<std::string>();
  call.algorithm = arguments.value("algorithm", "");
  call.communicator = arguments.value("comm", "");
  call.sequence = arguments.value("seq", std::int64_t{0});
  call.message = arguments.contains("peer");
  call.bytes = arguments.value("bytes", 0.0);
  if (arguments.contains("predicted_us")) call.predicted_us = arguments.at("predicted_us").get<double>();
  const bool receives = call.message && arguments.value("direction", "") == "receive";
  if (call.message && !receives) {
    sent_.add(row.thread, time, sends_.size());
    sends_.push_back({row.rank, time, time.begin_us});
    return;
  }
  const auto communicator = communicators_.find(call.communicator);
  call.ranks = call.message ? 1 : communicator == communicators_.end() ? ranks_ : communicator->second;
  std::size_t at = trace_.calls.size();
  const bool nameless = communicator == communicators_.end() && !communicators_.empty();
  nameless_ += nameless && !call.message ? 1 : 0;
  if (!call.message && !nameless)
    at = collectives_.emplace(CallName(call.communicator, call.sequence), at).first->second;
  if (at == trace_.calls.size()) {
    trace_.calls.push_back(std::move(call));
    parts_.emplace_back();
    all_in_.push_back(-1);
  }
  if (receives) receives_.add(row.thread, time, at);
  all_in_[at] = std::max(all_in_[at], arguments.value("all_in_us", -1.0));
  parts_[at].push_back(
      {{row.rank, time.begin_us, time.begin_us, time.end_us, 0}, arguments.value("began_us", time.begin_us)});
}

void TraceBuilder::add_wait(const TraceRow& row, const Json& arguments, const Interval& time) {
  const auto rank = static_cast<std::size_t>(row.rank);
  if (row.is_program) held_[rank].push_back(time);
  if (const int peer = arguments.value("peer", kNobody); peer >= 0 && peer < ranks_)
    trace_.ranks[rank].waits.push_back({peer, time});
}

void TraceBuilder::add_step(const TraceRow& row, const Json& event, const Json& arguments, const Interval& time) {
  ScheduleStep step;
  step.rank = row.rank;
  step.operation = event.at("name").get<std::string>();
  step.lane = arguments.value("lane", std::int64_t{0});
  step.number = arguments.value("step", std::int64_t{0});
  step.segment = arguments.value("segment", std::int64_t{0});
  step.from = arguments.value("from", kNobody);
  step.to = arguments.value("to", kNobody);
  step.time = time;
  step_calls_.emplace_back(arguments.value("comm", ""), arguments.value("seq", std::int64_t{0}));
  steps_.add(row.thread, time, trace_.steps.size());
  trace_.steps.push_back(std::move(step));
}

void TraceBuilder::add_flow(const Json& event, const std::string& phase) {
  auto& [from, to] = flows_[event.at("id").dump()];
  (phase == "s" ? from : to) = FlowEnd{event.at("tid").get<std::int64_t>(), event.at("ts").get<double>()};
}

// Steps learn whose message they took, receivers when it was sent, senders when somebody was there to receive it.
void TraceBuilder::finish_flows() {
  steps_.sort();
  receives_.sort();
  sent_.sort();
  for (const auto& [id, flow] : flows_) {
    if (!flow.first || !flow.second) continue;
    if (const auto taker = steps_.at(*flow.second)) {
      trace_.steps[*taker].sender = steps_.at(*flow.first);
    } else if (const auto receive = receives_.at(*flow.second)) {
      for (Part& part : parts_[*receive]) part.began_us = std::max(part.began_us, flow.first->at_us);
      const auto send = sent_.at(*flow.first);
      if (!send) continue;
      Send& of = sends_[*send];
      const double asked = parts_[*receive].front().part.entered_us;
      if (asked < of.time.end_us)
        of.ready_us = std::max(of.ready_us, asked);  // else it was eager, and waited for nobody
    }
  }
}

// A loop that counts from 0 in every epoch numbers its steps twice: then they are numbered as they came.
void TraceBuilder::finish_steps() {
  bool repeated = false;
  for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) {
    std::ranges::stable_sort(train_steps_[rank], {}, [](const auto& step) { return step.second.begin_us; });
    for (const auto& [number, time] : train_steps_[rank])
      repeated = !trace_.ranks[rank].steps.emplace(number, time).second || repeated;
  }
  if (!repeated) return;
  for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) {
    trace_.ranks[rank].steps.clear();
    for (const auto& [number, time] : train_steps_[rank])
      trace_.ranks[rank].steps.emplace(static_cast<std::int64_t>(trace_.ranks[rank].steps.size()), time);
  }
  trace_.notes.push_back("steps have the same number several times: here they are numbered from 0 on as they came");
}

void TraceBuilder::finish_calls() {
  std::vector<std::vector<Interval>> on_the_wire(trace_.ranks.size());
  for (const Send& send : sends_)
    on_the_wire[static_cast<std::size_t>(send.rank)].push_back({send.ready_us, send.time.end_us});
  for (std::size_t i = 0; i < trace_.calls.size(); ++i) {
    TracedCall& call = trace_.calls[i];
    double all_in = all_in_[i];  // where it is not told, the last of those that are here
    if (all_in < 0 && !call.message) {
      for (const Part& part : parts_[i]) all_in = std::max(all_in, part.part.entered_us);
      const bool known = communicators_.empty() || communicators_.contains(call.communicator);
      partial_ += known && static_cast<int>(parts_[i].size()) < call.ranks ? 1 : 0;
    }
    double first_in = parts_[i].front().part.entered_us;
    for (const Part& part : parts_[i]) first_in = std::min(first_in, part.part.entered_us);
    for (const Part& of : parts_[i]) {
      CallPart part = of.part;
      part.late_us = part.entered_us - first_in;
      part.ready_us = std::min(std::max(all_in, of.began_us), part.ended_us);
      on_the_wire[static_cast<std::size_t>(part.rank)].push_back({part.ready_us, part.ended_us});
      call.parts.push_back(part);
    }
    std::ranges::sort(call.parts, {}, &CallPart::rank);
  }
  for (std::size_t rank = 0; rank < trace_.ranks.size(); ++rank) {
    RankTimeline& timeline = trace_.ranks[rank];
    timeline.communication = united(std::move(on_the_wire[rank]));
    timeline.under_way = united(std::move(under_way_[rank]));
    timeline.compute = without({timeline.whole}, united(std::move(held_[rank])));
  }
}

TracedJob TraceBuilder::finish() {
  for (std::size_t i = 0; i < trace_.steps.size(); ++i) {
    const auto call = collectives_.find(step_calls_[i]);
    trace_.steps[i].call = call == collectives_.end() ? trace_.calls.size() : call->second;
  }
  finish_flows();
  finish_calls();
  finish_steps();
  if (partial_ > 0)
    trace_.notes.push_back(
        formatted("of %zu call%s some ranks' parts are missing: when the last one came is not "
                  "known, and what was waited for it counts as communication",
                  partial_, partial_ == 1 ? "" : "s"));
  if (nameless_ > 0)
    trace_.notes.push_back(
        formatted("%zu parts of calls have no communicator, because a ring has room for so many of "
                  "them: each is told as a call of its own",
                  nameless_));
  return std::move(trace_);
}

}  // namespace

void refuse_trace(const std::string& name, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, name + " is no trace that can be read: " + why);
}

TracedJob tutti_trace(const EventFile& file, const std::string& name) {
  try {
    const Json facts = file.members().value("tutti", Json::object());
    if (const std::string why = why_unreadable(facts); !why.empty()) refuse_trace(name, why);
    TraceBuilder builder(facts);
    const std::size_t unreadable = file.for_each([&](const Json& event) { builder.add(event); });
    TracedJob trace = builder.finish();
    const std::string missing = what_is_missing(file, unreadable, trace.whole().end_us);
    if (!missing.empty()) trace.notes.push_back(missing);
    return trace;
  } catch (const Json::exception& error) {
    refuse_trace(name, error.what());
  }
}

}  // namespace tutti::analysis
