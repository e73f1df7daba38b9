#include "train/top_k_exchange.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "train/float_arrays.h"

namespace tutti::train {

TopKExchange::TopKExchange(const TopK& settings, bool error_feedback, const BucketExchangeShape& shape)
    : settings_(settings),
      keeps_(error_feedback),
      shape_(shape),
      sent_count_(kept_count(settings, shape.count())),
      waiting_(shape.count()),
      velocity_(settings.momentum > 0 ? shape.count() : 0),
      order_(shape.count()),
      sent_(sent_count_),
      received_(sent_count_ * static_cast<std::size_t>(shape.ranks)) {
  if (shape.type != DType::float32) sums_.resize(shape.cut ? shape.share() : shape.count());
}

// What is sent or waits: gradients, or velocities that they add to.
void TopKExchange::take_in(const std::byte* gradients, double factor) {
  alignas(64) float fresh[kTile];
  for_tiles(shape_.count(), [&](std::size_t begin, std::size_t count) {
    load_floats(fresh, gradients + begin * size_of(shape_.type), shape_.type, count);
    if (factor != 1) scale_floats(fresh, count, factor);
    const float* taken = fresh;
    if (!velocity_.empty()) {
      scale_floats(velocity_.data() + begin, count, settings_.momentum);
      add_floats(velocity_.data() + begin, fresh, count);
      taken = velocity_.data() + begin;
    }
    if (!keeps_) std::fill_n(waiting_.data() + begin, count, 0.0F);
    add_floats(waiting_.data() + begin, taken, count);
  });
}

// Of equal magnitudes the earlier; infinities and NaN are larger than all numbers, and so are told.
void TopKExchange::select() {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(waiting_[i]) & 0x7FFFFFFFU;
    order_[i] = std::uint64_t{~magnitude} << 32 | i;
  }
  const auto end = order_.begin() + static_cast<std::ptrdiff_t>(sent_count_);
  if (end != order_.end()) std::nth_element(order_.begin(), end, order_.end());
  const auto place = [](std::uint64_t key) { return static_cast<std::uint32_t>(key); };
  std::sort(order_.begin(), end, [&](std::uint64_t a, std::uint64_t b) { return place(a) < place(b); });
  for (std::size_t i = 0; i < sent_count_; ++i) {
    const std::uint32_t index = place(order_[i]);
    sent_[i] = {index, std::exchange(waiting_[index], 0.0F)};
    if (!velocity_.empty()) velocity_[index] = 0;
  }
}

void TopKExchange::start(Communicator& communicator, const std::byte* gradients, GradientShare share) {
  divisor_ = share ? 1.0F : static_cast<float>(shape_.ranks);
  take_in(gradients, share.value_or(1));
  select();
  work_ = communicator.submit({.verb = Verb::all_gather,
                               .input = sent_.data(),
                               .output = received_.data(),
                               .input_count = sent_.size() * sizeof(SentValue),
                               .output_count = received_.size() * sizeof(SentValue),
                               .element = DType::uint8});
}

std::optional<NotFinitePlace> TopKExchange::finish(std::byte* output) {
  work_.wait();
  work_ = {};
  const std::size_t own = shape_.cut ? shape_.share() : shape_.count();
  const std::size_t begin = shape_.cut ? static_cast<std::size_t>(shape_.rank) * own : 0;
  float* const sums = sums_.empty() ? reinterpret_cast<float*>(output) : sums_.data();
  std::fill(sums, sums + own, 0.0F);
  std::optional<NotFinitePlace> place;
  for (std::size_t i = 0; i < received_.size(); ++i) {
    const auto [index, value] = received_[i];
    if (!place && !std::isfinite(value)) place = NotFinitePlace{static_cast<int>(i / sent_count_), index};
    if (index >= begin && index < begin + own) sums[index - begin] += value;
  }
  if (place) {  // what is no number is told now and forgotten
    for (std::vector<float>* kept : {&waiting_, &velocity_})
      std::ranges::replace_if(
          *kept, [](float value) { return !std::isfinite(value); }, 0.0F);
  }
  for (std::size_t i = 0; divisor_ != 1 && i < own; ++i) sums[i] /= divisor_;
  if (!sums_.empty()) store_floats(sums, output, shape_.type, own);
  return place;
}

void TopKExchange::rescale(double factor) {
  scale_floats(waiting_.data(), waiting_.size(), factor);
  scale_floats(velocity_.data(), velocity_.size(), factor);
}

std::vector<KeptFloats> TopKExchange::kept() {
  std::vector<KeptFloats> kept;
  if (keeps_) kept.push_back({"lost", waiting_});
  if (!velocity_.empty()) kept.push_back({"velocity", velocity_});
  return kept;
}

strategy::CompressedCalls TopKExchange::calls_of(const TopK& settings, bool error_feedback,
                                                 const BucketExchangeShape& shape) {
  const std::size_t kept_arrays = (error_feedback ? 1 : 0) + (settings.momentum > 0 ? 1 : 0);
  return {.verb = Verb::all_gather,
          .bytes = kept_count(settings, shape.count()) * static_cast<std::size_t>(shape.ranks) * sizeof(SentValue),
          .error_bytes = kept_arrays * shape.count() * sizeof(float),
          .how = "the largest"};
}

}  // namespace tutti::train
