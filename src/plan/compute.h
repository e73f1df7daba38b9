// What a rank computes: seconds of a layer, of what stands before and behind all layers, and of the optimizer.
//
// A product of matrices takes its operations at a share of the peak, as if it were somewhat deeper for the begin and
// end of its tiles, and its operands once through memory, so that small and thin ones get less of the peak; what works
// number by number (norms, activations, residuals, softmax) goes through memory alone; every kernel takes a moment to
// begin.
#pragma once

#include <algorithm>

#include "plan/job.h"

namespace tutti::plan {

struct WorkSeconds {
  double products = 0, attention = 0, pointwise = 0;

  double sum() const { return products + attention + pointwise; }
  WorkSeconds& operator+=(const WorkSeconds& other) {
    products += other.products;
    attention += other.attention;
    pointwise += other.pointwise;
    return *this;
  }
  WorkSeconds times(double factor) const { return {products * factor, attention * factor, pointwise * factor}; }
};

struct PassSeconds {
  WorkSeconds forward, backward;  // of one micro-batch; backward without what it computes again
};

// Of one micro-batch on one rank.
PassSeconds layer_seconds(const Job& job, int layer);
PassSeconds embedding_seconds(const Job& job);
PassSeconds logits_seconds(const Job& job);
// What backward computes again of a layer.
WorkSeconds again_seconds(const Job& job, const PassSeconds& layer);
// A step of Adam over so many parameters.
double optimizer_seconds(const Job& job, double parameters);

// Tokens of the fullest expert over the mean of all that come: what is beyond its room goes nowhere.
inline double fullest_expert(const ModelShape& model) { return std::min(model.imbalance, model.capacity_factor); }

// Tokens of a micro-batch that a rank has.
inline double tokens_on_rank(const Job& job) {
  return static_cast<double>(job.micro_batch) * job.sequence / job.parallel.cp;
}

}  // namespace tutti::plan
