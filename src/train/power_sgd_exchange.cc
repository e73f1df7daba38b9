#include "train/power_sgd_exchange.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/mix.h"
#include "train/float_arrays.h"

namespace tutti::train {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7F800000U;
// A vector that is shorter than this share of what it was has nothing left but rounding.
constexpr float kVanished = 1e-5F;

// In (-1, 1).
float chance(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(static_cast<std::int32_t>(mix(mix(seed, index), ~seed) >> 32)) * 0x1p-31F;
}

// To length 1, whatever the numbers: squares of all of them would not always be numbers. False where all are zero.
bool normalise(float* vector, std::size_t count) {
  float most = 0;
  for (std::size_t i = 0; i < count; ++i) most = std::max(most, std::abs(vector[i]));
  if (most == 0) return false;
  scale_floats(vector, count, std::ldexp(1.0, std::clamp(-std::ilogb(most), -126, 126)));
  scale_floats(vector, count, 1 / std::sqrt(static_cast<double>(kernels::dot(vector, vector, count))));
  return true;
}

// Takes away what the earlier ones have of it. Twice, because the first time leaves rounding errors of what it takes.
void take_away(const float* earlier, std::size_t vectors, float* vector, std::size_t count) {
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t k = 0; k < vectors; ++k)
      kernels::add_multiple(vector, earlier + k * count, -kernels::dot(earlier + k * count, vector, count), count);
}

// Makes vector `k` orthogonal to those before it, and of length 1. False where nothing is left of it.
bool make_direction(float* vectors, std::size_t k, std::size_t count) {
  float* const vector = vectors + k * count;
  if (!normalise(vector, count)) return false;
  take_away(vectors, k, vector, count);
  return std::sqrt(kernels::dot(vector, vector, count)) > kVanished && normalise(vector, count);
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

bool pays(const PowerSgd& settings, const Parameter& parameter) {
  if (parameter.shape.size() < 2) return false;
  const std::size_t all = parameter.elements();
  if (all == 0) return false;
  const auto rows = static_cast<std::size_t>(parameter.shape[0]);
  return settings.rank <= (all - 1) / (rows + all / rows);  // rank * (rows + columns) < all, however large the rank
}

PowerSgdExchange::PowerSgdExchange(const PowerSgd& settings, bool error_feedback, const BucketExchangeShape& shape,
                                   Communicator& communicator)
    : settings_(settings), keeps_(error_feedback), shape_(shape), matrices_(shape.filled) {
  for (const BucketMatrix& matrix : shape.matrices) {
    factors_.push_back({matrix, {matrix.rows, matrix.columns, settings.rank}, left_count_, right_count_});
    left_count_ += settings.rank * matrix.rows;
    right_count_ += settings.rank * matrix.columns;
  }
  left_ = communicator.allocate_bytes(left_count_ * sizeof(float));
  right_ = communicator.allocate_bytes(right_count_ * sizeof(float));
  // Nothing is there yet: chance takes the place of what vanished.
  for (const Factors& factors : factors_)
    make_orthonormal(right_of(factors), factors.size.columns, factors.matrix.parameter);
}

// Where nothing is left of a vector, chance takes its place. A rank that pays is below both lengths, so that there
// always is a direction more.
void PowerSgdExchange::make_orthonormal(float* vectors, std::size_t length, std::uint64_t seed) const {
  for (std::size_t k = 0; k < settings_.rank; ++k) {
    for (std::uint64_t turn = 0; !make_direction(vectors, k, length); ++turn) {
      const std::uint64_t own = mix(mix(mix(settings_.seed, seed), k), turn);
      for (std::size_t i = 0; i < length; ++i) vectors[k * length + i] = chance(own, i);
    }
  }
}

void PowerSgdExchange::submit_mean(Communicator& communicator, void* values, std::size_t count) {
  work_ = communicator.submit({.verb = Verb::all_reduce,
                               .input = values,
                               .output = values,
                               .input_count = count,
                               .output_count = count,
                               .element = DType::float32,
                               .op = Op(ReduceOp::average)});
}

void PowerSgdExchange::start(Communicator& communicator, const std::byte* gradients, GradientShare share) {
  // A rank's share of all examples, in a mean over ranks.
  const double factor = share ? *share * shape_.ranks : 1;
  alignas(64) float fresh[kTile];
  for (const Factors& factors : factors_) {
    const auto& [rows, columns, rank] = factors.size;
    float* const matrix = matrices_.data() + factors.matrix.offset;
    for_tiles(rows * columns, [&](std::size_t begin, std::size_t count) {
      const std::size_t at = factors.matrix.offset + begin;
      load_floats(fresh, gradients + at * size_of(shape_.type), shape_.type, count);
      if (factor != 1) scale_floats(fresh, count, factor);
      if (!keeps_) std::fill_n(matrix + begin, count, 0.0F);
      add_floats(matrix + begin, fresh, count);
    });
    kernels::multiply_right(factors.size, matrix, right_of(factors), left_of(factors));
  }
  submit_mean(communicator, left_.get(), left_count_);
}

void PowerSgdExchange::publish(Communicator& communicator) {
  work_.wait();
  // All ranks see the same, and go the same way.
  if (!all_finite({static_cast<const float*>(left_.get()), left_count_})) return tell_largest(communicator);
  for (const Factors& factors : factors_) {
    make_orthonormal(left_of(factors), factors.size.rows, ~factors.matrix.parameter);
    kernels::multiply_left(factors.size, matrices_.data() + factors.matrix.offset, left_of(factors), right_of(factors));
  }
  submit_mean(communicator, right_.get(), right_count_);
}

// In the place of the right factors.
void PowerSgdExchange::tell_largest(Communicator& communicator) {
  Largest own{0, 0};
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const std::uint32_t magnitude = std::min(std::bit_cast<std::uint32_t>(matrices_[i]) & 0x7FFFFFFFU, kInfinityBits);
    if (magnitude > own.magnitude) own = {magnitude, i};
  }
  largest_.assign(static_cast<std::size_t>(shape_.ranks), {});
  largest_[static_cast<std::size_t>(shape_.rank)] = own;
  work_ = communicator.submit({.verb = Verb::all_gather,
                               .input = &largest_[static_cast<std::size_t>(shape_.rank)],
                               .output = largest_.data(),
                               .input_count = sizeof(Largest),
                               .output_count = largest_.size() * sizeof(Largest),
                               .element = DType::uint8});
}

