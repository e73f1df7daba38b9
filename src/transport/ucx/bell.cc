#include "transport/ucx/bell.h"

#include <sys/epoll.h>

#include <utility>

namespace tutti::transport {

WorkerBell::WorkerBell(int worker, std::function<bool()> settle, std::function<void()> elsewhere)
    : settle_(std::move(settle)), elsewhere_(std::move(elsewhere)) {
  add(worker, EPOLLIN);
}

}  // namespace tutti::transport
