// Codes of quantise.h: what each type makes of a scaled value and back, and the walk over blocks.
#include "kernels/quantise.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/mix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantise.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"
#include "kernels/formats_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace {

using I32 = hn::RebindToSigned<U32>;
using U8Quarter = hn::Rebind<std::uint8_t, F32>;  // as many bytes as F32 has lanes
using U16 = hn::ScalableTag<std::uint16_t>;
using U8Half = hn::Rebind<std::uint8_t, U16>;
using Reals = hn::Vec<F32>;
using Words = hn::Vec<I32>;

constexpr std::size_t kStep = kLanes<F32>;
constexpr std::int32_t kMagnitudeBits = 0x7FFFFFFF;
constexpr std::int32_t kInfinityBits = 0x7F800000;
// Added to a small number it leaves the nearest whole one, ties to even, in the lowest bits: every target adds alike.
constexpr float kWholeMagic = 0x1.8p23F;

HWY_INLINE Reals load_values(const float* from) { return load(F32(), reinterpret_cast<const std::byte*>(from)); }
HWY_INLINE Reals load_values(const float* from, std::size_t n) {
  return load_first(F32(), reinterpret_cast<const std::byte*>(from), n * sizeof(float));
}
HWY_INLINE Words words_of(Reals v) { return hn::BitCast(I32(), v); }
HWY_INLINE Words set_word(std::int32_t word) { return hn::Set(I32(), word); }
HWY_INLINE Reals set_real(float real) { return hn::Set(F32(), real); }

constexpr std::uint32_t kGolden = 0x9E3779B9U;

// 32 bits for every position of a block, from the block's key. `spread` has the first positions times kGolden.
HWY_INLINE hn::Vec<U32> random_words(std::uint32_t key, hn::Vec<U32> spread, std::size_t position) {
  const U32 d;
  auto h = hn::Add(spread, hn::Set(d, static_cast<std::uint32_t>(position) * kGolden));
  h = hn::Xor(h, hn::Set(d, key));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, 0x7FEB352DU));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(d, 0x846CA68BU));
  return hn::Xor(h, hn::ShiftRight<16>(h));
}

// In (-1/2, 1/2), in odd multiples of 2^-17: added to a whole number it never makes a tie, and with numbers below 128
// the sum is exact.
HWY_INLINE Reals random_shift(hn::Vec<U32> random) {
  const Reals upper = hn::ConvertTo(F32(), hn::BitCast(I32(), hn::ShiftRight<16>(random)));
  return hn::Mul(hn::Add(upper, set_real(0.5F - 0x1p15F)), set_real(0x1p-16F));
}

// Whole numbers -kMost .. kMost in two's complement.
template <int kMost, std::size_t kCodeBits>
struct WholeCode {
  static constexpr std::size_t kBits = kCodeBits;
  static constexpr float kLargest = kMost;

  static HWY_INLINE Words nearest(Reals scaled) { return words_of(hn::Add(scaled, set_real(kWholeMagic))); }
  static HWY_INLINE Words stochastic(Reals scaled, hn::Vec<U32> random) {
    const Reals shifted = hn::Add(scaled, random_shift(random));
    return nearest(hn::Max(hn::Min(shifted, set_real(kLargest)), set_real(-kLargest)));
  }
  // Of the code in the lowest bits, above which all are 0.
  static HWY_INLINE Reals decode(Words code) {
    const Words sign = set_word(1 << (kBits - 1));
    return hn::ConvertTo(F32(), hn::Sub(hn::Xor(code, sign), sign));
  }
};

// Floats of few bits; kMost is the code of the largest.
template <int kExponentBits, int kFractionBits, std::int32_t kMost>
struct FloatCode {
  static constexpr std::size_t kBits = 1 + kExponentBits + kFractionBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kDropped = 23 - kFractionBits;
  static constexpr int kSignShift = 32 - static_cast<int>(kBits);
  static constexpr std::int32_t kRebias = (127 - kBias) << kFractionBits;
  static constexpr std::int32_t kFirstNormal = 1 << kFractionBits;  // code
  static constexpr std::int32_t kLeastNormalBits = (kFirstNormal + kRebias) << kDropped;
  static constexpr float kLargest = std::bit_cast<float>((kMost + kRebias) << kDropped);
  // Subnormals are whole multiples of this.
  static constexpr float kUnit = std::bit_cast<float>((128 - kBias - kFractionBits) << 23);
  static constexpr float kUnits = 1 / kUnit;

