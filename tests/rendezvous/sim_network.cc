#include "rendezvous/sim_network.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tutti::rendezvous {

class World::NodeNetwork final : public Network {
 public:
  NodeNetwork(World& world, int node) : world_(world), node_(node) {}

  ConnectionId connect(const Endpoint& to) override {
    const ConnectionId id = world_.add_side(node_, 0);
    world_.do_connect(node_, id, to);
    return id;
  }
  void send(ConnectionId id, std::span<const std::byte> bytes) override { world_.do_send(id, bytes); }
  void close(ConnectionId id) override { world_.do_close(id, End::orderly); }
  void drop(ConnectionId id) override { world_.do_close(id, End::broken); }
  void hold(ConnectionId id) override { world_.side(id).held = true; }
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

ConnectionId World::add_side(int node, ConnectionId other) {
  sides_.push_back({node, other, true, false, {}, 0, 0, {}});
  return sides_.size();
}

std::pair<ConnectionId, ConnectionId> World::link(int a, int b) {
  const ConnectionId first = add_side(a, 0), second = add_side(b, first);
  side(first).other = second;
  side(first).held = side(second).held = true;
  return {first, second};
}

void World::run(int node, Machine* machine) {
  nodes_[static_cast<std::size_t>(node)].machine = machine;
  poke(node);
}

void World::poke(int number) {
  Node& node = nodes_[static_cast<std::size_t>(number)];
  const Time tick = node.machine == nullptr ? kNever : std::max(node.machine->next_tick(), node.paused_until);
  if (tick == node.tick) return;
  if (node.tick != kNever) ticks_.erase({node.tick, number});
  node.tick = tick;
  if (tick != kNever) ticks_.insert({tick, number});
}

Time World::delay() {
  if (fixed_delay_) return *fixed_delay_;
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
  const ConnectionId other = side(connection).other;
  return {side(other).node, other};
}

void World::deliver(ConnectionId to, const std::function<void(Machine&)>& event) {
  Side& end = side(to);
  if (!end.open) return;
  if (end.held) {
    end.kept.emplace_back([this, to, event] { deliver(to, event); });
    return;
  }
  if (Machine* machine = nodes_[static_cast<std::size_t>(end.node)].machine) event(*machine);
}

// Something on its way to one end of a connection, behind what was sent before it.
void World::arrive(ConnectionId to, std::function<void(Machine&)> event) {
  Side& end = side(to);
  end.last_arrival = std::max(end.last_arrival + Time(1), now_ + delay());
  const std::size_t number = ++end.sent;
  push(end.last_arrival, end.node, [this, to, number, event = std::move(event)] {
    if (number > side(to).lost) deliver(to, event);
  });
}

void World::do_connect(int node, ConnectionId id, const Endpoint& to) {
  push(now_ + delay(), -1, [this, node, id, to] {
    const auto found = listeners_.find(to);
    const int server = found == listeners_.end() ? -1 : found->second;
    if (!side(id).open) return;
    if (server >= 0 && !reaches(node, server)) return;
    if (server < 0 || nodes_[static_cast<std::size_t>(server)].dead) {
      return arrive(id, [this, id](Machine& machine) {
        side(id).open = false;
        machine.closed(id, End::refused, "connection refused", now_);
      });
    }
    const ConnectionId other = add_side(server, id);
    side(id).other = other;
    arrive(other,
           [this, other, node](Machine& machine) { machine.accepted(other, "node " + std::to_string(node), now_); });
    arrive(id, [this, id](Machine& machine) { machine.connected(id, now_); });
  });
}

void World::do_send(ConnectionId id, std::span<const std::byte> bytes) {
  const Side& from = side(id);
  if (!from.open || from.other == 0) return;
  ++nodes_[static_cast<std::size_t>(from.node)].sends;
  while (!bytes.empty()) {
    const std::size_t piece = !fixed_delay_ && random_() % 4 == 0 ? 1 + random_() % bytes.size() : bytes.size();
    Bytes copy(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(piece));
    bytes = bytes.subspan(piece);
    const ConnectionId to = from.other;
    if (!reaches(from.node, side(to).node)) return;
    arrive(to, [this, to, copy = std::move(copy)](Machine& machine) { machine.received(to, copy, now_); });
  }
}

void World::do_close(ConnectionId id, End how) {
  Side& from = side(id);
  if (!from.open) return;
  from.open = false;
  const ConnectionId to = from.other;
  if (to == 0 || !reaches(from.node, side(to).node)) return;
  arrive(to, [this, to, how](Machine& machine) {
    side(to).open = false;
    machine.closed(to, how, how == End::orderly ? "" : "connection reset", now_);
  });
}

// Stays held until its own event comes, so that nothing overtakes what was kept.
void World::do_resume(ConnectionId id) {
  push(now_, side(id).node, [this, id] {
    side(id).held = false;
    for (const auto& kept : std::exchange(side(id).kept, {})) kept();
  });
}

void World::kill(int node) {
  Node& dying = nodes_[static_cast<std::size_t>(node)];
  dying.dead = true;
  dying.machine = nullptr;
  poke(node);
  for (ConnectionId id = 1; id <= sides_.size(); ++id) {
    const Side& end = side(id);
    if (end.node != node || !end.open) continue;
    const bool reset = random_() % 2 == 0;
    if (reset && end.other != 0) side(end.other).lost = side(end.other).sent;
    do_close(id, reset ? End::broken : End::orderly);
  }
}

void World::pause(int node, Time until) {
  nodes_[static_cast<std::size_t>(node)].paused_until = until;
  poke(node);
}

bool World::step(Time until) {
  int ticking = -1;
  Time next = queue_.empty() ? kNever : queue_.top().when;
  if (!ticks_.empty() && ticks_.begin()->first < next) std::tie(next, ticking) = *ticks_.begin();
  if (next > until || next == kNever) return false;
  now_ = std::max(now_, next);
  ++events_;
  int whose = ticking;
  if (ticking >= 0) {
    nodes_[static_cast<std::size_t>(ticking)].machine->tick(now_);
  } else {
    Event event = std::move(const_cast<Event&>(queue_.top()));  // popped at once
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
  poke(whose);
  const Node& node = nodes_[static_cast<std::size_t>(whose)];
  if (!node.dead && node.then) {
    node.then();
    poke(whose);
  }
  return true;
}

}  // namespace tutti::rendezvous
