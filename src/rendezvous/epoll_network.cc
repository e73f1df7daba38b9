#include "rendezvous/epoll_network.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/interrupt.h"
#include "base/system_error.h"
#include "rendezvous/address.h"

namespace tutti::rendezvous {
namespace {

constexpr ConnectionId kAttended = ConnectionId{1} << 63;
constexpr Time kLinger = std::chrono::seconds(1);
constexpr std::size_t kMostLingering = 16;
constexpr std::size_t kMostDiscarded = std::size_t{64} << 10;
constexpr Time kAcceptPause = std::chrono::milliseconds(100);
constexpr int kMostAccepts = 64;
constexpr int kMostReads = 16;
constexpr int kMostEvents = 256;

End end_of(int number) {
  switch (number) {
    case ECONNREFUSED:
    case EAGAIN: return End::refused;  // EAGAIN: a UNIX socket whose queue is full
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL: return End::unreachable;
    case EMFILE:
    case ENFILE: return End::exhausted;
    default: return End::broken;
  }
}

// Of a connection that was open: what the other end did, or what the network did to it.
End end_of_open(int number) {
  if (number == 0) return End::orderly;
  return number == ETIMEDOUT || end_of(number) == End::unreachable ? End::unreachable : End::broken;
}

std::string words_of(int number) {
  return end_of(number) == End::exhausted ? descriptors_in_words() : std::strerror(number);
}

void control(int epoll, int operation, int descriptor, std::uint32_t events, ConnectionId id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll, operation, descriptor, &event) != 0) throw_errno("epoll");
}

}  // namespace

EpollNetwork::EpollNetwork() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.valid()) throw Error(ErrorCode::system, "epoll: " + words_of(errno));
}

EpollNetwork::~EpollNetwork() = default;

Endpoint EpollNetwork::listen(const Endpoint& at, const Deadline& deadline) {
  Listener listener = listen_at(at, deadline);
  const ConnectionId id = next_id_++;
  control(epoll_.get(), EPOLL_CTL_ADD, listener.socket.get(), EPOLLIN, id);
  return listeners_.emplace(id, std::move(listener)).first->second.endpoint;
}

void EpollNetwork::stop_listening(const Endpoint& but) {
  std::erase_if(listeners_, [&](const auto& entry) { return but.empty() || entry.second.endpoint != but; });
}

