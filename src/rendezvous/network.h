// The network and the clock as the state machines of the meeting see them.
//
// A Machine never reads a clock, opens a socket or draws a random number: it is told what happened and when, and asks a
// Network to act. The same machine therefore runs over epoll (epoll_network.h) and in a simulated network (tests).
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

using ConnectionId = std::uint64_t;  // never reused within a Network

// "host:port", "[v6]:port" or "unix:@name" (an abstract UNIX socket).
using Endpoint = std::string;

class Network {
 public:
  virtual ~Network() = default;
  // The outcome comes as Machine::connected or Machine::closed.
  virtual ConnectionId connect(const Endpoint& to) = 0;
  // Keeps what does not fit now and sends it later, in order.
  virtual void send(ConnectionId connection, std::span<const std::byte> bytes) = 0;
  // Sends what is kept, then closes. No further events come for it.
  virtual void close(ConnectionId connection) = 0;
  virtual void random(std::span<std::byte> bytes) = 0;
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual void accepted(ConnectionId connection, std::string_view from, Time now) = 0;
  virtual void connected(ConnectionId connection, Time now) = 0;
  virtual void received(ConnectionId connection, std::span<const std::byte> bytes, Time now) = 0;
  // The other end closed or the system gave the connection up; `why` in words, empty for an orderly end.
  virtual void closed(ConnectionId connection, std::string_view why, Time now) = 0;
  virtual void tick(Time now) = 0;
  // When tick() wants to be called next, or kNever.
  virtual Time next_tick() const = 0;
};

}  // namespace tutti::rendezvous
