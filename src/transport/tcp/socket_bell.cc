#include "transport/tcp/socket_bell.h"

#include <sys/epoll.h>

#include <utility>

namespace tutti::transport {

SocketBell::SocketBell(std::function<void()> elsewhere) : elsewhere_(std::move(elsewhere)) {}

void SocketBell::watch(int socket) { add(socket, EPOLLIN | EPOLLOUT | EPOLLET); }

void SocketBell::ring() {
  if (!elsewhere_) return wake();
  // Who arms after the store gets a ring of its own; who armed before it has prepared to sleep, and is woken here.
  armed_.store(false, std::memory_order_seq_cst);
  take();
  elsewhere_();
}

}  // namespace tutti::transport
