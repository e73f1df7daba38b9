#include "transport/shm/descriptor_passing.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "base/interrupt.h"
#include "base/system_error.h"

namespace tutti::transport {
namespace {

struct DescriptorMessage {
  std::uint64_t number;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec body{&number, sizeof number};

  msghdr header() {
    msghdr header{};
    header.msg_iov = &body;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    return header;
  }
};

void await(int socket, short events, const Deadline& deadline, const std::string& what) {
  for (;;) {
    throw_if_interrupted();
    pollfd entry{socket, events, 0};
    const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left()).count();
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<long long>(left_ms + 1, most_wait_ms())));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw_errno(what);
    if (deadline.passed()) throw Error(ErrorCode::timeout, what + ": no answer before the deadline");
  }
}

}  // namespace

bool send_descriptor(int socket, int descriptor, std::uint64_t number, int to, const Deadline& deadline) {
  const std::string what = "handing shared memory to rank " + std::to_string(to);
  DescriptorMessage message{number};
  msghdr header = message.header();
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  await(socket, POLLOUT, deadline, what);
  if (::sendmsg(socket, &header, MSG_NOSIGNAL) == sizeof message.number) return true;
  if (errno == EPIPE || errno == ECONNRESET) return false;
  throw_errno(what);
}

FileDescriptor receive_descriptor(int socket, std::uint64_t* number, int from, const Deadline& deadline) {
  const std::string what = "receiving shared memory from rank " + std::to_string(from);
  DescriptorMessage message{0};
  msghdr header = message.header();
  await(socket, POLLIN, deadline, what);
  const ssize_t got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (got < 0 && errno != ECONNRESET) throw_errno(what);
  if (got <= 0) throw Error(ErrorCode::peer_lost, what + ": it has ended", from);
  const cmsghdr* part = CMSG_FIRSTHDR(&header);
  if (got != sizeof message.number || part == nullptr || part->cmsg_type != SCM_RIGHTS ||
      part->cmsg_len != CMSG_LEN(sizeof(int))) {
    throw Error(ErrorCode::system, what + ": no descriptor came (too many open files?)", from);
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
  *number = message.number;
  return FileDescriptor(descriptor);
}

void require_same_user(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    throw_errno("asking who is at the other end of a socket");
  if (peer.uid != ::geteuid()) {
    throw Error(ErrorCode::system, "a peer belongs to another user (uid " + std::to_string(peer.uid) +
                                       "); all ranks must run as one user");
  }
}

}  // namespace tutti::transport