  // `rounded`: the bits of the magnitude with what decides about the dropped ones added. `small`: in units.
  static HWY_INLINE Words finish(Words bits, Words rounded, Reals small) {
    const Words magnitude = hn::And(bits, set_word(kMagnitudeBits));
    const Words normal = hn::Sub(hn::ShiftRight<kDropped>(rounded), set_word(kRebias));
    const Words subnormal = hn::Sub(words_of(hn::Add(small, set_real(kWholeMagic))), words_of(set_real(kWholeMagic)));
    const auto is_small = hn::Lt(magnitude, set_word(kLeastNormalBits));
    const Words code = hn::Min(hn::IfThenElse(is_small, subnormal, normal), set_word(kMost));
    const auto sign = hn::And(hn::BitCast(U32(), bits), hn::Set(U32(), 0x80000000U));
    return hn::Or(code, hn::BitCast(I32(), hn::ShiftRight<kSignShift>(sign)));
  }
  static HWY_INLINE Words nearest(Reals scaled) {
    const Words bits = words_of(scaled), magnitude = hn::And(bits, set_word(kMagnitudeBits));
    const Words odd = hn::And(hn::ShiftRight<kDropped>(magnitude), set_word(1));
    const Words rounded = hn::Add(magnitude, hn::Add(odd, set_word((1 << (kDropped - 1)) - 1)));
    return finish(bits, rounded, hn::Mul(hn::BitCast(F32(), magnitude), set_real(kUnits)));
  }
  static HWY_INLINE Words stochastic(Reals scaled, hn::Vec<U32> random) {
    const Words bits = words_of(scaled), magnitude = hn::And(bits, set_word(kMagnitudeBits));
    const Words rounded = hn::Add(magnitude, hn::BitCast(I32(), hn::ShiftRight<32 - kDropped>(random)));
    const Reals units = hn::Mul(hn::BitCast(F32(), magnitude), set_real(kUnits));
    return finish(bits, rounded, hn::Add(units, random_shift(random)));
  }
  static HWY_INLINE Reals decode(Words code) {
    const Words magnitude = hn::And(code, set_word((1 << (kBits - 1)) - 1));
    const Reals normal = hn::BitCast(F32(), hn::ShiftLeft<kDropped>(hn::Add(magnitude, set_word(kRebias))));
    const Reals subnormal = hn::Mul(hn::ConvertTo(F32(), magnitude), set_real(kUnit));
    const auto is_small = hn::RebindMask(F32(), hn::Lt(magnitude, set_word(kFirstNormal)));
    const Words sign = hn::ShiftLeft<31>(hn::ShiftRight<kBits - 1>(code));
    return hn::Or(hn::IfThenElse(is_small, subnormal, normal), hn::BitCast(F32(), sign));
  }
};

// 1 for what is not negative.
struct SignCode {
  static constexpr std::size_t kBits = 1;

  static HWY_INLINE Words nearest(Reals value) {
    const auto not_negative = hn::RebindMask(I32(), hn::Ge(value, hn::Zero(F32())));
    return hn::IfThenElseZero(not_negative, set_word(1));
  }
  static HWY_INLINE Reals decode(Words code) {
    return hn::ConvertTo(F32(), hn::Sub(hn::ShiftLeft<1>(code), set_word(1)));
  }
};

// Floats whose largest is 1.875 times a power of two, the exponent of which is kLargestExponent.
struct M8Code : FloatCode<4, 3, 0x7F> {
  static constexpr int kLargestExponent = 8;
};
static_assert(M8Code::kLargest == 0x1.Ep8F);

// All 8 bits are the magnitude.
struct V8Code : FloatCode<5, 3, 0xFF> {
  using Signed = FloatCode<5, 3, 0xFF>;
  static constexpr std::size_t kBits = 8;
  static constexpr int kLargestExponent = 16;