EpollNetwork::Connection* EpollNetwork::find(ConnectionId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

// A held connection with nothing to send is not registered at all: its hanging up would be told over and over.
void EpollNetwork::update(ConnectionId id, Connection& connection) const {
  const bool reads = !connection.held && connection.phase >= Phase::open;
  const bool writes = connection.phase == Phase::connecting || !connection.out.empty();
  const std::uint32_t events = (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u);
  if (events == connection.events) return;
  const int operation = connection.events == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  control(epoll_.get(), operation, connection.socket.get(), events, id);
  connection.events = events;
}

ConnectionId EpollNetwork::connect(const Endpoint& to) {
  const ConnectionId id = next_id_++;
  const auto address = parse(to);
  Connection& connection = connections_.emplace(id, Connection{}).first->second;
  try {
    if (!address) {
      dial(id, connection, {{}, "'" + to + "' is no endpoint"});
    } else if (address->is_unix) {
      dial(id, connection, {{unix_address(address->host)}, ""});
    } else {
      connection.lookup = std::make_unique<Lookup>(address->host, address->port);
      if (connection.lookup->done()) {
        dial(id, connection, connection.lookup->take());
      } else {
        connection.phase = Phase::resolving;
        control(epoll_.get(), EPOLL_CTL_ADD, connection.lookup->descriptor(), EPOLLIN, id);
      }
    }
  } catch (const Error& error) {
    connections_.erase(id);
    end(id, End::exhausted, error.what());
  }
  return id;
}

void EpollNetwork::on_resolved(ConnectionId id, Connection& connection) {
  control(epoll_.get(), EPOLL_CTL_DEL, connection.lookup->descriptor(), 0, id);
  connection.phase = Phase::connecting;
  dial(id, connection, connection.lookup->take());
}

void EpollNetwork::dial(ConnectionId id, Connection& connection, Resolved resolved) {
  connection.lookup.reset();
  if (resolved.addresses.empty()) {
    connections_.erase(id);
    return end(id, End::unresolved, std::move(resolved.trouble));
  }
  connection.candidates.assign(resolved.addresses.rbegin(), resolved.addresses.rend());
  dial_next(id, connection, 0);
}

void EpollNetwork::dial_next(ConnectionId id, Connection& connection, int number) {
  while (!connection.candidates.empty()) {
    const SocketAddress address = connection.candidates.back();
    connection.candidates.pop_back();
    connection.is_unix = address.family() == AF_UNIX;
    connection.events = 0;
    connection.socket = FileDescriptor(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connection.socket.valid()) {
      const int result = ::connect(connection.socket.get(), address.get(), address.length);
      if (result == 0 || errno == EINPROGRESS) return update(id, connection);
    }
    number = errno;
  }
  connections_.erase(id);
  end(id, end_of(number), words_of(number));
}

void EpollNetwork::flush(Connection& connection) {
  std::size_t sent = 0;
  while (sent < connection.out.size()) {
    const ssize_t took =
        ::send(connection.socket.get(), connection.out.data() + sent, connection.out.size() - sent, MSG_NOSIGNAL);
    if (took < 0 && errno == EINTR) continue;
    if (took < 0 && errno == EAGAIN) break;
    // The other end is gone; reading tells, but not why.
    if (took < 0) connection.trouble = errno;
    sent = took < 0 ? connection.out.size() : sent + static_cast<std::size_t>(took);
  }
  connection.out.erase(connection.out.begin(), connection.out.begin() + static_cast<std::ptrdiff_t>(sent));
}

void EpollNetwork::send(ConnectionId id, std::span<const std::byte> bytes) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->phase == Phase::closing) return;
  if (connection->out.empty()) unsent_.push_back(id);
  connection->out.insert(connection->out.end(), bytes.begin(), bytes.end());
}

// What a machine says in one go leaves in one go, too: news come in crowds.
void EpollNetwork::flush_unsent() {
  for (const ConnectionId id : std::exchange(unsent_, {})) {
    Connection* connection = find(id);
    if (connection == nullptr || connection->phase == Phase::closing) continue;
    if (connection->phase == Phase::open) flush(*connection);
    if (connection->phase != Phase::resolving) update(id, *connection);
  }
}

void EpollNetwork::close(ConnectionId id) {
  std::erase_if(ended_, [&](const Ended& ended) { return ended.connection == id; });
  Connection* connection = find(id);
  if (connection == nullptr || connection->phase == Phase::closing) return;
  if (connection->phase < Phase::open || (connection->out.empty() && lingering_ >= kMostLingering)) {
    connections_.erase(id);
    return;
  }
  connection->phase = Phase::closing;
  connection->held = false;
  connection->linger_until = now() + kLinger;
  ++lingering_;
  on_closing(id, *connection);
}

void EpollNetwork::drop(ConnectionId id) {
  std::erase_if(ended_, [&](const Ended& ended) { return ended.connection == id; });
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (found->second.phase == Phase::closing) --lingering_;
  connections_.erase(found);
}

bool EpollNetwork::drop_closing() {
  if (accept_again_ != kNever) accept_again_ = now();
  lingering_ = 0;
  return std::erase_if(connections_, [](const auto& entry) { return entry.second.phase == Phase::closing; }) > 0;
}

void EpollNetwork::on_closing(ConnectionId id, Connection& connection) {
  flush(connection);
  if (connection.out.empty() && !connection.shut) {
    connection.shut = true;
    ::shutdown(connection.socket.get(), SHUT_WR);
  }
  std::byte discarded[4096];
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t got = ::recv(connection.socket.get(), discarded, sizeof discarded, 0);
    if (got > 0 && (connection.discarded += static_cast<std::size_t>(got)) <= kMostDiscarded) continue;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    --lingering_;
    connections_.erase(id);
    return;
  }
  update(id, connection);
}

