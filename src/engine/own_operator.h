// Operators of the caller's, as the library calls them.
#pragma once

#include <cstdint>

#include "tutti/op.h"

namespace tutti::engine {

// result[i] = left[i] op right[i]. What the caller's code throws becomes an error of the call, on whichever thread that
// runs.
void apply_own(const Operator& own, void* result, const void* left, const void* right, std::uint64_t count);

}  // namespace tutti::engine
