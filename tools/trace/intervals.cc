#include "tools/trace/intervals.h"

#include <algorithm>

namespace tutti::analysis {

Intervals united(std::vector<Interval> any) {
  std::erase_if(any, [](const Interval& one) { return !(one.end_us > one.begin_us); });
  std::ranges::sort(any, {}, &Interval::begin_us);
  Intervals all;
  for (const Interval& one : any) {
    if (!all.empty() && one.begin_us <= all.back().end_us)
      all.back().end_us = std::max(all.back().end_us, one.end_us);
    else
      all.push_back(one);
  }
  return all;
}

Intervals without(const Intervals& from, const Intervals& taken) {
  Intervals left;
  std::size_t next = 0;
  for (const Interval& one : from) {
    while (next < taken.size() && taken[next].end_us <= one.begin_us) ++next;
    double at = one.begin_us;
    for (std::size_t i = next; i < taken.size() && taken[i].begin_us < one.end_us; ++i) {
      if (taken[i].begin_us > at) left.push_back({at, taken[i].begin_us});
      at = std::max(at, taken[i].end_us);
    }
    if (at < one.end_us) left.push_back({at, one.end_us});
  }
  return left;
}

Intervals within(const Intervals& of, const Interval& window) {
  Intervals inside;
  const auto first = std::ranges::upper_bound(of, window.begin_us, {}, &Interval::end_us);
  for (auto one = first; one != of.end() && one->begin_us < window.end_us; ++one) {
    const Interval cut = {std::max(one->begin_us, window.begin_us), std::min(one->end_us, window.end_us)};
    if (cut.end_us > cut.begin_us) inside.push_back(cut);
  }
  return inside;
}

double length_us(const Intervals& of) {
  double length = 0;
  for (const Interval& one : of) length += one.length_us();
  return length;
}

}  // namespace tutti::analysis
