#include "tools/view/traced.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "tools/trace/event_file.h"
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
    if (event.value("ph", "") != "X") return;
    const auto thread = event.at("tid").get<std::int64_t>();
    if (thread < 0 || thread / ranks_ >= rows_) return;  // a row that the trace does not have
    const std::string category = event.value("cat", "");
    const Json arguments = event.value("args", Json::object());
    Slice slice;
    slice.rank = thread % ranks_;
    slice.row = thread / ranks_;
    slice.category = categories_.of(category);
    slice.name = names_.of(event.at("name").get<std::string>());
    slice.begin = event.at("ts").get<double>();
    slice.duration = event.value("dur", 0.0);
    if (category == "call") slice.detail = call_of(arguments, slice.begin, slice.begin + slice.duration);
    if (category == "wait") slice.detail = arguments.value("peer", -1);
    slices_.push_back(slice);
  }

  void tell(Json& document) {
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
    document["calls"] = std::move(calls_);
  }

 private:
  struct Slice {
    std::int64_t rank = 0, row = 0;
    int category = 0, name = 0;
    double begin = 0, duration = 0;
    int detail = -1;
  };

  // Bytes, by what, how long that was to take, and how much of its time went before only data was on its way: it waited
  // for earlier calls, and for ranks that had not come. The rest is what the prediction is about.
  int call_of(const Json& arguments, double begin, double end) {
    const std::string algorithm = arguments.value("algorithm", "");
    const double ready = std::max(arguments.value("began_us", begin), arguments.value("all_in_us", begin));
    calls_.push_back({arguments.value("bytes", 0.0), algorithm.empty() ? -1 : names_.of(algorithm),
                      arguments.value("predicted_us", -1.0), rounded(std::clamp(ready, begin, end) - begin)});
    return static_cast<int>(calls_.size()) - 1;
  }

  std::int64_t ranks_, rows_;
  std::vector<Slice> slices_;
  Names names_, categories_;
  Json calls_ = Json::array();
};

[[noreturn]] void refuse_trace(const std::string& title, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, title + " is no trace that can be shown: " + why);
}

}  // namespace

Json traced_json(std::string_view text, const std::string& title) {
  Json document = {{"version", kViewVersion}, {"kind", "trace"}, {"title", title}, {"notes", Json::array()}};
  const analysis::EventFile file(text);
  if (!file.problem().empty()) refuse_trace(title, file.problem());
  if (!file.is_whole()) document["notes"].push_back("cut off: what is readable is shown");
  try {
    const Json facts = file.members().value("tutti", Json::object());
    if (facts.empty()) refuse_trace(title, "Tutti did not record it; `tutti trace` reads those of torch.profiler, too");
    if (const std::string why = analysis::why_unreadable(facts); !why.empty()) refuse_trace(title, why);
    const auto ranks = facts.at("ranks").get<std::int64_t>();
    document["rows"] = facts.value("rows", Json::array());
    if (document["rows"].empty()) document["rows"].push_back("program");
    TraceTable table(ranks, static_cast<std::int64_t>(document["rows"].size()));
    file.for_each([&](const Json& event) { table.add(event); });
    document["ranks"] = ranks;
    for (const Json& part : facts.value("parts", Json::array())) {
      if (!part.value("recorded", true)) continue;
      if (!part.value("found", true))
        document["notes"].push_back("nothing is left of rank " + std::to_string(part.value("rank", 0)));
      if (part.value("lost", std::int64_t{0}) > 0)
        document["notes"].push_back("rank " + std::to_string(part.value("rank", 0)) + " lost its oldest events");
    }
    table.tell(document);
  } catch (const Json::exception& error) {
    refuse_trace(title, error.what());
  }
  return document;
}

}  // namespace tutti::view
