// Ranks as processes of one host: the memory of a group is blocks of the heap that its ranks share.
#pragma once

#include <memory>

#include "transport/memory/mapper.h"
#include "transport/shm/shared_heap.h"

namespace tutti::transport {

// Of a group whose ranks get a heap with it, which groups of them will share. Collective. Throws Error.
std::unique_ptr<Mapper> make_shm_mapper(ShmLinks links, const Deadline& deadline);

}  // namespace tutti::transport
