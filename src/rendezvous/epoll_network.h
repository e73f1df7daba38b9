// The real network: non-blocking TCP (IPv4, IPv6) and abstract UNIX sockets over epoll, and the steady clock.
//
// Used by one thread at a time. Users of other uids are turned away from UNIX sockets before a Machine hears of them.
// Closing never loses what was sent: the socket is shut, and kept for up to a second until the other end closes too, or
// sends more than it should.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "rendezvous/lookup.h"
#include "rendezvous/network.h"
#include "rendezvous/sockets.h"
#include "rendezvous/wire.h"

namespace tutti::rendezvous {

class EpollNetwork final : public Network {
 public:
  EpollNetwork();
  ~EpollNetwork() override;

  static Time now() { return Deadline::Clock::now().time_since_epoch(); }
  static Time at(const Deadline& deadline) { return now() + deadline.left(); }

  // Listens; returns the real endpoint. Throws Error with the remedy.
  Endpoint listen(const Endpoint& at, const Deadline& deadline = {});
  // At all places, or at all but one.
  void stop_listening(const Endpoint& but = {});

  ConnectionId connect(const Endpoint& to) override;
  void send(ConnectionId id, std::span<const std::byte> bytes) override;
  void close(ConnectionId id) override;
  void drop(ConnectionId id) override;
  void hold(ConnectionId id) override;
  void resume(ConnectionId id) override;
  void random(std::span<std::byte> bytes) override;

  // Waits for events until one came, or `until`, or the machine's next tick; tells the machine what happened. What the
  // machine was told may be its last: whoever drives it looks after every call.
  void poll(Machine& machine, Time until);
  // Becomes readable when poll() has something to do before its time.
  int descriptor() const { return epoll_.get(); }
  // Nothing that was sent waits in here.
  bool flushed();
  // No connection is left, closing ones included.
  bool idle() const { return connections_.empty(); }
  // Connections of all kinds, closing ones included.
  std::size_t connections() const { return connections_.size(); }
  // Drops those that are closing and takes new ones again; false where there were none.
  bool drop_closing();
  // When poll() has something to do that no descriptor tells; kNever where there is nothing.
  Time next_wake() const { return accept_again_; }
  // Since the last call an arriving connection could not be taken for lack of descriptors.
  bool take_exhausted() { return std::exchange(exhausted_, false); }

  // poll() calls `ready` with an attended descriptor that is readable. Set before any is attended.
  void on_attended(std::function<void(int descriptor)> ready) { attended_ = std::move(ready); }
  // `once`: told only once after each rearm(). These three may be called by any thread.
  void attend(int descriptor, bool once) const;
  void rearm(int descriptor) const;
  void ignore(int descriptor) const;

  // Closes all connections at once, whatever is under way. No further events come for them.
  void drop_connections() noexcept { connections_.clear(); }

  // Hands the socket of a held connection over.
  FileDescriptor release(ConnectionId id);
  void make_control(ConnectionId id, Time silence);

 private:
  enum class Phase : unsigned char { resolving, connecting, open, closing };
  struct Connection {
    FileDescriptor socket;
    Phase phase = Phase::connecting;
    std::unique_ptr<Lookup> lookup;  // resolving
    bool is_unix = false;
    bool held = false;
    bool shut = false;
    int trouble = 0;                        // what sending ended with, where it did; reading no longer tells
    std::uint32_t events = 0;               // registered with epoll; 0 = not registered
    Bytes out;                              // what the system would not take yet
    std::vector<SocketAddress> candidates;  // to be tried yet, last first
    Time linger_until = kNever;
    std::size_t discarded = 0;  // closing: bytes that came and nobody wanted
  };
  struct Ended {
    ConnectionId connection;
    End end;
    std::string words;
  };
  Connection* find(ConnectionId id);
  void update(ConnectionId id, Connection& connection) const;
  void dial(ConnectionId id, Connection& connection, Resolved resolved);
  void dial_next(ConnectionId id, Connection& connection, int number);
  void end(ConnectionId id, End end, std::string words) { ended_.push_back({id, end, std::move(words)}); }
  void flush(Connection& connection);
  void flush_unsent();
  void accept_all(Machine& machine, ConnectionId id);
  void on_resolved(ConnectionId id, Connection& connection);
  void on_connecting(Machine& machine, ConnectionId id, Connection& connection);
  void on_readable(Machine& machine, ConnectionId id);
  void on_closing(ConnectionId id, Connection& connection);
  void handle(Machine& machine, ConnectionId id, std::uint32_t events);
  bool deliver_ended(Machine& machine);
  void sweep(Time now);

  FileDescriptor epoll_;
  ConnectionId next_id_ = 1;
  std::map<ConnectionId, Listener> listeners_;
  std::map<ConnectionId, Connection> connections_;
  std::function<void(int)> attended_;
  std::vector<Ended> ended_;          // to be told at the next poll
  std::vector<ConnectionId> unsent_;  // something may lie in their `out` that the system has not been offered
  std::size_t lingering_ = 0;
  Time accept_again_ = kNever;
  bool exhausted_ = false;
};

}  // namespace tutti::rendezvous
