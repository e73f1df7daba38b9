// How long the calls of a bucket, or of a unit of stage 3, are under way in a step, from steps that were timed
// (topology/measured_steps.h): between their sizes, and by how much the gradients of the step are all in all, which the
// caches hold or do not. Pure.
#pragma once

#include <map>
#include <vector>

#include "topology/measured_steps.h"

namespace tutti::plan {

class StepPrices {
 public:
  explicit StepPrices(const std::vector<topology::MeasuredStep>& steps);

  bool knows(int stage) const { return stages_.contains(stage); }
  // How many buckets a timed step of that stage had, at least.
  int buckets(int stage) const { return stages_.at(stage).buckets; }
  // Of a bucket of `bytes` in a step of `whole`, with all that is said about it: seconds.
  double seconds(int stage, double bytes, double whole) const;

 private:
  // Logarithms; between two points lies a straight line, beyond the ends it stays as it is.
  using Curve = std::map<double, double>;
  struct Stage {
    int buckets = 0;
    Curve small;  // seconds of a bucket by its bytes, in steps of so few buckets
    Curve rate;   // seconds a byte by the bytes of the step, of buckets that are not small
  };
  static double at(const Curve& curve, double value);

  std::map<int, Stage> stages_;
};

}  // namespace tutti::plan
