#include "train/quantised_exchange.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/mix.h"
#include "train/float_arrays.h"
#include "train/words.h"

namespace tutti::train {
namespace {

constexpr std::size_t kHeaderBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kAllFinite = ~std::uint64_t{0};
static_assert(kTile % kernels::kMostCodeBlock == 0, "a tile is a whole number of blocks of any size");

kernels::CodeType code_type(QuantisedType type) {
  switch (type) {
    case QuantisedType::int8: return kernels::CodeType::int8;
    case QuantisedType::int4: return kernels::CodeType::int4;
    case QuantisedType::e4m3: return kernels::CodeType::e4m3;
    case QuantisedType::e5m2: return kernels::CodeType::e5m2;
    case QuantisedType::e3m0: return kernels::CodeType::e3m0;
  }
  refuse_call("there is no type " + std::to_string(static_cast<int>(type)) +
              " to quantise to; take int8, int4, e4m3, e5m2 or e3m0");
}

}  // namespace

void check_settings(const Quantise& settings) {
  code_type(settings.type);
  check_block(settings.block);
}

void check_block(std::size_t block) {
  if (!std::has_single_bit(block) || block < kernels::kLeastCodeBlock || block > kernels::kMostCodeBlock) {
    refuse_call("a block of " + std::to_string(block) + " values; give a power of two from " +
                std::to_string(kernels::kLeastCodeBlock) + " to " + std::to_string(kernels::kMostCodeBlock));
  }
}

QuantisedExchange::QuantisedExchange(const Quantise& settings) : settings_(settings) {
  check_settings(settings);
  format_ = {code_type(settings.type), settings.block};
}

std::size_t QuantisedExchange::piece_bytes() const { return kHeaderBytes + kernels::code_bytes(format_, chunk_); }

std::size_t QuantisedExchange::sent_bytes(int ranks, std::size_t chunk) const {
  return static_cast<std::size_t>(ranks) * kHeaderBytes + returned_bytes(ranks, chunk);
}

std::size_t QuantisedExchange::returned_bytes(int ranks, std::size_t chunk) const {
  return static_cast<std::size_t>(ranks) * kernels::code_bytes(format_, chunk);
}

std::size_t QuantisedExchange::memory_bytes() const { return sent_.size() + received_.size() + own_.size(); }

// Values [first, first + count) of the input. Returns the index of the first that is not finite, or kAllFinite.
std::uint64_t QuantisedExchange::encode(const QuantisedInput& input, std::size_t first, std::size_t count,
                                        std::byte* codes) const {
  const auto* const values = static_cast<const std::byte*>(input.values);
  const std::uint64_t seed = mix(mix(settings_.seed, calls_), static_cast<std::uint64_t>(rank_));
  std::uint64_t not_finite = kAllFinite;
  alignas(64) float tile[kTile];
  for_tiles(count, [&](std::size_t begin, std::size_t n) {
    const std::size_t at = first + begin;
    load_floats(tile, values + at * size_of(input.type), input.type, n);
    if (input.factor != 1) scale_floats(tile, n, input.factor);
    float* const residual = input.residual == nullptr ? nullptr : input.residual + at;
    if (residual != nullptr) add_floats(tile, residual, n);
    std::byte* const to = codes + kernels::code_bytes(format_, begin);
    const std::size_t bad = kernels::quantise(format_, tile, n, to, {settings_.stochastic, seed, at});
    if (bad < n && not_finite == kAllFinite) not_finite = at + bad;
    if (residual == nullptr) return;
    kernels::dequantise_rest(format_, to, n, tile, residual);
    // What is no number is told now and forgotten.
    if (bad < n)
      std::replace_if(
          residual, residual + n, [](float rest) { return !std::isfinite(rest); }, 0.0F);
  });
  return not_finite;
}

void QuantisedExchange::send(Communicator& communicator, const QuantisedInput& input, std::uint32_t mark,
                             PiecePart part) {
  ranks_ = communicator.size();
  rank_ = communicator.rank();
  published_ = false;
  ++calls_;
  const auto pieces = static_cast<std::size_t>(ranks_);
  stride_ = (input.count + pieces - 1) / pieces;
  part_ = std::min(part.begin, stride_);
  chunk_ = std::min(part.count, stride_ - part_);
  sent_.resize(pieces * piece_bytes());
  received_.resize(sent_.size());
  std::uint64_t not_finite = kAllFinite;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t first = std::min(piece * stride_ + part_, input.count);
    const std::size_t count = std::min(chunk_, input.count - first);
    std::byte* const codes = sent_.data() + piece * piece_bytes() + kHeaderBytes;
    not_finite = std::min(not_finite, encode(input, first, count, codes));
    // Pieces are equally long; what is behind the last value says nothing.
    if (piece == static_cast<std::size_t>(rank_)) own_count_ = count;
    const std::size_t bytes = kernels::code_bytes(format_, count);
    std::memset(codes + bytes, 0, kernels::code_bytes(format_, chunk_) - bytes);
  }
  for (std::size_t piece = 0; piece < pieces; ++piece)
    std::memcpy(sent_.data() + piece * piece_bytes(), &not_finite, kHeaderBytes);
  work_ = communicator.submit({.verb = Verb::all_to_all,
                               .input = sent_.data(),
                               .output = received_.data(),
                               .input_count = sent_.size(),
                               .output_count = received_.size(),
                               .element = DType::uint8,
                               .mark = mark});
}

