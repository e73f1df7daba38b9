#include "tools/view/traced.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "tools/trace/event_file.h"
#include "tools/trace/facts.h"
#include "tools/trace/flows.h"
#include "tools/view/played.h"
#include "tutti/error.h"

namespace tutti::view {
namespace {

class Names {
 public:
  int of(const std::string& name) {
    const auto [at, is_new] = numbers_.emplace(name, static_cast<int>(list_.size()));
    if (is_new) list_.push_back(name);
    return at->second;
  }
  Json list() const { return list_; }

 private:
  std::map<std::string, int> numbers_;
  Json list_ = Json::array();
};

double rounded(double us) { return std::round(us * 1e3) / 1e3; }

class TraceTable {
 public:
  TraceTable(std::int64_t ranks, std::int64_t rows) : ranks_(ranks), rows_(rows) {}

  void add(const Json& event) {
    const std::string phase = event.value("ph", "");
    if (flows_.add(event, phase) || phase != "X") return;
    const auto thread = event.at("tid").get<std::int64_t>();
    if (thread < 0 || thread / ranks_ >= rows_) return;  // a row that the trace does not have
    const std::string category = event.value("cat", ""), name = event.at("name").get<std::string>();
    const Json arguments = event.value("args", Json::object());
    Slice slice;
    slice.rank = thread % ranks_;
    slice.row = thread / ranks_;
    slice.begin = event.at("ts").get<double>();
    slice.duration = event.value("dur", 0.0);
    slice.name = names_.of(name);
    if (category == "call") slice.detail = add_call(thread, arguments, {slice.begin, slice.begin + slice.duration});
    if (category == "wait") slice.detail = arguments.value("peer", -1);
    slice.category = categories_.of(category);
    slices_.push_back(slice);
  }
  // When the last of them ended.
  double until_us() const {
    double until = 0;
    for (const Slice& slice : slices_) until = std::max(until, slice.begin + slice.duration);
    return until;
  }

  void tell(Json& document) {
    finish_messages();
    std::stable_sort(slices_.begin(), slices_.end(), [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
    const double first = slices_.empty() ? 0 : std::min(0.0, slices_.front().begin);
    double span = 0;
    Json events = Json::array();
    for (const Slice& slice : slices_) {
      span = std::max(span, slice.begin + slice.duration - first);
      for (const std::int64_t number : {slice.rank, slice.row}) events.push_back(number);
      for (const int number : {slice.category, slice.name}) events.push_back(number);
      events.push_back(rounded(slice.begin - first));
      events.push_back(rounded(slice.duration));
      events.push_back(slice.detail);
    }
    document["span_us"] = rounded(span);
    document["categories"] = categories_.list();
    document["names"] = names_.list();
    document["events"] = std::move(events);
    Json& calls = document["calls"] = Json::array();
    for (const Call& call : calls_)
      calls.push_back({call.bytes, call.algorithm, call.predicted,
                       rounded(std::clamp(call.ready, call.time.begin_us, call.time.end_us) - call.time.begin_us)});
  }

 private:
  struct Slice {
    std::int64_t rank = 0, row = 0;
    int category = 0, name = 0;
    double begin = 0, duration = 0;
    int detail = -1;
  };

  // `ready`: from here on only data was on its way. What lies before waited for earlier calls, and for ranks that had
  // not come; the rest is what the prediction is about.
  struct Call {
    double bytes = 0;
    int algorithm = -1;
    double predicted = -1;
    analysis::Interval time;
    double ready = 0;
  };

  int add_call(std::int64_t thread, const Json& arguments, const analysis::Interval& time) {
    const std::string algorithm = arguments.value("algorithm", ""), direction = arguments.value("direction", "");
    const double began = arguments.value("began_us", time.begin_us), all_in = arguments.value("all_in_us", began);
    Call call{arguments.value("bytes", 0.0), -1, arguments.value("predicted_us", -1.0), time, std::max(began, all_in)};
    if (!algorithm.empty()) call.algorithm = names_.of(algorithm);
    if (arguments.contains("peer")) (direction == "receive" ? receives_ : sends_).add(thread, time, calls_.size());
    calls_.push_back(call);
    return static_cast<int>(calls_.size()) - 1;
  }

  // Who receives waits until the message was sent, and who sends, unless it was eager, until somebody is there for it.
  void finish_messages() {
    receives_.sort();
    sends_.sort();
    for (const analysis::Flow& flow : flows_.whole()) {
      const auto receive = receives_.at(flow.to), send = sends_.at(flow.from);
      if (!receive || !send) continue;
      Call &taken = calls_[*receive], &sent = calls_[*send];
      taken.ready = std::max(taken.ready, flow.from.at_us);
      if (taken.time.begin_us < sent.time.end_us) sent.ready = std::max(sent.ready, taken.time.begin_us);
    }
  }

  std::int64_t ranks_, rows_;
  std::vector<Slice> slices_;
  Names names_, categories_;
  std::vector<Call> calls_;
  analysis::Flows flows_;
  analysis::Placed<std::size_t> receives_, sends_;  // messages among the calls
};

[[noreturn]] void refuse_trace(const std::string& title, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, title + " is no trace that can be shown: " + why);
}

}  // namespace

Json traced_json(std::string_view text, const std::string& title) {
  Json document = {{"version", kViewVersion}, {"kind", "trace"}, {"title", title}, {"notes", Json::array()}};
  const analysis::EventFile file(text);
  if (!file.problem().empty()) refuse_trace(title, file.problem());
  try {
    const Json facts = file.members().value("tutti", Json::object());
    if (facts.empty()) refuse_trace(title, "Tutti did not record it; `tutti trace` reads those of torch.profiler, too");
    if (const std::string why = analysis::why_unreadable(facts); !why.empty()) refuse_trace(title, why);
    const auto ranks = facts.at("ranks").get<std::int64_t>();
    document["rows"] = facts.value("rows", Json::array());
    if (document["rows"].empty()) document["rows"].push_back("program");
    TraceTable table(ranks, static_cast<std::int64_t>(document["rows"].size()));
    const std::size_t unreadable = file.for_each([&](const Json& event) { table.add(event); });
    document["ranks"] = ranks;
    document["notes"] = analysis::notes_of(facts);
    if (std::string missing = analysis::what_is_missing(file, unreadable, table.until_us()); !missing.empty())
      document["notes"].push_back(std::move(missing));
    table.tell(document);
  } catch (const Json::exception& error) {
    refuse_trace(title, error.what());
  }
  return document;
}

}  // namespace tutti::view
