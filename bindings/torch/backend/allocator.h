// PyTorch's allocator of CPU memory with one addition: while a thread asks for it, its large tensors come from a pool
// of symmetric memory. For tensors that others make, DDP's gradient buckets above all.
#pragma once

#include <memory>

#include "backend/pool.h"

namespace tutti::pytorch {

// From now on, on this thread, large tensors come from the pool, until end_pool() brings back what was before.
void begin_pool(std::shared_ptr<Pool> pool);
void end_pool();

}  // namespace tutti::pytorch