void EpollNetwork::hold(ConnectionId id) {
  Connection* connection = find(id);
  if (connection == nullptr) return;
  connection->held = true;
  update(id, *connection);
}

void EpollNetwork::resume(ConnectionId id) {
  Connection* connection = find(id);
  if (connection == nullptr) return;
  connection->held = false;
  update(id, *connection);
}

void EpollNetwork::random(std::span<std::byte> bytes) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1)
    throw Error(ErrorCode::system, "the system gave no random bits");
}

FileDescriptor EpollNetwork::release(ConnectionId id) {
  flush_unsent();
  const auto found = connections_.find(id);
  if (found == connections_.end() || !found->second.held || !found->second.out.empty())
    throw Error(ErrorCode::system, "a connection was to be handed over that is not at rest");
  if (found->second.events != 0) control(epoll_.get(), EPOLL_CTL_DEL, found->second.socket.get(), 0, id);
  FileDescriptor socket = std::move(found->second.socket);
  connections_.erase(found);
  return socket;
}

void EpollNetwork::make_control(ConnectionId id, Time silence) {
  const Connection* connection = find(id);
  if (connection != nullptr && !connection->is_unix) set_control(connection->socket.get(), silence);
}

// Error and hang-up are told unasked: an entry that is not armed may be told once too often, which does no harm.
void EpollNetwork::attend(int descriptor, bool once) const {
  control(epoll_.get(), EPOLL_CTL_ADD, descriptor, once ? EPOLLONESHOT : EPOLLIN,
          kAttended | static_cast<ConnectionId>(descriptor));
}

// Neither fails but where the descriptor is not attended any more, and then there is nothing to do.
void EpollNetwork::rearm(int descriptor) const {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = kAttended | static_cast<ConnectionId>(descriptor);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void EpollNetwork::ignore(int descriptor) const { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr); }

bool EpollNetwork::flushed() {
  flush_unsent();
  return std::all_of(connections_.begin(), connections_.end(),
                     [](const auto& entry) { return entry.second.out.empty(); });
}

