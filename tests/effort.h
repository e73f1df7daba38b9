// How much of a long range a test tries: less under sanitizers, which are slow, and find in any of the tries what they
// look for.
#pragma once

#include <cstdint>

namespace tutti::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// All, or a tenth of them.
constexpr std::uint64_t tries(std::uint64_t whole) { return kSanitized ? (whole + 9) / 10 : whole; }

}  // namespace tutti::testing
