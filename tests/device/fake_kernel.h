// A kernel of the fake driver, by what it was compiled for.
#pragma once

#include <cstddef>

#include "tutti/types.h"

struct FakeKernel {
  bool copies;  // and the rest does not count
  tutti::DType type;
  tutti::ReduceOp op;
  std::size_t sources;
};
