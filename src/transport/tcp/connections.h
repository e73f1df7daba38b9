// The connections of a process with others, shared by the transports of all groups that were made of one: made when one
// is first wanted, kept until the last group is gone. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/links.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/socket_bell.h"

namespace tutti::transport {

class Connections {
 public:
  // `links` may be nullptr: then there are those that were added. `elsewhere`: as SocketBell has it, and needs `links`.
  // Throws Error(system).
  explicit Connections(std::shared_ptr<Links> links, std::function<void()> elsewhere = {});
  // The control plane says goodbye, where this is what kept it, before the connections end; they end when what was sent
  // has arrived, or after a while.
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Where all threads sleep that wait for one of them, if they do not sleep elsewhere.
  SocketBell& bell() { return bell_; }
  // By who is about to sleep elsewhere: asks for a ring there when something has happened that none has followed yet.
  void arm() {
    if (bell_.arm()) links_->arm();
  }

  // A group has failed: at the end nobody waits for what was sent.
  void hurry() { hurries_.store(true); }

  void add(int rank, int channel, FileDescriptor socket);
  // Throws Error(invalid_argument) where it is not there and cannot be made.
  Connection& with(int rank, int channel);
  // How long ago data came from the rank, on any channel, as the system knows it.
  std::chrono::nanoseconds quiet_for(int rank);

 private:
  using Key = std::pair<int, int>;  // rank, channel

  Connection& at(const Key& key);
  // Calls use(connection) for each with the rank; the mutex is held.
  template <class Use>
  void for_each_with(int rank, Use&& use);
  void link(Links::Made made);
  void leave(std::uint64_t group, std::span<const Links::Member> members);
  void look();

  SocketBell bell_;
  std::shared_ptr<Links> links_;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Connection>> connections_;
  std::atomic<bool> hurries_{false};
  std::atomic<bool> unflushed_{false};  // a bye may be kept somewhere that nobody sends
};

}  // namespace tutti::transport
