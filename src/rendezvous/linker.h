// Data links that are made after the meeting, when somebody first wants one.
//
// The higher rank of a pair dials, so that there is one connection, whoever wanted it first. Where that is the lower
// one, it dials as well, to be called back: a handshake, and no more. Nothing is sent on a link before both ends have
// proved themselves, so one that does not stand when its peer leaves was never used. A link that cannot be made
// although its peer lives is told of. A pure state machine; the watch passes on the events.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/link_options.h"
#include "rendezvous/network.h"
#include "rendezvous/wire.h"

namespace tutti::rendezvous {

class Linker {
 public:
  using Key = std::pair<int, std::uint32_t>;  // rank, channel
  struct Made {
    Key key;
    ConnectionId connection = 0;  // held
    Bytes first;                  // what came behind the handshake
  };
  // No link with the rank could be made, although it lives as far as is known.
  struct Trouble {
    int rank = 0;
    std::string words;
    bool ours = false;  // for want of something that this process needs
  };

  Linker(Network& network, int rank, LinkOptions options, std::function<bool(int rank)> is_gone);

  void want(int rank, std::uint32_t channel, Time now);
  // What keeps such a hello out, if anything does.
  std::optional<Refusal> judge(const Hello& hello) const;
  // It has proved itself at the gate.
  void admit(const Hello& hello, ConnectionId connection, Time now);
  // The rank has left, or is lost.
  void forget(int rank);
  void close();

  std::vector<Made> take_made() { return std::exchange(made_, {}); }
  // Wanted, and never to come.
  std::vector<Key> take_absent() { return std::exchange(absent_, {}); }
  std::vector<Trouble> take_troubles() { return std::exchange(troubles_, {}); }

  // Whether the connection is one of its own.
  bool holds(ConnectionId connection) const;
  void connected(ConnectionId connection, Time now);
  void received(ConnectionId connection, std::span<const std::byte> bytes, Time now);
  void closed(ConnectionId connection, End end, std::string_view words, Time now);
  void tick(Time now);
  Time next_tick() const;

 private:
  struct Wanted {
    std::optional<Dialer> dialer;  // none once the link stands, or the peer has been asked to dial
    Time since{};
    bool stands = false;
  };
  using Entry = std::map<Key, Wanted>::iterator;

  Entry find(ConnectionId connection);
  void stand(Wanted& wanted, const Key& key, ConnectionId connection, std::span<const std::byte> first);
  void give_up(Entry entry, const std::string& why, bool ours = false);

  Network& network_;
  const int rank_;
  const LinkOptions options_;
  const std::function<bool(int)> is_gone_;
  std::map<Key, Wanted> wanted_;
  std::map<ConnectionId, Key> dialled_;
  std::vector<Made> made_;
  std::vector<Key> absent_;
  std::vector<Trouble> troubles_;
};

}  // namespace tutti::rendezvous
