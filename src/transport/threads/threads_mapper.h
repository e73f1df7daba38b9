// Ranks as threads of one process: memory is shared as it is, and nobody dies alone.
#pragma once

#include <memory>
#include <vector>

#include "transport/memory/mapper.h"

namespace tutti::transport {

// One Mapper per rank of a new group of `ranks` threads.
std::vector<std::unique_ptr<Mapper>> make_threads_mappers(int ranks);

}  // namespace tutti::transport