  static HWY_INLINE Words not_zero(Reals scaled, Words code) {
    const auto is_above = hn::RebindMask(I32(), hn::Gt(scaled, hn::Zero(F32())));
    return hn::IfThenElse(is_above, hn::Max(code, set_word(1)), code);
  }
  static HWY_INLINE Words nearest(Reals scaled) { return not_zero(scaled, Signed::nearest(scaled)); }
  static HWY_INLINE Words stochastic(Reals scaled, hn::Vec<U32> random) {
    return not_zero(scaled, Signed::stochastic(scaled, random));
  }
};
static_assert(V8Code::kLargest == 0x1.Ep16F);

using Int8Code = WholeCode<127, 8>;
using Int4Code = WholeCode<7, 4>;
using E4M3Code = FloatCode<4, 3, 0x7E>;
using E5M2Code = FloatCode<5, 2, 0x7B>;
using E3M0Code = FloatCode<3, 0, 0x7>;

// Across the ends of pages, where what the processor fetches by itself stops.
template <class T>
HWY_INLINE void fetch_ahead(const T* from) {
  constexpr std::size_t kAhead = 2048;
  hwy::Prefetch(reinterpret_cast<const std::byte*>(from) + kAhead);
}

// The largest magnitude, as bits, which are in the order of the magnitudes, with infinity and NaN above all.
HWY_INLINE std::int32_t largest_bits(const float* values, std::size_t count) {
  const Words mask = set_word(kMagnitudeBits);
  constexpr std::size_t kChains = 4, kLine = 64 / sizeof(float);
  Words most[kChains];
  for (Words& chain : most) chain = hn::Zero(I32());
  std::size_t i = 0;
  for (; i + kChains * kStep <= count; i += kChains * kStep) {
    for (std::size_t at = 0; at < kChains * kStep; at += kLine) fetch_ahead(values + i + at);
    for (std::size_t chain = 0; chain < kChains; ++chain)
      most[chain] = hn::Max(most[chain], hn::And(words_of(load_values(values + i + chain * kStep)), mask));
  }
  for (; i + kStep <= count; i += kStep) most[0] = hn::Max(most[0], hn::And(words_of(load_values(values + i)), mask));
  if (i < count) most[1] = hn::Max(most[1], hn::And(words_of(load_values(values + i, count - i)), mask));
  return hn::GetLane(hn::MaxOfLanes(I32(), hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]))));
}

struct BlockScale {
  float scale, inverse;
};

// Of finite values.
HWY_INLINE BlockScale scale_for(std::int32_t most_bits, float largest_code) {
  // So that the largest code times the scale does not overflow.
  const float most = std::min(std::bit_cast<float>(most_bits), 0x1.fffff0p127F);
  if (most < kLeastMagnitude) return {0, 0};
  return {most / largest_code, largest_code / most};
}

// Element i goes to partial sum i % 16, and those are added pairwise, nearest first. Magnitudes are made small first,
// by a power of two, so that no sum overflows.
HWY_INLINE float mean_magnitude(const float* values, std::size_t count) {
  constexpr std::size_t kSums = 16, kVectors = kSums / kStep;
  constexpr float kSmall = 1.0F / (2 * kMostCodeBlock);
  Reals sums[kVectors];
  for (Reals& sum : sums) sum = hn::Zero(F32());
  const auto add = [&](const float* from) HWY_ATTR {
    for (std::size_t v = 0; v < kVectors; ++v)
      sums[v] = hn::Add(sums[v], hn::Mul(hn::Abs(load_values(from + v * kStep)), set_real(kSmall)));
  };
  const std::size_t whole = count / kSums * kSums;
  for (std::size_t i = 0; i < whole; i += kSums) add(values + i);
  if (whole < count) {
    float rest[kSums] = {};  // zeros change no sum
    std::copy(values + whole, values + count, rest);
    add(rest);
  }
  alignas(64) float partial[kSums];
  for (std::size_t v = 0; v < kVectors; ++v) store(F32(), sums[v], reinterpret_cast<std::byte*>(partial + v * kStep));
  for (std::size_t left = kSums; left > 1; left /= 2)
    for (std::size_t i = 0; i < left / 2; ++i) partial[i] = partial[2 * i] + partial[2 * i + 1];
  return partial[0] * (1 / kSmall / static_cast<float>(count));
}

