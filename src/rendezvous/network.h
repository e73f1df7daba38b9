// The network and the clock as the state machines of the meeting see them.
//
// A Machine never reads a clock, opens a socket or draws a random number: it is told what happened and when, and asks a
// Network to act. The same machine therefore runs over epoll (epoll_network.h) and in a simulated network (tests).
// A Network never calls its Machine from inside one of its own functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti::rendezvous {

using Time = std::chrono::nanoseconds;  // since some fixed moment
inline constexpr Time kNever = Time::max();

using ConnectionId = std::uint64_t;  // never reused within a Network; never 0

// "host:port", "[v6]:port" or "unix:@name" (an abstract UNIX socket).
using Endpoint = std::string;

// How a connection ended, or why there never was one.
enum class End : unsigned char {
  orderly,      // the other end closed it
  broken,       // the other end or something on the way reset it, or the system gave it up
  refused,      // nobody listens there
  unreachable,  // no way leads there, or none does any more
  unresolved,   // the host has no address
  foreign,      // a UNIX socket of another user
  exhausted,    // this process may open no more descriptors, or start no more threads
};

class Network {
 public:
  virtual ~Network() = default;
  // The outcome comes as Machine::connected or Machine::closed.
  virtual ConnectionId connect(const Endpoint& to) = 0;
  // Keeps what does not fit now and sends it later, in order.
  virtual void send(ConnectionId connection, std::span<const std::byte> bytes) = 0;
  // Sends what is kept, then closes. No further events come for it.
  virtual void close(ConnectionId connection) = 0;
  // Closes at once, whatever is kept or has come unread. No further events come for it.
  virtual void drop(ConnectionId connection) = 0;
  // Stops reading: no events come for it until resume(), and what the other end sends stays in the system's hands.
  virtual void hold(ConnectionId connection) = 0;
  virtual void resume(ConnectionId connection) = 0;
  virtual void random(std::span<std::byte> bytes) = 0;
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual void accepted(ConnectionId connection, std::string_view from, Time now) = 0;
  virtual void connected(ConnectionId connection, Time now) = 0;
  virtual void received(ConnectionId connection, std::span<const std::byte> bytes, Time now) = 0;
  // Nothing comes after it; `words` say why, for people.
  virtual void closed(ConnectionId connection, End end, std::string_view words, Time now) = 0;
  virtual void tick(Time now) = 0;
  // When tick() wants to be called next, or kNever.
  virtual Time next_tick() const = 0;
};

}  // namespace tutti::rendezvous
