// Floats as few bits: blocks of values that share a scale.
//
// A block of `block` values (a power of two, 32 .. 4096) is a float32 scale and then a code for each value, a value
// being code * scale. The last block may be shorter; blocks lie one behind the other without padding:
//
//   | scale | block codes | scale | block codes | ... | scale | the rest |
//
// Codes of 4 bits lie two in a byte, the earlier in the lower half, and those of 1 bit eight, from the lowest on. int8
// and int4 are whole numbers -127 .. 127 and -7 .. 7. e4m3, e5m2 and e3m0 are floats of a sign, so many bits of
// exponent and of fraction, with the usual bias and with subnormals; codes that stand for infinity or NaN are never
// written. The scale maps the largest magnitude of a block to the largest number of its type, so that nothing
// saturates. A sign is 1 or -1 (a zero of either sign has one, too), and its scale the mean of the block's magnitudes.
//
// m8 and v8 are for what optimizers keep. Their scale is a power of two, so that what codes stand for, encoded again,
// is the same again: m8 is a float as e4m3 is, v8 one without a sign, of 5 bits of exponent and 3 of fraction, for
// numbers from 0 on, and what is above 0 once it is scaled never becomes 0, because steps are divided by it.
//
// Invariant: the same bits come out on every instruction set. To nearest, ties to even codes, a value is off by at most
// half of what lies between the two codes around it, and the rounding of two float32 operations; signs do not round.
//   zeros       stay zeros.
//   denormals   a block whose magnitudes are all below kLeastMagnitude becomes zeros.
//   NaN, Inf    quantise() returns the index of the first; all values of its block become NaN.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

enum class CodeType : unsigned char { int8, int4, e4m3, e5m2, e3m0, sign, m8, v8 };

struct CodeFormat {
  CodeType type = CodeType::int8;
  std::size_t block = 128;
};

inline constexpr std::size_t kLeastCodeBlock = 32, kMostCodeBlock = 4096;
inline constexpr float kLeastMagnitude = 0x1p-80F;

constexpr std::size_t code_bits(CodeType type) {
  if (type == CodeType::sign) return 1;
  return type == CodeType::int4 || type == CodeType::e3m0 ? 4 : 8;
}

// Bytes that so many values become.
constexpr std::size_t code_bytes(const CodeFormat& format, std::size_t count) {
  const std::size_t blocks = (count + format.block - 1) / format.block;
  return blocks * sizeof(float) + (count * code_bits(format.type) + 7) / 8;
}

// Stochastic: up or down with the probability that makes the mean the value, by a hash of the seed and the value's
// position, which counts from `first`. Codes and values that have one are not rounded at all.
struct CodeRounding {
  bool stochastic = false;
  std::uint64_t seed = 0;
  std::uint64_t first = 0;
};

// Writes code_bytes() bytes. Returns the index of the first value that is not finite, or `count`.
std::size_t quantise(const CodeFormat& format, const float* values, std::size_t count, std::byte* codes,
                     const CodeRounding& rounding = {});

// Pieces of codes begin at a block. past_caches: quicker where the values are too many for them anyway.
void dequantise(const CodeFormat& format, const std::byte* codes, std::size_t count, float* values,
                bool past_caches = false);
// values[i] += what code i stands for; the product and the sum are each rounded.
void dequantise_add(const CodeFormat& format, const std::byte* codes, std::size_t count, float* values);
// rest[i] = values[i] - what code i stands for. `rest` may be `values`.
void dequantise_rest(const CodeFormat& format, const std::byte* codes, std::size_t count, const float* values,
                     float* rest);

}  // namespace tutti::kernels
