// Operators of the caller's, as the library calls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/op.h"

namespace tutti::engine {

// What people are told of it by.
std::string words_of(const Operator& own);

// result[i] = left[i] op right[i]. What the caller's code throws becomes an error of the call, on whichever thread that
// runs.
void apply_own(const Operator& own, void* result, const void* left, const void* right, std::uint64_t count);

// Reduces as a kernel does: the tree over the sources in canonical order, a batch of elements at a time.
class OwnReduction {
 public:
  void run(const Operator& own, std::uint64_t element_bytes, std::span<void* const> destinations,
           std::span<void* const> sources, std::uint64_t count);

 private:
  std::vector<std::byte> partial_;     // results on the way up the tree
  std::vector<const void*> operands_;  // and what is still to be combined
};

}  // namespace tutti::engine
