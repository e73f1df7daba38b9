// Data to test with: for floats mostly values at which arithmetic, rounding and NaN go wrong, for others random bits.
//
// Invariant: the same seed gives the same bytes everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>

#include "kernels/reference.h"
#include "tutti/types.h"

namespace tutti {

// So that test names hold the type's name.
inline void PrintTo(DType type, std::ostream* out) { *out << name_of(type); }

}  // namespace tutti

namespace tutti::kernels_test {

// `count` elements. Each source of a reduction takes its own seed.
Buffer make_samples(DType type, std::size_t count, std::uint64_t seed);

}  // namespace tutti::kernels_test