// The least power of two with which nothing saturates.
HWY_INLINE BlockScale power_scale_for(std::int32_t most_bits, int largest_exponent) {
  if (std::bit_cast<float>(most_bits) < kLeastMagnitude) return {0, 0};
  constexpr std::int32_t kLargestFraction = 0x700000;  // of 1.875
  const int exponent = (most_bits >> 23) - 127 + ((most_bits & 0x7FFFFF) > kLargestFraction ? 1 : 0);
  const std::int32_t power = exponent - largest_exponent;
  return {std::bit_cast<float>((127 + power) << 23), std::bit_cast<float>((127 - power) << 23)};
}

template <class Code>
HWY_INLINE BlockScale scale_of(const float* values, std::size_t count, std::int32_t most_bits) {
  if constexpr (Code::kBits == 1) {
    return {std::bit_cast<float>(most_bits) < kLeastMagnitude ? 0 : mean_magnitude(values, count), 1};
  } else if constexpr (requires { Code::kLargestExponent; }) {
    return power_scale_for(most_bits, Code::kLargestExponent);
  } else {
    return scale_for(most_bits, Code::kLargest);
  }
}

// One byte for every code. With `next`, the block behind, which is as long: returns its largest magnitude, which is
// looked for meanwhile, so that memory is read while codes are made.
template <class Code, bool kStochastic, bool kLooksAhead>
HWY_INLINE std::int32_t encode_block(const float* values, std::size_t count, float inverse, std::uint32_t key,
                                     std::byte* codes, [[maybe_unused]] const float* next) {
  const Reals factor = set_real(inverse);
  [[maybe_unused]] const auto spread = hn::Mul(hn::Iota(U32(), 0), hn::Set(U32(), kGolden));
  [[maybe_unused]] const Words mask = set_word(kMagnitudeBits);
  [[maybe_unused]] Words even = hn::Zero(I32()), odd = hn::Zero(I32());
  const auto encode = [&](Reals v, std::size_t at) HWY_ATTR {
    const Reals scaled = hn::Mul(v, factor);
    Words code;
    if constexpr (kStochastic) {
      code = Code::stochastic(scaled, random_words(key, spread, at));
    } else {
      code = Code::nearest(scaled);
    }
    return hn::TruncateTo(U8Quarter(), hn::BitCast(U32(), code));
  };
  std::size_t i = 0;
  if constexpr (kLooksAhead) {
    constexpr std::size_t kLine = 64 / sizeof(float);
    for (; i + 2 * kStep <= count; i += 2 * kStep) {
      for (std::size_t at = 0; at < 2 * kStep; at += kLine) fetch_ahead(next + i + at);
      even = hn::Max(even, hn::And(words_of(load_values(next + i)), mask));
      odd = hn::Max(odd, hn::And(words_of(load_values(next + i + kStep)), mask));
      store(U8Quarter(), encode(load_values(values + i), i), codes + i);
      store(U8Quarter(), encode(load_values(values + i + kStep), i + kStep), codes + i + kStep);
    }
  }
  for (; i + kStep <= count; i += kStep) {
    if constexpr (kLooksAhead) even = hn::Max(even, hn::And(words_of(load_values(next + i)), mask));
    store(U8Quarter(), encode(load_values(values + i), i), codes + i);
  }
  if (i < count) {
    if constexpr (kLooksAhead) odd = hn::Max(odd, hn::And(words_of(load_values(next + i, count - i)), mask));
    store_first(U8Quarter(), encode(load_values(values + i, count - i), i), codes + i, count - i);
  }
  if constexpr (kLooksAhead) return hn::GetLane(hn::MaxOfLanes(I32(), hn::Max(even, odd)));
  return 0;
}

// Room for the codes of a block in bytes, and for what a vector reads behind them.
using WideCodes = std::byte[kMostCodeBlock + 64];

