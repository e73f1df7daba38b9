#include "tools/trace/tutti_trace.h"

#include <algorithm>
#include <utility>

#include "base/formatted.h"
#include "tools/trace/facts.h"
#include "tools/trace/flows.h"
#include "tutti/error.h"

namespace tutti::analysis {
namespace {

// Where an event lies: a rank and one of its rows.
struct TraceRow {
  std::int64_t thread = 0;
  int rank = 0;
  bool is_program = false;  // what the program itself did, on its first thread
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
  TracedCall call_of(const Json& event, const Json& arguments) const;
  void add_call(const TraceRow& row, const Json& event, const Json& arguments, const Interval& time);
  void add_wait(const TraceRow& row, const Json& arguments, const Interval& time);
  void add_step(const TraceRow& row, const Json& event, const Json& arguments, const Interval& time);
  void finish_calls();
  void finish_flows();
  void finish_steps();

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
  Flows flows_;
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
  for (const Json& host : facts.value("hosts", Json::array())) trace_.hosts.push_back(host.value("name", ""));
  trace_.notes = notes_of(facts);
}

TraceRow TraceBuilder::row_of(std::int64_t thread) const {
  const auto row = static_cast<std::size_t>(thread / ranks_);
  return {thread, static_cast<int>(thread % ranks_), row < program_rows_.size() && program_rows_[row]};
}

void TraceBuilder::add(const Json& event) {
  const std::string phase = event.value("ph", "");
  if (flows_.add(event, phase) || phase != "X") return;
  const auto thread = event.at("tid").get<std::int64_t>();
  if (thread < 0) return;
  const TraceRow row = row_of(thread);
  const double begin = event.at("ts").get<double>();
  const Interval time = {begin, begin + event.value("dur", 0.0)};
  const std::string category = event.value("cat", "");
  const Json arguments = event.value("args", Json::object());
  if (category == "call") add_call(row, event, arguments, time);
  if (category == "wait") add_wait(row, arguments, time);
  if (category == "step") add_step(row, event, arguments, time);
  if (category == "train")
    train_steps_[static_cast<std::size_t>(row.rank)].emplace_back(arguments.at("step").get<std::int64_t>(), time);
  RankTimeline& rank = trace_.ranks[static_cast<std::size_t>(row.rank)];
  rank.whole =
      rank.found ? Interval{std::min(rank.whole.begin_us, begin), std::max(rank.whole.end_us, time.end_us)} : time;
  rank.found = true;
}

// The call as one rank's event has it.
TracedCall TraceBuilder::call_of(const Json& event, const Json& arguments) const {
  TracedCall call;
  call.verb = event.at("name").get<std::string>();
  call.algorithm = arguments.value("algorithm", "");
  call.communicator = arguments.value("comm", "");
  call.sequence = arguments.value("seq", std::int64_t{0});
  call.message = arguments.contains("peer");
  call.bytes = arguments.value("bytes", 0.0);
  if (arguments.contains("predicted_us")) call.predicted_us = arguments.at("predicted_us").get<double>();
  const auto communicator = communicators_.find(call.communicator);
  call.ranks = call.message ? 1 : communicator == communicators_.end() ? ranks_ : communicator->second;
  return call;
}

// Reads all of it before it keeps anything: an event that cannot be read leaves nothing behind.
void TraceBuilder::add_call(const TraceRow& row, const Json& event, const Json& arguments, const Interval& time) {
  const auto rank = static_cast<std::size_t>(row.rank);
  TracedCall call = call_of(event, arguments);
  const bool receives = call.message && arguments.value("direction", "") == "receive";
  const bool async = arguments.value("async", false);
  const double began = arguments.value("began_us", time.begin_us), all_in = arguments.value("all_in_us", -1.0);
  if (row.is_program && !async) held_[rank].push_back(time);
  under_way_[rank].push_back(time);
  if (call.message && !receives) {
    sent_.add(row.thread, time, sends_.size());
    sends_.push_back({row.rank, time, time.begin_us});
    return;
  }
  std::size_t at = trace_.calls.size();
  const bool nameless = !communicators_.empty() && !communicators_.contains(call.communicator);
  nameless_ += nameless && !call.message ? 1 : 0;
  if (!call.message && !nameless)
    at = collectives_.emplace(CallName(call.communicator, call.sequence), at).first->second;
  if (at == trace_.calls.size()) {
    trace_.calls.push_back(std::move(call));
    parts_.emplace_back();
    all_in_.push_back(-1);
  } else {
    // Of a v-variant a rank may know its own chunks alone: who knows most knows best.
    trace_.calls[at].bytes = std::max(trace_.calls[at].bytes, call.bytes);
  }
  if (receives) receives_.add(row.thread, time, at);
  all_in_[at] = std::max(all_in_[at], all_in);
  parts_[at].push_back({{row.rank, time.begin_us, time.begin_us, time.end_us, 0}, began});
}

void TraceBuilder::add_wait(const TraceRow& row, const Json& arguments, const Interval& time) {
  const auto rank = static_cast<std::size_t>(row.rank);
  const int peer = arguments.value("peer", kNobody);
  if (row.is_program) held_[rank].push_back(time);
  if (peer >= 0 && peer < ranks_) trace_.ranks[rank].waits.push_back({peer, time});
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
  CallName call(arguments.value("comm", ""), arguments.value("seq", std::int64_t{0}));
  step_calls_.push_back(std::move(call));
  steps_.add(row.thread, time, trace_.steps.size());
  trace_.steps.push_back(std::move(step));
}

// Steps learn whose message they took, receivers when it was sent, senders when somebody was there to receive it.
void TraceBuilder::finish_flows() {
  steps_.sort();
  receives_.sort();
  sent_.sort();
  for (const Flow& flow : flows_.whole()) {
    if (const auto taker = steps_.at(flow.to)) {
      trace_.steps[*taker].sender = steps_.at(flow.from);
    } else if (const auto receive = receives_.at(flow.to)) {
      for (Part& part : parts_[*receive]) part.began_us = std::max(part.began_us, flow.from.at_us);
      const auto send = sent_.at(flow.from);
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
    const Json facts = file.members().value("tutti", Json());
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
