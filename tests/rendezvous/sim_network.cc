#include "rendezvous/sim_network.h"

#include <algorithm>
#include <utility>

namespace tutti::rendezvous {

class World::NodeNetwork final : public Network {
 public:
  NodeNetwork(World& world, int node) : world_(world), node_(node) {}

  ConnectionId connect(const Endpoint& to) override {
    const ConnectionId id = world_.next_id_++;
    world_.do_connect(node_, id, to);
    return id;
  }
  void send(ConnectionId id, std::span<const std::byte> bytes) override { world_.do_send(id, bytes); }
  void close(ConnectionId id) override { world_.do_close(id, End::orderly); }
  void drop(ConnectionId id) override { world_.do_close(id, End::broken); }
  void hold(ConnectionId id) override { world_.sides_.at(id).held = true; }
  void resume(ConnectionId id) override { world_.do_resume(id); }
  void random(std::span<std::byte> bytes) override {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(world_.random_());
  }

 private:
  World& world_;
  int node_;
};

int World::add_node() {
  const int node = static_cast<int>(nodes_.size());
  nodes_.emplace_back().network = std::make_unique<NodeNetwork>(*this, node);
  return node;
}

Network& World::network(int node) { return *nodes_[static_cast<std::size_t>(node)].network; }

Time World::delay() {
  // Mostly short, sometimes long.
  const std::uint64_t draw = random_();
  const std::uint64_t range_us = draw % 16 == 0 ? 20'000 : 300;
  return std::chrono::microseconds(5 + (draw >> 8) % range_us);
}

bool World::reaches(int from, int to) const {
  const Node &a = nodes_[static_cast<std::size_t>(from)], &b = nodes_[static_cast<std::size_t>(to)];
  return !a.frozen && !b.frozen;
}

std::pair<int, ConnectionId> World::other_end(ConnectionId connection) const {
  const Side& side = sides_.at(connection);
  return {sides_.at(side.other).node, side.other};
}

void World::deliver(ConnectionId to, const std::function<void(Machine&)>& event) {
  Side& side = sides_.at(to);
  if (!side.open) return;
  if (side.held) {
    side.kept.emplace_back([this, to, event] { deliver(to, event); });
    return;
  }
  if (Machine* machine = nodes_[static_cast<std::size_t>(side.node)].machine) event(*machine);
}

// Something on its way to one end of a connection, behind what was sent before it.
void World::arrive(ConnectionId to, std::function<void(Machine&)> event) {
  Side& side = sides_.at(to);
  side.last_arrival = std::max(side.last_arrival + Time(1), now_ + delay());
  const std::size_t number = ++side.sent;
  push(side.last_arrival, side.node, [this, to, number, event = std::move(event)] {
    if (number > sides_.at(to).lost) deliver(to, event);
  });
}

void World::do_connect(int node, ConnectionId id, const Endpoint& to) {
  sides_[id] = {node, 0, true, false, {}, 0, 0, {}};
  push(now_ + delay(), -1, [this, node, id, to] {
    const auto found = listeners_.find(to);
    const int server = found == listeners_.end() ? -1 : found->second;
    if (!sides_.at(id).open) return;
    if (server >= 0 && !reaches(node, server)) return;
    if (server < 0 || nodes_[static_cast<std::size_t>(server)].dead) {
      return arrive(id, [this, id](Machine& machine) {
        sides_.at(id).open = false;
        machine.closed(id, End::refused, "connection refused", now_);
      });
    }
    const ConnectionId other = next_id_++;
    sides_[other] = {server, id, true, false, {}, 0, 0, {}};
    sides_[id].other = other;
    arrive(other,
           [this, other, node](Machine& machine) { machine.accepted(other, "node " + std::to_string(node), now_); });
    arrive(id, [this, id](Machine& machine) { machine.connected(id, now_); });
  });
}

void World::do_send(ConnectionId id, std::span<const std::byte> bytes) {
  const Side& side = sides_.at(id);
  if (!side.open || side.other == 0) return;
  while (!bytes.empty()) {
    const std::size_t piece = random_() % 4 == 0 ? 1 + random_() % bytes.size() : bytes.size();
    Bytes copy(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(piece));
    bytes = bytes.subspan(piece);
    const ConnectionId to = side.other;
    if (!reaches(side.node, sides_.at(to).node)) return;
    arrive(to, [this, to, copy = std::move(copy)](Machine& machine) { machine.received(to, copy, now_); });
  }
}

void World::do_close(ConnectionId id, End how) {
  Side& side = sides_.at(id);
  if (!side.open) return;
  side.open = false;
  const ConnectionId to = side.other;
  if (to == 0 || !reaches(side.node, sides_.at(to).node)) return;
  arrive(to, [this, to, how](Machine& machine) {
    sides_.at(to).open = false;
    machine.closed(to, how, how == End::orderly ? "" : "connection reset", now_);
  });
}

// Stays held until its own event comes, so that nothing overtakes what was kept.
void World::do_resume(ConnectionId id) {
  push(now_, sides_.at(id).node, [this, id] {
    sides_.at(id).held = false;
    for (const auto& kept : std::exchange(sides_.at(id).kept, {})) kept();
  });
}

void World::kill(int node) {
  Node& dying = nodes_[static_cast<std::size_t>(node)];
  dying.dead = true;
  dying.machine = nullptr;
  for (auto& [id, side] : sides_) {
    if (side.node != node || !side.open) continue;
    const bool reset = random_() % 2 == 0;
    if (reset && side.other != 0) sides_.at(side.other).lost = sides_.at(side.other).sent;
    do_close(id, reset ? End::broken : End::orderly);
  }
}

void World::pause(int node, Time until) { nodes_[static_cast<std::size_t>(node)].paused_until = until; }

bool World::step(Time until) {
  int ticking = -1;
  Time next = queue_.empty() ? kNever : queue_.top().when;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.machine == nullptr) continue;
    const Time tick = std::max(node.machine->next_tick(), node.paused_until);
    if (tick >= next) continue;
    next = tick;
    ticking = static_cast<int>(i);
  }
  if (next > until || next == kNever) return false;
  now_ = std::max(now_, next);
  ++events_;
  int whose = ticking;
  if (ticking >= 0) {
    nodes_[static_cast<std::size_t>(ticking)].machine->tick(now_);
  } else {
    Event event = queue_.top();
    queue_.pop();
    whose = event.node;
    // A paused process finds on waking what came meanwhile, after its clock has told it how late it is.
    if (whose >= 0 && nodes_[static_cast<std::size_t>(whose)].paused_until > now_) {
      push(nodes_[static_cast<std::size_t>(whose)].paused_until, whose, std::move(event.act));
      return true;
    }
    event.act();
  }
  if (whose < 0) return true;
  const Node& node = nodes_[static_cast<std::size_t>(whose)];
  if (!node.dead && node.then) node.then();
  return true;
}

}  // namespace tutti::rendezvous
