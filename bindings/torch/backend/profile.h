// Rows of torch.profiler: tutti:VERB for every call, with shapes and bytes.
#pragma once

#include <ATen/record_function.h>

#include <memory>

#include "backend/work.h"

namespace tutti::pytorch {

// A row that has begun, and ends with end() or when it goes; null where nobody profiles. An async call may end on
// another thread.
std::shared_ptr<at::RecordFunction> begin_row(const Call& call, bool async);

}  // namespace tutti::pytorch
