// A network and a clock that exist only in a test: seeded, deterministic, and as nasty as asked for.
//
// Every process is a node with one Machine. Messages of one connection keep their order but are cut anywhere; different
// connections overtake each other. A killed node's connections end, some of them with a reset that overtakes what was
// under way; a frozen node neither sends nor receives, and nobody is told; a paused node receives late.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/network.h"
#include "rendezvous/wire.h"

namespace tutti::rendezvous {

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}

  int add_node();
  Network& network(int node);
  // The machine may change between events; nullptr = the process is not there (any more).
  void run(int node, Machine* machine);
  // Its machine may want an earlier tick than before, because something was done to it outside of its events.
  void poke(int node);
  // Called after every event of the node.
  void after_events(int node, std::function<void()> then) {
    nodes_[static_cast<std::size_t>(node)].then = std::move(then);
  }
  void listen(int node, const Endpoint& at) { listeners_[at] = node; }
  // A connection that stands and is held at both ends, as links do when all have met.
  std::pair<ConnectionId, ConnectionId> link(int a, int b);
  // Everything takes so long from now on, and comes in one piece.
  void set_delay(Time delay) { fixed_delay_ = delay; }

  void kill(int node);
  void freeze(int node) { nodes_[static_cast<std::size_t>(node)].frozen = true; }
  void pause(int node, Time until);
  // How many times the node has sent something on a connection.
  std::size_t sends(int node) const { return nodes_[static_cast<std::size_t>(node)].sends; }
  void at(Time when, std::function<void()> act) { push(when, -1, std::move(act)); }

  Time now() const { return now_; }
  std::size_t events() const { return events_; }
  std::mt19937_64& random() { return random_; }
  // One event or tick; false when nothing is left to happen before `until`.
  bool step(Time until);
  // Whose connection is at the other end.
  std::pair<int, ConnectionId> other_end(ConnectionId connection) const;

 private:
  class NodeNetwork;
  struct Node {
    std::unique_ptr<Network> network;
    Machine* machine = nullptr;
    std::function<void()> then;
    bool dead = false;
    bool frozen = false;
    Time paused_until{};
    Time tick = kNever;  // as it stands in ticks_
    std::size_t sends = 0;
  };
  // One end of a connection.
  struct Side {
    int node = -1;
    ConnectionId other = 0;
    bool open = false;
    bool held = false;
    Time last_arrival{};                      // of what the other end sent, so that order is kept
    std::size_t sent = 0;                     // to it
    std::size_t lost = 0;                     // of that, the first so many never arrive
    std::vector<std::function<void()>> kept;  // what came while it was held
  };
  struct Event {
    Time when;
    std::uint64_t number;
    int node;  // whose it is, or -1
    std::function<void()> act;
    bool operator<(const Event& other) const { return when != other.when ? when > other.when : number > other.number; }
  };

  void push(Time when, int node, std::function<void()> act) { queue_.push({when, numbers_++, node, std::move(act)}); }
  Time delay();
  ConnectionId add_side(int node, ConnectionId other);
  Side& side(ConnectionId id) { return sides_[id - 1]; }
  const Side& side(ConnectionId id) const { return sides_[id - 1]; }
  bool reaches(int from, int to) const;
  void arrive(ConnectionId to, std::function<void(Machine&)> event);
  void deliver(ConnectionId to, const std::function<void(Machine&)>& event);
  void do_connect(int node, ConnectionId id, const Endpoint& to);
  void do_resume(ConnectionId id);
  void do_send(ConnectionId id, std::span<const std::byte> bytes);
  void do_close(ConnectionId id, End how);

  std::mt19937_64 random_;
  Time now_{};
  std::size_t events_ = 0;
  std::uint64_t numbers_ = 0;
  std::optional<Time> fixed_delay_;
  std::vector<Node> nodes_;
  std::map<Endpoint, int> listeners_;
  std::deque<Side> sides_;  // by connection, from 1 on
  std::priority_queue<Event> queue_;
  std::set<std::pair<Time, int>> ticks_;  // of the nodes that want one
};

}  // namespace tutti::rendezvous
