// A network that leads nowhere and remembers what a machine asked of it. Its random numbers are the same every time.
#pragma once

#include <map>
#include <random>
#include <set>

#include "rendezvous/network.h"
#include "rendezvous/wire.h"

namespace tutti::rendezvous {

class Recorder final : public Network {
 public:
  // Numbers from 1000 on: those below are the caller's to give.
  ConnectionId connect(const Endpoint& to) override {
    dialled[next_] = to;
    return next_++;
  }
  void send(ConnectionId id, std::span<const std::byte> bytes) override {
    sent[id].insert(sent[id].end(), bytes.begin(), bytes.end());
  }
  void close(ConnectionId id) override { closed.insert(id); }
  void drop(ConnectionId id) override { closed.insert(id); }
  void hold(ConnectionId) override {}
  void resume(ConnectionId) override {}
  void random(std::span<std::byte> bytes) override {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(draw_());
  }

  std::map<ConnectionId, Endpoint> dialled;
  std::map<ConnectionId, Bytes> sent;
  std::set<ConnectionId> closed;  // or dropped

 private:
  ConnectionId next_ = 1000;
  std::mt19937_64 draw_{1};
};

}  // namespace tutti::rendezvous
