// How much of a long range a test tries.
#pragma once

#include <cstdint>

namespace tutti::testing {

// All of it; a tenth under sanitizers, which are slow, and find in any of the tries what they look for.
constexpr std::uint64_t tries(std::uint64_t whole) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (whole + 9) / 10;
#else
  return whole;
#endif
}

}  // namespace tutti::testing