HWY_INLINE void pack_pairs(const std::byte* wide, std::size_t count, std::byte* packed) {
  const std::size_t bytes = (count + 1) / 2;
  const U16 d;
  const auto pack = [&](std::size_t at) HWY_ATTR {
    const auto pairs = load(d, wide + 2 * at);
    const auto lower = hn::And(pairs, hn::Set(d, 0x0F));
    return hn::TruncateTo(U8Half(), hn::Or(lower, hn::And(hn::ShiftRight<4>(pairs), hn::Set(d, 0xF0))));
  };
  std::size_t at = 0;
  for (; at + kLanes<U16> <= bytes; at += kLanes<U16>) store(U8Half(), pack(at), packed + at);
  if (at < bytes) store_first(U8Half(), pack(at), packed + at, bytes - at);
}

HWY_INLINE void unpack_pairs(const std::byte* packed, std::size_t count, std::byte* wide) {
  const std::size_t bytes = (count + 1) / 2;
  const U16 d;
  const auto unpack = [&](hn::Vec<U8Half> pairs, std::size_t at) HWY_ATTR {
    const auto v = hn::PromoteTo(d, pairs);
    const auto upper = hn::ShiftLeft<4>(hn::And(v, hn::Set(d, 0xF0)));
    store(d, hn::Or(hn::And(v, hn::Set(d, 0x0F)), upper), wide + 2 * at);
  };
  std::size_t at = 0;
  for (; at + kLanes<U16> <= bytes; at += kLanes<U16>) unpack(load(U8Half(), packed + at), at);
  if (at < bytes) unpack(load_first(U8Half(), packed + at, bytes - at), at);
}

// Eight bytes that are 0 or 1 as the bits of one, and back: the products move every bit to a place of its own. The
// first byte is the lowest of a word, as on all machines that this is for.
static_assert(std::endian::native == std::endian::little);
HWY_INLINE void pack_bits(const std::byte* wide, std::size_t count, std::byte* packed) {
  for (std::size_t at = 0; 8 * at < count; ++at) {
    std::uint64_t eight;
    std::memcpy(&eight, wide + 8 * at, sizeof eight);
    packed[at] = static_cast<std::byte>((eight * 0x0102040810204080U) >> 56);
  }
}

HWY_INLINE void unpack_bits(const std::byte* packed, std::size_t count, std::byte* wide) {
  for (std::size_t at = 0; 8 * at < count; ++at) {
    const std::uint64_t chosen = (static_cast<std::uint64_t>(packed[at]) * 0x0101010101010101U) & 0x8040201008040201U;
    std::uint64_t eight = ((chosen + 0x7F7F7F7F7F7F7F7FU) >> 7) & 0x0101010101010101U;
    std::memcpy(wide + 8 * at, &eight, sizeof eight);
  }
}

std::size_t first_not_finite(const float* values, std::size_t count) {
  const auto is_not_finite = [](float value) {
    return (std::bit_cast<std::int32_t>(value) & kMagnitudeBits) >= kInfinityBits;
  };
  return static_cast<std::size_t>(std::find_if(values, values + count, is_not_finite) - values);
}

template <class Code, bool kStochastic>
std::size_t quantise_blocks(std::size_t block, const float* values, std::size_t count, std::byte* codes,
                            const CodeRounding& rounding) {
  std::size_t not_finite = count;
  [[maybe_unused]] alignas(64) WideCodes wide;
  if constexpr (Code::kBits < 8) std::memset(wide, 0, sizeof wide);
  std::int32_t most = count == 0 ? 0 : largest_bits(values, std::min(block, count));
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t n = std::min(block, count - begin), bytes = (n * Code::kBits + 7) / 8;
    const std::size_t next_n = std::min(block, count - begin - n);
    const float* const next = values + begin + n;
    if (HWY_UNLIKELY(most >= kInfinityBits)) {
      if (not_finite == count) not_finite = begin + first_not_finite(values + begin, n);
      constexpr std::uint32_t kNaN = 0x7FC00000;
      std::memcpy(codes, &kNaN, sizeof kNaN);
      std::memset(codes + sizeof kNaN, 0, bytes);
      most = largest_bits(next, next_n);
    } else {
      const BlockScale scale = scale_of<Code>(values + begin, n, most);
      std::memcpy(codes, &scale.scale, sizeof(float));
      std::byte* const to = codes + sizeof(float);
      for (std::size_t at = 0; at < bytes; at += 64) fetch_ahead(to + at);
      const auto key = kStochastic ? static_cast<std::uint32_t>(mix(rounding.seed, rounding.first + begin) >> 32) : 0;
      std::byte* const in_bytes = Code::kBits == 8 ? to : wide;
      if (HWY_LIKELY(next_n == n)) {
        most = encode_block<Code, kStochastic, true>(values + begin, n, scale.inverse, key, in_bytes, next);
      } else {
        encode_block<Code, kStochastic, false>(values + begin, n, scale.inverse, key, in_bytes, nullptr);
        most = largest_bits(next, next_n);
      }
      if constexpr (Code::kBits < 8) std::memset(wide + n, 0, 8 / Code::kBits);
      if constexpr (Code::kBits == 4) {
        pack_pairs(wide, n, to);
      } else if constexpr (Code::kBits == 1) {
        pack_bits(wide, n, to);
      }
    }
    codes += sizeof(float) + bytes;
  }
  return not_finite;
}

