#include "transport/tcp/connections.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "base/deadline.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

// For what was sent to arrive where others are slow to read it; only what does not fit into their buffers has to wait.
constexpr std::chrono::milliseconds kLongestArrival{5000}, kLongestHurry{100};

}  // namespace

Connections::Connections(std::shared_ptr<Links> links, std::function<void()> elsewhere)
    : bell_(std::move(elsewhere)), links_(std::move(links)) {
  if (!links_) return;
  Links::Hooks hooks;
  hooks.linked = [this](Links::Made made) { link(std::move(made)); };
  hooks.absent = [this](int rank, std::uint32_t channel) {
    {
      const std::lock_guard lock(mutex_);
      at({rank, static_cast<int>(channel)}).breakage().note(0);
    }
    bell_.ring();
  };
  hooks.leaves = [this](std::uint64_t group, const std::vector<Links::Member>& members) { leave(group, members); };
  hooks.look = [this] { look(); };
  if (bell_.is_elsewhere()) hooks.readable = bell_.descriptor();
  hooks.happened = [this] { bell_.ring(); };
  links_->attach(std::move(hooks));
}

Connections::~Connections() {
  if (links_) links_->attach({});
  links_.reset();
  // The system tells nobody when it is so.
  const Deadline until = Deadline::after(hurries_ ? kLongestHurry : kLongestArrival);
  const auto arrived = [](const auto& entry) { return entry.second->has_arrived(); };
  while (!std::all_of(connections_.begin(), connections_.end(), arrived) && !until.passed()) ::poll(nullptr, 0, 1);
}

Connection& Connections::at(const Key& key) {
  std::unique_ptr<Connection>& connection = connections_[key];
  if (!connection) connection = std::make_unique<Connection>(bell_);
  return *connection;
}

Connection& Connections::with(int rank, int channel) {
  Connection* connection = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (links_ || connections_.contains({rank, channel})) connection = &at({rank, channel});
  }
  if (connection == nullptr)
    throw Error(ErrorCode::invalid_argument, "tcp: there is no connection to rank " + std::to_string(rank));
  if (links_ && connection->socket() < 0) links_->want(rank, static_cast<std::uint32_t>(channel));
  return *connection;
}

void Connections::add(int rank, int channel, FileDescriptor socket) {
  const std::lock_guard lock(mutex_);
  at({rank, channel}).link(std::move(socket), {}, 0);
}

void Connections::link(Links::Made made) {
  {
    const std::lock_guard lock(mutex_);
    at({made.rank, static_cast<int>(made.channel)}).link(std::move(made.socket), made.first, made.told);
  }
  bell_.ring();
}

template <class Use>
void Connections::for_each_with(int rank, Use&& use) {
  for (auto entry = connections_.lower_bound({rank, 0}); entry != connections_.end() && entry->first.first == rank;
       ++entry) {
    use(*entry->second);
  }
}

void Connections::leave(std::uint64_t group, std::span<const Links::Member> members) {
  const std::lock_guard lock(mutex_);
  for (const Links::Member& member : members) {
    for_each_with(member.rank, [&](Connection& connection) {
      if (!connection.leave(group, member.left_at)) unflushed_.store(true);
    });
  }
}

std::chrono::nanoseconds Connections::quiet_for(int rank) {
  std::chrono::nanoseconds least = std::chrono::nanoseconds::max();
  const std::lock_guard lock(mutex_);
  for_each_with(rank, [&](const Connection& connection) {
    const int socket = connection.socket();
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (socket < 0 || ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return;
    least = std::min<std::chrono::nanoseconds>(least, std::chrono::milliseconds(info.tcpi_last_data_recv));
  });
  return least;
}

void Connections::look() {
  if (!unflushed_.load()) return;
  const std::lock_guard lock(mutex_);
  unflushed_.store(false);
  for (const auto& [key, connection] : connections_) {
    if (connection->socket() >= 0 && !connection->breakage().noted() && !connection->flush()) unflushed_.store(true);
  }
}

}  // namespace tutti::transport
