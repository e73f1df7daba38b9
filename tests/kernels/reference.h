// What the kernels should compute, written for clarity: one element at a time, 16-bit floats rounded in doubles.
//
// Invariant: shares no code with src/kernels; only the canonical order (base/canonical.h) is taken from the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/types.h"

namespace tutti::kernels_test {

using Buffer = std::vector<std::byte>;

// A 16-bit float format: bits of its fraction, and the exponent of its smallest normal number.
struct HalfFormat {
  int fraction_bits;
  int lowest_exponent;
};
inline constexpr HalfFormat kFloat16{10, -14};
inline constexpr HalfFormat kBFloat16{7, -126};

enum class Rounding { nearest_even, toward_zero };

double decode_half(HalfFormat format, std::uint16_t bits);
std::uint16_t encode_half(HalfFormat format, double value, Rounding rounding = Rounding::nearest_even);

// Whether the type has the operator, by the table in the documentation rather than by what the kernels say.
bool reference_supports(DType type, ReduceOp op);

// The first `count` elements of every source, reduced in canonical order.
Buffer reference_reduce(DType type, ReduceOp op, const std::vector<const std::byte*>& sources, std::size_t count,
                        std::uint32_t divisor, Rounding rounding = Rounding::nearest_even);

Buffer reference_scale(DType type, const std::byte* source, std::size_t count, double factor);
Buffer reference_convert(DType from, DType to, const std::byte* source, std::size_t count);

}  // namespace tutti::kernels_test