void EpollNetwork::accept_all(Machine& machine, ConnectionId id) {
  for (int i = 0; i < kMostAccepts; ++i) {
    const auto listener = listeners_.find(id);
    if (listener == listeners_.end()) return;
    SocketAddress from;
    from.length = sizeof from.storage;
    FileDescriptor socket(
        ::accept4(listener->second.socket.get(), from.put(), &from.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
      // Nothing will change at once: leave them in the queue for a while.
      exhausted_ = true;
      accept_again_ = now() + kAcceptPause;
      for (const auto& [other, place] : listeners_) control(epoll_.get(), EPOLL_CTL_MOD, place.socket.get(), 0, other);
      return;
    }
    Connection connection;
    connection.is_unix = from.family() == AF_UNIX;
    std::string name;
    if (connection.is_unix) {
      int pid = 0;
      if (!is_same_user(socket.get(), &pid)) continue;
      name = "pid " + std::to_string(pid);
    } else {
      set_no_delay(socket.get());
      name = endpoint_of(from);
    }
    connection.socket = std::move(socket);
    connection.phase = Phase::open;
    const ConnectionId accepted = next_id_++;
    update(accepted, connections_.emplace(accepted, std::move(connection)).first->second);
    machine.accepted(accepted, name, now());
    // Its hello may be there already; read now, it does not wait behind all who come with it.
    on_readable(machine, accepted);
  }
}

void EpollNetwork::on_connecting(Machine& machine, ConnectionId id, Connection& connection) {
  int number = 0;
  socklen_t bytes = sizeof number;
  ::getsockopt(connection.socket.get(), SOL_SOCKET, SO_ERROR, &number, &bytes);
  // On loopback a socket can connect to itself where nobody listens and its own port happens to be the one it seeks.
  if (number == 0 && is_own_echo(connection.socket.get())) number = ECONNREFUSED;
  if (number != 0) return dial_next(id, connection, number);
  int pid = 0;
  if (connection.is_unix && !is_same_user(connection.socket.get(), &pid)) {
    connections_.erase(id);
    return end(id, End::foreign, "it belongs to another user");
  }
  if (!connection.is_unix) set_no_delay(connection.socket.get());
  connection.phase = Phase::open;
  connection.candidates.clear();
  flush(connection);
  update(id, connection);
  machine.connected(id, now());
}

void EpollNetwork::on_readable(Machine& machine, ConnectionId id) {
  std::byte buffer[16384];
  for (int i = 0; i < kMostReads; ++i) {
    // The machine may have closed, held or released it meanwhile.
    Connection* connection = find(id);
    if (connection == nullptr || connection->held || connection->phase != Phase::open) return;
    const ssize_t got = ::recv(connection->socket.get(), buffer, sizeof buffer, 0);
    if (got > 0) {
      machine.received(id, std::span(buffer).first(static_cast<std::size_t>(got)), now());
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    const int number = got < 0 ? errno : connection->trouble;
    connections_.erase(id);
    machine.closed(id, end_of_open(number), number == 0 ? "" : std::strerror(number), now());
    return;
  }
}

void EpollNetwork::handle(Machine& machine, ConnectionId id, std::uint32_t events) {
  if ((id & kAttended) != 0) {
    if (attended_) attended_(static_cast<int>(id & ~kAttended));
    return;
  }
  if (listeners_.contains(id)) return accept_all(machine, id);
  Connection* connection = find(id);
  if (connection == nullptr) return;
  if (connection->phase == Phase::resolving) return on_resolved(id, *connection);
  if (connection->phase == Phase::connecting) return on_connecting(machine, id, *connection);
  if (connection->phase == Phase::closing) return on_closing(id, *connection);
  if ((events & EPOLLOUT) != 0) {
    flush(*connection);
    update(id, *connection);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) on_readable(machine, id);
}

bool EpollNetwork::deliver_ended(Machine& machine) {
  const bool any = !ended_.empty();
  while (!ended_.empty()) {
    const Ended first = std::move(ended_.front());
    ended_.erase(ended_.begin());
    machine.closed(first.connection, first.end, first.words, now());
  }
  return any;
}

void EpollNetwork::sweep(Time now) {
  if (now >= accept_again_) {
    accept_again_ = kNever;
    for (const auto& [id, place] : listeners_) control(epoll_.get(), EPOLL_CTL_MOD, place.socket.get(), EPOLLIN, id);
  }
  if (lingering_ == 0) return;
  const std::size_t gone =
      std::erase_if(connections_, [&](const auto& entry) { return entry.second.linger_until <= now; });
  lingering_ -= gone;
}

void EpollNetwork::poll(Machine& machine, Time until) {
  throw_if_interrupted();
  flush_unsent();
  if (interruptible()) until = std::min(until, now() + kAskedEvery);
  const Time began = now();
  // After what it was told now the machine may have nothing more to wait for.
  if (deliver_ended(machine)) until = began;
  until = std::min({until, machine.next_tick(), accept_again_});
  const auto wait_ms =
      until <= began
          ? 0
          : std::chrono::ceil<std::chrono::milliseconds>(std::min<Time>(until - began, std::chrono::hours(1))).count();
  epoll_event events[kMostEvents];
  int count = ::epoll_wait(epoll_.get(), events, kMostEvents, ended_.empty() ? static_cast<int>(wait_ms) : 0);
  if (count < 0 && errno != EINTR) throw_errno("epoll");
  for (int round = 0; count > 0; ++round) {
    for (int i = 0; i < count; ++i) handle(machine, events[i].data.u64, events[i].events);
    if (count < kMostEvents || round == 64) break;
    count = ::epoll_wait(epoll_.get(), events, kMostEvents, 0);
  }
  deliver_ended(machine);
  const Time after = now();
  sweep(after);
  if (machine.next_tick() <= after) machine.tick(after);
  flush_unsent();
}

}  // namespace tutti::rendezvous
