// A kernel of the fake driver, by what it was compiled for.
#pragma once

#include <cstddef>
#include <string>

#include "tutti/types.h"

// reduce.cu with an operator of the caller's, compiled for the processor.
using OwnKernel = void (*)(void* const* sources, void* const* destinations, int count_of_destinations,
                           unsigned long long count, unsigned long long lines);

struct FakeKernel {
  bool copies = false;  // and the rest does not count
  tutti::DType type{};
  tutti::ReduceOp op{};
  std::size_t sources = 0;
  OwnKernel own = nullptr;    // instead of type and op
  std::size_t own_bytes = 0;  // of its elements
};

// nullptr, and what the compiler said, where it does not compile. `definitions` as a compiler takes them.
OwnKernel compile_own_kernel(const std::string& source, const std::string& definitions, std::string& said);
