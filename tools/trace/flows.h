// Flows of a trace, which tie who sent to who received, and what lies on a row at some time. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/event_file.h"
#include "tools/trace/intervals.h"

namespace tutti::analysis {

// One end of a flow.
struct FlowEnd {
  std::int64_t thread = 0;
  double at_us = 0;
};

struct Flow {
  FlowEnd from, to;
};

class Flows {
 public:
  // Takes both ends, in any order; false: it is neither.
  bool add(const Json& event, const std::string& phase) {
    if (phase != "s" && phase != "f") return false;
    const FlowEnd end{event.at("tid").get<std::int64_t>(), event.at("ts").get<double>()};
    auto& [from, to] = ends_[event.at("id").dump()];
    (phase == "s" ? from : to) = end;
    return true;
  }
  // Those that have both ends.
  std::vector<Flow> whole() const {
    std::vector<Flow> flows;
    for (const auto& [id, ends] : ends_)
      if (ends.first && ends.second) flows.push_back({*ends.first, *ends.second});
    return flows;
  }

 private:
  std::map<std::string, std::pair<std::optional<FlowEnd>, std::optional<FlowEnd>>> ends_;
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

}  // namespace tutti::analysis
