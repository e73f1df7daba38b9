// Facts about this host and process that a rank is known by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace tutti::rendezvous {

std::string host_name();
// The cores that this process may run on, a bit each; empty where that cannot be told.
std::vector<std::uint64_t> allowed_cores();
// Equal for processes that can share memory and see each other's process ids.
std::string host_id();
// Why this process cannot share memory with anybody, in words; empty where it can.
std::string why_no_memory();

// A descriptor that becomes readable when the process ends; invalid if it has ended and nothing is left of it.
// Throws Error where the system cannot make one.
FileDescriptor watch_process(int pid);

}  // namespace tutti::rendezvous
