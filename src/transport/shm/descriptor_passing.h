// Handing file descriptors over a UNIX socket, with a deadline, to a process of the same user only.
#pragma once

#include <cstdint>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace tutti::transport {

// Sends `descriptor` with one number beside it.
void send_descriptor(int socket, int descriptor, std::uint64_t number, const Deadline& deadline);

// Receives what send_descriptor sent. `from` is the peer's rank, for the error.
FileDescriptor receive_descriptor(int socket, std::uint64_t* number, int from, const Deadline& deadline);

// Throws unless the other end of the socket belongs to this process's user.
void require_same_user(int socket);

}  // namespace tutti::transport
