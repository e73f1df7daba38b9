// A bucket's matrices as products of two thin ones (Vogels et al., PowerSGD). Of each matrix M, what this rank has and
// what earlier steps lost:
//
//   start     left = M right ............... submit all_reduce of all left ones
//   publish   wait, make left orthonormal,
//             right = M^T left ............. submit all_reduce of all right ones
//   finish    wait; the gradient is left right^T, lost is M - left right^T
//
// The next step begins with what `right` came to, made orthonormal: a change of basis, which changes no product, but
// keeps numbers from growing with the square of gradients, and puts a new direction in the place of one that vanished.
//
// Everything goes by matrix, so that the bits depend neither on buckets nor on the stage. Where values are cut, a rank
// still sees whole products, because what it lost lies everywhere, and keeps its shard of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/low_rank.h"
#include "train/bucket_exchange.h"
#include "tutti/train/parameters.h"

namespace tutti::train {

class PowerSgdExchange : public BucketExchange {
 public:
  // Collective.
  PowerSgdExchange(const PowerSgd& settings, bool error_feedback, const BucketExchangeShape& shape,
                   Communicator& communicator);

  void start(Communicator& communicator, const std::byte* gradients, GradientShare share) override;
  bool has_second_call() const override { return true; }
  bool can_publish() override { return work_.test(); }
  void publish(Communicator& communicator) override;
  std::optional<NotFinitePlace> finish(std::byte* output) override;
  bool is_under_way() const override { return work_.valid() && !work_.ended(); }
  void rescale(double factor) override;
  std::vector<KeptFloats> kept() override;
  strategy::CompressedCalls calls() const override { return calls_of(settings_, keeps_, shape_); }
  static strategy::CompressedCalls calls_of(const PowerSgd& settings, bool error_feedback,
                                            const BucketExchangeShape& shape);

 private:
  struct Factors {
    BucketMatrix matrix;
    kernels::MatrixSize size;
    std::size_t left = 0, right = 0;  // where they begin among all
  };
  // The largest magnitude that a rank has, with infinity and NaN above all numbers, and where it is.
  struct Largest {
    std::uint64_t magnitude, index;
  };
  float* left_of(const Factors& factors) const { return static_cast<float*>(left_.get()) + factors.left; }
  float* right_of(const Factors& factors) const { return static_cast<float*>(right_.get()) + factors.right; }
  void submit_mean(Communicator& communicator, void* values, std::size_t count);
  void make_orthonormal(float* vectors, std::size_t length, std::uint64_t seed) const;
  void tell_largest(Communicator& communicator);
  NotFinitePlace forget_all();
  void expand_all(std::byte* output);
  void expand(const Factors& factors, std::byte* output);

  PowerSgd settings_;
  bool keeps_;  // what was lost
  BucketExchangeShape shape_;
  std::vector<Factors> factors_;
  std::size_t left_count_ = 0, right_count_ = 0;
  std::shared_ptr<void> left_, right_;  // symmetric, so that the verbs run in it
  std::vector<float> matrices_;         // between steps: what was lost
  std::vector<Largest> largest_;        // of all ranks, where something is not finite
  Work work_;
};

// Whether two thin matrices are fewer numbers than the parameter's own.
bool pays(const PowerSgd& settings, const Parameter& parameter);

}  // namespace tutti::train