enum class DecodeTo { values, stream, sum, rest };

// `other` is what the results are added to, or taken from.
template <class Code, DecodeTo kTo>
HWY_INLINE void decode_block(const std::byte* codes, std::size_t count, float scale, const float* other,
                             float* results) {
  using Plain = Native<float>;
  const Reals factor = set_real(scale);
  const auto decode = [&](hn::Vec<U8Quarter> bytes) HWY_ATTR {
    return hn::Mul(Code::decode(hn::BitCast(I32(), hn::PromoteTo(U32(), bytes))), factor);
  };
  const auto combine = [&](Reals v, Reals with) HWY_ATTR {
    if constexpr (kTo == DecodeTo::sum) return Plain::canonicalise(hn::Add(with, v));
    if constexpr (kTo == DecodeTo::rest) return Plain::canonicalise(hn::Sub(with, v));
    return v;
  };
  constexpr bool kCombines = kTo == DecodeTo::sum || kTo == DecodeTo::rest;
  auto* const to = reinterpret_cast<std::byte*>(results);
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    if constexpr (kCombines) fetch_ahead(other + i);
    const Reals v = decode(load(U8Quarter(), codes + i));
    const Reals result = combine(v, kCombines ? load_values(other + i) : v);
    if constexpr (kTo == DecodeTo::stream) {
      Plain::stream(result, to + i * sizeof(float));
    } else {
      Plain::store(result, to + i * sizeof(float));
    }
  }
  if (i == count) return;
  const Reals v = decode(load_first(U8Quarter(), codes + i, count - i));
  Plain::store_first(combine(v, kCombines ? load_values(other + i, count - i) : v), to + i * sizeof(float), count - i);
}

template <class Code, DecodeTo kTo>
void decode_blocks(std::size_t block, const std::byte* codes, std::size_t count, const float* other, float* results) {
  [[maybe_unused]] alignas(64) WideCodes wide;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t n = std::min(block, count - begin);
    float scale;
    std::memcpy(&scale, codes, sizeof scale);
    const std::byte* from = codes + sizeof scale;
    if constexpr (Code::kBits == 4) {
      unpack_pairs(from, n, wide);
      from = wide;
    } else if constexpr (Code::kBits == 1) {
      unpack_bits(from, n, wide);
      from = wide;
    } else {
      fetch_ahead(from);
      fetch_ahead(from + 64);
    }
    decode_block<Code, kTo>(from, n, scale, other == nullptr ? nullptr : other + begin, results + begin);
    codes += sizeof scale + (n * Code::kBits + 7) / 8;
  }
  if constexpr (kTo == DecodeTo::stream) hwy::FlushStream();
}

template <class Code>
void decode_as(DecodeTo to, std::size_t block, const std::byte* codes, std::size_t count, const float* other,
               float* results) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(results) % kVectorBytes<F32> == 0;
  switch (to) {
    case DecodeTo::stream:
      if (aligned) return decode_blocks<Code, DecodeTo::stream>(block, codes, count, other, results);
      [[fallthrough]];
    case DecodeTo::values: return decode_blocks<Code, DecodeTo::values>(block, codes, count, other, results);
    case DecodeTo::sum: return decode_blocks<Code, DecodeTo::sum>(block, codes, count, other, results);
    case DecodeTo::rest: return decode_blocks<Code, DecodeTo::rest>(block, codes, count, other, results);
  }
}