// Where the first of the largest is. The gradients of this step are of no use, nor is what they were added to.
NotFinitePlace PowerSgdExchange::forget_all() {
  std::ranges::fill(matrices_, 0.0F);
  const auto largest = std::ranges::max_element(largest_, {}, &Largest::magnitude);
  const NotFinitePlace place{static_cast<int>(largest - largest_.begin()), largest->index};
  largest_.clear();
  return place;
}

std::optional<NotFinitePlace> PowerSgdExchange::finish(std::byte* output) {
  work_.wait();
  work_ = {};
  float* const right = static_cast<float*>(right_.get());
  if (largest_.empty() && !all_finite({right, right_count_})) {  // sums of finite numbers overflow
    largest_.assign(1, {kInfinityBits, factors_.front().matrix.offset});
    expand_all(output);
    std::fill_n(right, right_count_, 0.0F);
  } else {
    expand_all(output);  // of what is not finite, too, for whoever looks at the norm
  }
  for (const Factors& factors : factors_)
    make_orthonormal(right_of(factors), factors.size.columns, factors.matrix.parameter);
  if (largest_.empty()) return {};
  return forget_all();
}

void PowerSgdExchange::expand_all(std::byte* output) {
  for (const Factors& factors : factors_) expand(factors, output);
}

// The product, row by row: what is lost, and the part of it that is wanted.
void PowerSgdExchange::expand(const Factors& factors, std::byte* output) {
  const auto& [rows, columns, rank] = factors.size;
  const std::size_t own = shape_.cut ? shape_.share() : shape_.count();
  const std::size_t begin = shape_.cut ? static_cast<std::size_t>(shape_.rank) * own : 0;
  alignas(64) float tile[kTile];
  for (std::size_t row = 0; row < rows; ++row) {
    for_tiles(columns, [&, columns = columns](std::size_t first, std::size_t count) {
      kernels::product_of_row(factors.size, left_of(factors), right_of(factors), row, first, count, tile);
      const std::size_t at = factors.matrix.offset + row * columns + first;
      if (keeps_) kernels::add_multiple(matrices_.data() + at, tile, -1, count);
      const std::size_t from = std::max(at, begin), to = std::min(at + count, begin + own);
      if (from < to)
        store_floats(tile + (from - at), output + (from - begin) * size_of(shape_.type), shape_.type, to - from);
    });
  }
}

void PowerSgdExchange::rescale(double factor) {
  if (keeps_) scale_floats(matrices_.data(), matrices_.size(), factor);
}

// The directions, too, which all ranks have alike.
std::vector<KeptFloats> PowerSgdExchange::kept() {
  std::vector<KeptFloats> kept;
  if (keeps_) kept.push_back({"lost", matrices_});
  for (const Factors& factors : factors_)
    kept.push_back({.name = "directions",
                    .values = {right_of(factors), factors.size.rank * factors.size.columns},
                    .parameter = factors.matrix.parameter});
  return kept;
}

strategy::CompressedCalls PowerSgdExchange::calls_of(const PowerSgd& settings, bool error_feedback,
                                                     const BucketExchangeShape& shape) {
  std::size_t rows = 0, columns = 0;
  for (const BucketMatrix& matrix : shape.matrices) {
    rows += matrix.rows;
    columns += matrix.columns;
  }
  return {.verb = Verb::all_reduce,
          .bytes = settings.rank * rows * sizeof(float),
          .returned_bytes = settings.rank * columns * sizeof(float),
          .returned_by = Verb::all_reduce,
          .error_bytes = error_feedback ? shape.filled * sizeof(float) : 0,
          .how = "rank " + std::to_string(settings.rank)};
}

}  // namespace tutti::train
