#include "rendezvous/lookup.h"

#include <fcntl.h>
#include <poll.h>

#include "base/interrupt.h"
#include "base/system_error.h"
#include "base/thread.h"

namespace tutti::rendezvous {

Lookup::Lookup(const std::string& host, int port) {
  found_->resolved = numeric(host, port);
  found_->done = !found_->resolved.addresses.empty();
  if (found_->done) return;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("looking up the host '" + host + "'");
  waiting_ = FileDescriptor(ends[0]);
  auto other = std::make_shared<FileDescriptor>(ends[1]);
  make_thread("to look up the host '" + host + "'", [found = found_, other = std::move(other), host, port] {
    found->resolved = look_up(host, port);
    found->done.store(true, std::memory_order_release);
    found->done.notify_all();
    other->reset();
  }).detach();
}

Resolved look_up(const std::string& host, int port, const Deadline& deadline) {
  Lookup lookup(host, port);
  while (!lookup.done()) {
    throw_if_interrupted();
    if (deadline.passed()) return {{}, "the host '" + host + "' was not resolved in time; check the name service"};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    pollfd entry{lookup.descriptor(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(std::min<long long>(left, most_wait_ms())));
  }
  return lookup.take();
}

}  // namespace tutti::rendezvous
