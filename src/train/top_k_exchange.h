// A bucket's largest gradients alone: each rank sends the k largest of what it has, with their places, by all_gather,
// and everybody adds them up in the order of ranks. The rest waits until it is large enough.
//
// With momentum (Lin et al., Deep Gradient Compression) what waits is the sum of velocities, so that a number that is
// sent late brings the momentum that it would have had; what is sent starts anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/bucket_exchange.h"

namespace tutti::train {

class TopKExchange : public BucketExchange {
 public:
  // Numbers of a bucket: places travel in 32 bits.
  static constexpr std::uint64_t kMostCount = std::uint64_t{1} << 32;

  TopKExchange(const TopK& settings, bool error_feedback, const BucketExchangeShape& shape);

  void start(Communicator& communicator, const std::byte* gradients, GradientShare share) override;
  std::optional<NotFinitePlace> finish(std::byte* output) override;
  bool is_under_way() const override { return work_.valid() && !work_.ended(); }
  void rescale(double factor) override;
  std::vector<KeptFloats> kept() override;
  strategy::CompressedCalls calls() const override { return calls_of(settings_, keeps_, shape_); }
  static strategy::CompressedCalls calls_of(const TopK& settings, bool error_feedback,
                                            const BucketExchangeShape& shape);

 private:
  struct SentValue {
    std::uint32_t index;
    float value;
  };
  void take_in(const std::byte* gradients, double factor);
  void select();

  TopK settings_;
  bool keeps_;  // what was not sent
  BucketExchangeShape shape_;
  std::size_t sent_count_;
  std::vector<float> waiting_, velocity_;
  std::vector<std::uint64_t> order_;
  std::vector<SentValue> sent_, received_;
  std::vector<float> sums_;  // where gradients have 16 bits
  float divisor_ = 1;
  Work work_;
};

}  // namespace tutti::train