template <class Code>
std::size_t quantise_as(std::size_t block, const float* values, std::size_t count, std::byte* codes,
                        const CodeRounding& rounding) {
  return rounding.stochastic ? quantise_blocks<Code, true>(block, values, count, codes, rounding)
                             : quantise_blocks<Code, false>(block, values, count, codes, rounding);
}

void decode_any(DecodeTo to, const CodeFormat& format, const std::byte* codes, std::size_t count, const float* other,
                float* results) {
  switch (format.type) {
    case CodeType::int8: return decode_as<Int8Code>(to, format.block, codes, count, other, results);
    case CodeType::int4: return decode_as<Int4Code>(to, format.block, codes, count, other, results);
    case CodeType::e4m3: return decode_as<E4M3Code>(to, format.block, codes, count, other, results);
    case CodeType::e5m2: return decode_as<E5M2Code>(to, format.block, codes, count, other, results);
    case CodeType::e3m0: return decode_as<E3M0Code>(to, format.block, codes, count, other, results);
    case CodeType::sign: return decode_as<SignCode>(to, format.block, codes, count, other, results);
    case CodeType::m8: return decode_as<M8Code>(to, format.block, codes, count, other, results);
    case CodeType::v8: return decode_as<V8Code>(to, format.block, codes, count, other, results);
  }
}

}  // namespace

std::size_t quantise_any(const CodeFormat& format, const float* values, std::size_t count, std::byte* codes,
                         const CodeRounding& rounding) {
  switch (format.type) {
    case CodeType::int8: return quantise_as<Int8Code>(format.block, values, count, codes, rounding);
    case CodeType::int4: return quantise_as<Int4Code>(format.block, values, count, codes, rounding);
    case CodeType::e4m3: return quantise_as<E4M3Code>(format.block, values, count, codes, rounding);
    case CodeType::e5m2: return quantise_as<E5M2Code>(format.block, values, count, codes, rounding);
    case CodeType::e3m0: return quantise_as<E3M0Code>(format.block, values, count, codes, rounding);
    case CodeType::sign: return quantise_blocks<SignCode, false>(format.block, values, count, codes, rounding);
    case CodeType::m8: return quantise_as<M8Code>(format.block, values, count, codes, rounding);
    case CodeType::v8: return quantise_as<V8Code>(format.block, values, count, codes, rounding);
  }
  return count;
}

void decode_values(const CodeFormat& format, const std::byte* codes, std::size_t count, float* values, bool stream) {
  decode_any(stream ? DecodeTo::stream : DecodeTo::values, format, codes, count, nullptr, values);
}
void decode_sum(const CodeFormat& format, const std::byte* codes, std::size_t count, float* values) {
  decode_any(DecodeTo::sum, format, codes, count, values, values);
}
void decode_rest(const CodeFormat& format, const std::byte* codes, std::size_t count, const float* values,
                 float* rest) {
  decode_any(DecodeTo::rest, format, codes, count, values, rest);
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(quantise_any);
HWY_EXPORT(decode_values);
HWY_EXPORT(decode_sum);
HWY_EXPORT(decode_rest);

std::size_t quantise(const CodeFormat& format, const float* values, std::size_t count, std::byte* codes,
                     const CodeRounding& rounding) {
  return HWY_DYNAMIC_DISPATCH(quantise_any)(format, values, count, codes, rounding);
}
void dequantise(const CodeFormat& format, const std::byte* codes, std::size_t count, float* values, bool past_caches) {
  HWY_DYNAMIC_DISPATCH(decode_values)(format, codes, count, values, past_caches);
}
void dequantise_add(const CodeFormat& format, const std::byte* codes, std::size_t count, float* values) {
  HWY_DYNAMIC_DISPATCH(decode_sum)(format, codes, count, values);
}
void dequantise_rest(const CodeFormat& format, const std::byte* codes, std::size_t count, const float* values,
                     float* rest) {
  HWY_DYNAMIC_DISPATCH(decode_rest)(format, codes, count, values, rest);
}

}  // namespace tutti::kernels
#endif
