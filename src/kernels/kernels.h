// The arithmetic on user data: reduce, scale, copy, convert and sum of squares, for every element type.
//
// Invariant: a result is a function of the elements at its own index alone, and the same bits come out whatever the
// count, the alignment, the number of destinations and the instruction set. To keep that true for NaN, whose sign and
// payload otherwise depend on the instruction set, a float sum, product, minimum, maximum, average, scaled or converted
// value that is NaN is stored as the positive quiet NaN without payload. Only a plain copy keeps the payload; reducing
// a single source without a divisor is a plain copy.
//
// Pointers need the alignment of one element only (of one component for complex numbers). The find_ functions return
// pointers to the code for the best instruction set of this machine. Nothing here allocates, locks or calls the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tutti/types.h"

namespace tutti::kernels {

// What becomes of the results of a reduction.
struct Results {
  Results(std::uint32_t divide_by = 1, bool stream = false) : divisor(divide_by), past_caches(stream) {}

  std::uint32_t divisor;  // of ReduceOp::average; the other operators are called with 1
  bool past_caches;       // quicker where the destinations are too large for them anyway
};

// destinations[d][i] = the tree over sources[s][i], s = 0..source_count-1, in canonical order (base/canonical.h), then
// divided by the divisor if that is > 1.
// A node of 16-bit floats computes in 32 bits and rounds once, to nearest even; the division comes before the last
// rounding. Integers wrap and divide towards zero. A destination may be one of the sources (the same address), but must
// not overlap one otherwise. source_count >= 1 and destination_count >= 1.
using ReduceFunction = void (*)(void* const* destinations, std::size_t destination_count, const void* const* sources,
                                std::size_t source_count, std::size_t count, Results results);

// nullptr where the type lacks the operator; average and premul_sum give the kernel of sum.
ReduceFunction find_reduce(DType type, ReduceOp op);
bool supports(DType type, ReduceOp op);

// destination[i] = source[i] * factor, rounded once to the type: the first half of premul_sum. The factor is converted
// first: to 32 bits for 16-bit and 32-bit floats and their complex numbers; to an integer type by truncation, clamped
// to its range (NaN gives 0). destination may equal source. nullptr for booleans.
using ScaleFunction = void (*)(void* destination, const void* source, std::size_t count, double factor);
ScaleFunction find_scale(DType type);

// Between float16, bfloat16, float32 and float64, any pair: rounds once, to nearest even. The arrays must not overlap.
// nullptr for other types.
using ConvertFunction = void (*)(void* destination, const void* source, std::size_t count);
ConvertFunction find_convert(DType from, DType to);

// Elements that sum_of_squares sums by themselves before the sums are added up, one after the other. So the sum of an
// array has the same bits wherever it is computed, and shards that begin at multiples of this cut no block.
inline constexpr std::size_t kSquaresBlock = 1024;

// In float64, of float16, bfloat16, float32 or float64 elements (other types abort). Inside a block element i goes to
// partial sum i % 16, and those are added pairwise, nearest first.
double sum_of_squares(const void* values, DType type, std::size_t count);

// The case of several destinations; use copy().
void copy_to_many(void* const* destinations, std::size_t destination_count, const void* source, std::size_t bytes);

// Copies `bytes` from source to each destination in one pass over the source. A destination equal to the source is left
// alone; other overlap is not allowed.
inline void copy(void* const* destinations, std::size_t destination_count, const void* source, std::size_t bytes) {
  if (destination_count != 1) return copy_to_many(destinations, destination_count, source, bytes);
  if (destinations[0] != source && bytes != 0) std::memcpy(destinations[0], source, bytes);
}

// As copy() to one destination, but past the caches: quicker where the destination is too large for them anyway.
void stream(void* destination, const void* source, std::size_t bytes);

}  // namespace tutti::kernels
