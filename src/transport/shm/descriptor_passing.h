// Handing file descriptors over a UNIX socket, with a deadline, to a process of the same user only.
#pragma once

#include <cstdint>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace tutti::transport {

// Sends `descriptor` with one number beside it; false where the peer has ended. `to` is its rank, for the error.
bool send_descriptor(int socket, int descriptor, std::uint64_t number, int to, const Deadline& deadline);

// Receives what send_descriptor sent. `from` is the peer's rank, for the error.
FileDescriptor receive_descriptor(int socket, std::uint64_t* number, int from, const Deadline& deadline);

// Throws unless the other end of the socket was made by this process's user (for a socket pair that is whoever made the
// pair, so there it only says that the launcher is ours).
void require_same_user(int socket);

}  // namespace tutti::transport
