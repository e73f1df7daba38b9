#include "rendezvous/launch/torch_store.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/interrupt.h"
#include "base/system_error.h"
#include "rendezvous/address.h"
#include "rendezvous/launch/reach.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

enum Query : std::uint8_t { kValidate = 0, kSet = 1, kGet = 3, kCheck = 5, kWait = 6 };
constexpr std::uint32_t kMagic = 0x3C85F7CE;
constexpr std::uint8_t kThere = 0;
constexpr std::uint8_t kNotThere = 1;

template <class Number>
void append(std::string& text, Number number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_string(std::string& text, std::string_view string) {
  append<std::uint64_t>(text, string.size());
  text += string;
}

std::string query(Query kind) { return std::string(1, static_cast<char>(kind)); }

std::string stored(std::string_view key) { return "/" + std::string(key); }

std::string query_of_key(Query kind, std::string_view key, bool with_count) {
  std::string text = query(kind);
  if (with_count) append<std::uint64_t>(text, 1);
  append_string(text, stored(key));
  return text;
}

int milliseconds_left(const Deadline& deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  return static_cast<int>(std::min<long long>(left, most_wait_ms()));
}

// Waits until the socket is ready; false at the deadline.
bool ready(int socket, short events, const Deadline& deadline) {
  for (;;) {
    throw_if_interrupted();
    pollfd waiting{socket, events, 0};
    const int count = ::poll(&waiting, 1, milliseconds_left(deadline));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) throw_errno("poll");
    if (deadline.passed()) return false;
  }
}

// A connected, non-blocking socket, or an invalid one with errno set.
FileDescriptor connect_to(const SocketAddress& address, const Deadline& deadline) {
  FileDescriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) throw_errno("socket");
  const int one = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (::connect(socket.get(), address.get(), address.length) == 0) return socket;
  int error = errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (ready(socket.get(), POLLOUT, deadline)) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) socket.reset();
  errno = error;
  return socket;
}

}  // namespace

TorchStore::TorchStore(const std::string& host, int port, const Deadline& deadline) : place_(endpoint_of(host, port)) {
  std::string why;
  for (const SocketAddress& address : resolve(host, port, deadline)) {
    socket_ = connect_to(address, deadline);
    if (socket_.valid()) break;
    why = std::strerror(errno);
  }
  if (!socket_.valid()) {
    throw Error(deadline.passed() ? ErrorCode::timeout : ErrorCode::system,
                "torchrun's store at " + place_ + " cannot be reached: " + why +
                    "; check MASTER_ADDR and MASTER_PORT, or set TUTTI_RENDEZVOUS=host:port");
  }
  std::string hello = query(kValidate);
  append(hello, kMagic);
  send(hello, deadline);
  check("tutti", deadline);  // whatever the answer, it shows who answers
}

void TorchStore::set(std::string_view key, std::string_view value, const Deadline& deadline) {
  std::string text = query_of_key(kSet, key, false);
  append_string(text, value);
  send(text, deadline);
  if (!check(key, deadline)) not_a_store("forgot the key '" + std::string(key) + "' at once");
}

std::string TorchStore::get(std::string_view key, const Deadline& deadline) {
  const std::string what = "the key '" + std::string(key) + "', which rank 0 sets when it is ready to meet";
  send(query_of_key(kWait, key, true), deadline);
  std::uint8_t answer = 0;
  receive(&answer, sizeof answer, deadline, what);
  if (answer != kThere) not_a_store("answered a wait with " + std::to_string(answer));
  send(query_of_key(kGet, key, false), deadline);
  std::uint64_t bytes = 0;
  receive(&bytes, sizeof bytes, deadline, what);
  if (bytes > kMostValueBytes) not_a_store("announced a value of " + std::to_string(bytes) + " bytes");
  std::string value(bytes, '\0');
  receive(value.data(), value.size(), deadline, what);
  return value;
}

bool TorchStore::check(std::string_view key, const Deadline& deadline) {
  send(query_of_key(kCheck, key, true), deadline);
  std::uint8_t answer = 0;
  receive(&answer, sizeof answer, deadline, "an answer");
  if (answer != kThere && answer != kNotThere) not_a_store("answered a check with " + std::to_string(answer));
  return answer == kThere;
}

void TorchStore::send(std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(POLLOUT, deadline, "room to send");
    } else if (errno != EINTR) {
      not_a_store(std::string("closed the connection: ") + std::strerror(errno));
    }
  }
}

void TorchStore::receive(void* to, std::size_t bytes, const Deadline& deadline, const std::string& waiting_for) {
  char* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket_.get(), next, bytes, 0);
    if (got > 0) {
      next += got;
      bytes -= static_cast<std::size_t>(got);
    } else if (got == 0) {
      not_a_store("closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(POLLIN, deadline, waiting_for);
    } else if (errno != EINTR) {
      not_a_store(std::string("closed the connection: ") + std::strerror(errno));
    }
  }
}

void TorchStore::wait_for(short events, const Deadline& deadline, const std::string& what) {
  if (ready(socket_.get(), events, deadline)) return;
  throw Error(ErrorCode::timeout, "torchrun's store at " + place_ + " did not give " + what + " before the deadline");
}

void TorchStore::not_a_store(const std::string& why) const {
  throw Error(ErrorCode::system, "the server at " + place_ + ", taken for torchrun's store, " + why +
                                     "; check MASTER_ADDR and MASTER_PORT, or set TUTTI_RENDEZVOUS=host:port");
}

}  // namespace tutti::rendezvous
