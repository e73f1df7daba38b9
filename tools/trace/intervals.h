// Stretches of time: their union, their difference, how long they are. Pure.
#pragma once

#include <vector>

namespace tutti::analysis {

// Times of a trace have three decimals: those that are nearer to each other are the same.
inline constexpr double kHalfTick_us = 0.0005;

struct Interval {
  double begin_us = 0, end_us = 0;

  double length_us() const { return end_us - begin_us; }
};

// In order, none empty, none touching another: what united() makes, and the others take and give.
using Intervals = std::vector<Interval>;

Intervals united(std::vector<Interval> any);
// Of `from`, what no part of `taken` covers.
Intervals without(const Intervals& from, const Intervals& taken);
// Of `of`, what lies in the window.
Intervals within(const Intervals& of, const Interval& window);
double length_us(const Intervals& of);

}  // namespace tutti::analysis
