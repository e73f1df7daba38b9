#include "rendezvous/sim_cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace tutti::rendezvous {

ClusterOptions linked_layout(std::uint64_t seed) {
  std::mt19937_64 random(seed * 104'729 + 3);
  ClusterOptions options;
  options.size = 3 + static_cast<int>(random() % 6);
  options.hosts = {0, 1};
  while (options.hosts.size() < static_cast<std::size_t>(options.size))
    options.hosts.push_back(static_cast<int>(random() % 3));
  if (random() % 4 == 0) options.wanted = TransportKind::tcp;
  options.with_token = random() % 2 == 0;
  return options;
}

std::vector<int> everybody(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

int Rank::named() const {
  if (watch && watch->failure(kEverybody)) return watch->failure(kEverybody)->rank;
  if (joiner && joiner->state() == Joiner::State::failed) return joiner->verdict().peer;
  return -1;
}

Cluster::Cluster(std::uint64_t seed, ClusterOptions given)
    : world(seed), options(std::move(given)), lobby_node(world.add_node()) {
  if (options.hosts.empty()) options.hosts.assign(static_cast<std::size_t>(options.size), 0);
}

void Cluster::start_lobby() {
  LobbyOptions lobby_options;
  lobby_options.size = options.size;
  lobby_options.job = "job";
  if (options.with_token) lobby_options.token = Token::from_hex(std::string(64, '5'));
  lobby_options.keeper = options.keeper;
  lobby_options.again = options.again;
  lobby_options.deadline = world.now() + options.deadline;
  lobby = std::make_unique<Lobby>(world.network(lobby_node), lobby_options, world.now());
  world.run(lobby_node, lobby.get());
  world.listen(lobby_node, kLobbyAt);
}

JoinerOptions Cluster::joining(int rank) const {
  JoinerOptions joining;
  joining.rank = rank;
  joining.job = "job";
  joining.lobby = kLobbyAt;
  if (options.with_token) joining.token = Token::from_hex(std::string(64, '5'));
  joining.deadline = world.now() + options.deadline;
  const std::string number = std::to_string(rank);
  const std::size_t place = static_cast<std::size_t>(rank) % options.hosts.size();
  const std::string host = "host" + std::to_string(options.hosts[place]);
  joining.join = {options.size, options.wanted, options.channels, {}, {}};
  joining.join.member = {host, make_host_id(host, "1", "1", 0), "tcp" + number + ":1", "unix:@" + number, 100 + rank};
  return joining;
}

Rank& Cluster::start(const JoinerOptions& joining) {
  ranks.push_back(std::make_unique<Rank>());
  Rank& rank = *ranks.back();
  rank.number = joining.rank;
  rank.node = world.add_node();
  world.listen(rank.node, joining.join.member.endpoint);
  world.listen(rank.node, joining.join.member.memory);
  rank.joiner = std::make_unique<Joiner>(world.network(rank.node), joining, world.now());
  world.run(rank.node, rank.joiner.get());
  world.after_events(rank.node, [this, &rank] { look_at(rank); });
  return rank;
}

void Cluster::start_all() {
  start_lobby();
  for (int rank = 0; rank < options.size; ++rank) start(joining(rank));
}

void Cluster::look_at(Rank& rank) {
  if (rank.joiner->state() == Joiner::State::done && !rank.watch) {
    Watch::Options watch{rank.number, options.size, kSilence, {}, kSuspicion};
    for (const auto& [link, connection] : rank.joiner->links()) {
      if (link.purpose == Purpose::control) watch.links.emplace_back(link.peer, connection);
    }
    rank.watch = std::make_unique<Watch>(world.network(rank.node), watch, world.now());
    rank.watch->enter(kEverybody, everybody(options.size));
    world.run(rank.node, rank.watch.get());
  }
  if (rank.watch) {
    for (const auto& suspicion : rank.watch->take_suspicions()) rank.suspicions.push_back(suspicion);
  }
  const bool failed = rank.joiner->state() == Joiner::State::failed || (rank.watch && rank.watch->failure(kEverybody));
  if (failed && !rank.failed()) rank.failed_at = world.now();
}

bool Cluster::all_met() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank->dead || rank->watch; });
}

void Cluster::run_until_met() {
  const auto settled = [](const auto& rank) { return rank->dead || rank->watch || rank->failed(); };
  while (!std::all_of(ranks.begin(), ranks.end(), settled) && world.step(kNever)) {
  }
}

void Cluster::run_until_all_failed(Time limit) {
  const Time until = world.now() + limit;
  const auto settled = [](const auto& rank) { return rank->dead || rank->failed(); };
  while (!std::all_of(ranks.begin(), ranks.end(), settled) && world.step(until)) {
  }
}

void Cluster::run_for(Time duration) {
  const Time until = world.now() + duration;
  while (world.step(until)) {
  }
}

void Cluster::kill(int number) {
  for (const auto& rank : ranks) {
    if (rank->number != number || rank->dead) continue;
    rank->dead = true;
    world.kill(rank->node);
  }
  if (options.keeper == number) {
    world.kill(lobby_node);
  } else if (options.keeper < 0) {
    world.at(world.now() + std::chrono::milliseconds(1),
             [this, number] { lobby->note_death(number, "was killed by signal 9"); });
  }
}

void expect_all_name(const Cluster& cluster, int culprit, Time by, const std::string& what) {
  for (const auto& rank : cluster.ranks) {
    if (rank->dead || rank->number == culprit) continue;
    EXPECT_EQ(rank->named(), culprit) << what << ", rank " << rank->number << ": "
                                      << (rank->watch ? "" : rank->joiner->verdict().text);
    EXPECT_LE(rank->failed_at, by) << what << ", rank " << rank->number;
  }
}

}  // namespace tutti::rendezvous