void QuantisedExchange::send_to_all(Communicator& communicator, const QuantisedInput& input) {
  ranks_ = communicator.size();
  rank_ = communicator.rank();
  published_ = false;
  ++calls_;
  chunk_ = stride_ = input.count;
  part_ = 0;
  sent_.resize(piece_bytes());
  received_.resize(static_cast<std::size_t>(ranks_) * piece_bytes());
  const std::uint64_t not_finite = encode(input, 0, chunk_, sent_.data() + kHeaderBytes);
  std::memcpy(sent_.data(), &not_finite, kHeaderBytes);
  work_ = communicator.submit({.verb = Verb::all_gather,
                               .input = sent_.data(),
                               .output = received_.data(),
                               .input_count = sent_.size(),
                               .output_count = received_.size(),
                               .element = DType::uint8});
}

void QuantisedExchange::wait() {
  if (work_.valid()) work_.wait();
  work_ = {};
}

std::optional<NotFinitePlace> QuantisedExchange::first_not_finite() {
  wait();
  for (int rank = 0; rank < ranks_; ++rank) {
    std::uint64_t index = 0;
    std::memcpy(&index, received_.data() + static_cast<std::size_t>(rank) * piece_bytes(), kHeaderBytes);
    if (index != kAllFinite) return NotFinitePlace{rank, index};
  }
  return {};
}

// Of values [begin, begin + count) of the own piece, in the order of ranks.
void QuantisedExchange::sum_tile(std::size_t begin, std::size_t count, float divisor, float* sums) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::byte* const codes = received_.data() + static_cast<std::size_t>(rank) * piece_bytes() + kHeaderBytes +
                                   kernels::code_bytes(format_, begin);
    if (rank == 0) {
      kernels::dequantise(format_, codes, count, sums);
    } else {
      kernels::dequantise_add(format_, codes, count, sums);
    }
  }
  if (divisor == 1) return;
  for (std::size_t i = 0; i < count; ++i) sums[i] /= divisor;
}

void QuantisedExchange::reduce(float divisor, void* output, DType type) {
  wait();
  alignas(64) float tile[kTile];
  for_tiles(chunk_, [&](std::size_t begin, std::size_t count) {
    sum_tile(begin, count, divisor, tile);
    store_floats(tile, static_cast<std::byte*>(output) + begin * size_of(type), type, count);
  });
}

void QuantisedExchange::publish(Communicator& communicator, float divisor, std::span<float> residual,
                                std::span<float> owners_residual) {
  wait();
  const std::size_t bytes = kernels::code_bytes(format_, chunk_);
  const std::size_t first = std::min(static_cast<std::size_t>(rank_) * stride_ + part_, residual.size());
  const std::span<float> own_residual = residual.subspan(first, std::min(chunk_, residual.size() - first));
  own_.assign(bytes, std::byte{});
  // Another chance than that of the first rounding.
  const std::uint64_t seed = mix(mix(~settings_.seed, calls_), static_cast<std::uint64_t>(rank_));
  alignas(64) float tile[kTile];
  for_tiles(own_count_, [&](std::size_t begin, std::size_t count) {
    sum_tile(begin, count, divisor, tile);
    if (!owners_residual.empty()) add_floats(tile, owners_residual.data() + part_ + begin, count);
    std::byte* const codes = own_.data() + kernels::code_bytes(format_, begin);
    const std::size_t bad = kernels::quantise(format_, tile, count, codes, {settings_.stochastic, seed, part_ + begin});
    if (bad < count) return;
    if (!owners_residual.empty()) {
      kernels::dequantise_rest(format_, codes, count, tile, owners_residual.data() + part_ + begin);
    } else if (begin < own_residual.size()) {
      // This rank's next contribution makes up for it; a mean takes `divisor` times as much.
      kernels::dequantise_rest(format_, codes, count, tile, tile);
      if (divisor != 1) scale_floats(tile, count, static_cast<double>(divisor));
      add_floats(own_residual.data() + begin, tile, std::min(count, own_residual.size() - begin));
    }
  });
  sent_.resize(std::max(sent_.size(), static_cast<std::size_t>(ranks_) * bytes));
  published_ = true;
  work_ = communicator.submit({.verb = Verb::all_gather,
                               .input = own_.data(),
                               .output = sent_.data(),
                               .input_count = bytes,
                               .output_count = static_cast<std::size_t>(ranks_) * bytes,
                               .element = DType::uint8});
}

void QuantisedExchange::receive(void* output, DType type, std::size_t count) {
  wait();
  const std::size_t header = published_ ? 0 : kHeaderBytes, bytes = header + kernels::code_bytes(format_, chunk_);
  const std::vector<std::byte>& pieces = published_ ? sent_ : received_;
  alignas(64) float tile[kTile];
  for (std::size_t piece = 0; piece < static_cast<std::size_t>(ranks_); ++piece) {
    const std::size_t first = std::min(piece * stride_ + part_, count);
    const std::byte* const codes = pieces.data() + piece * bytes + header;
    for_tiles(std::min(chunk_, count - first), [&](std::size_t begin, std::size_t n) {
      const std::byte* const from = codes + kernels::code_bytes(format_, begin);
      auto* const to = static_cast<std::byte*>(output) + (first + begin) * size_of(type);
      if (type == DType::float32) {
        kernels::dequantise(format_, from, n, reinterpret_cast<float*>(to));
      } else {
        kernels::dequantise(format_, from, n, tile);
        store_floats(tile, to, type, n);
      }
    });
  }
}

}  // namespace tutti::train
