#include "rendezvous/sim_fleet.h"

#include <algorithm>
#include <numeric>

#include "rendezvous/overlay.h"

namespace tutti::rendezvous {

Fleet::Fleet(std::uint64_t seed, const FleetOptions& given)
    : world(seed),
      options(given),
      there_(static_cast<std::size_t>(given.size), true),
      failed_(static_cast<std::size_t>(given.size)),
      sent_(static_cast<std::size_t>(given.size)) {
  std::vector<Watch::Options> all(static_cast<std::size_t>(options.size));
  LinkOptions linking;
  linking.channels = 2;
  linking.endpoint_of = [](int rank) { return "rank" + std::to_string(rank) + ":1"; };
  for (int rank = 0; rank < options.size; ++rank) world.listen(world.add_node(), linking.endpoint_of(rank));
  for (int rank = 0; rank < options.size; ++rank) {
    for (const int peer : neighbours_of(rank, options.size)) {
      if (peer > rank) continue;
      const auto [mine, theirs] = world.link(rank, peer);
      all[static_cast<std::size_t>(rank)].links.emplace_back(peer, mine);
      all[static_cast<std::size_t>(peer)].links.emplace_back(rank, theirs);
    }
  }
  for (int rank = 0; rank < options.size; ++rank) {
    Watch::Options& mine = all[static_cast<std::size_t>(rank)];
    mine.rank = rank;
    mine.size = options.size;
    mine.silence = options.silence;
    mine.suspicion = options.suspicion;
    if (options.relinks) mine.linking = linking;
    watches_.push_back(std::make_unique<Watch>(world.network(rank), mine, world.now()));
    world.run(rank, watches_.back().get());
    world.after_events(rank, [this, rank] {
      for (const auto& [group, of] : watch(rank).take_changes()) {
        if (of < 0) failed_[static_cast<std::size_t>(rank)].emplace(group, world.now());
      }
    });
  }
}

void Fleet::enter_everybody() {
  std::vector<int> everybody(static_cast<std::size_t>(options.size));
  std::iota(everybody.begin(), everybody.end(), 0);
  for (const auto& watch : watches_) watch->enter(kEverybody, everybody);
}

void Fleet::kill(int rank) {
  there_[static_cast<std::size_t>(rank)] = false;
  world.kill(rank);
}

// Its words are on their way when its process ends: nobody listens there any more.
void Fleet::leave(int rank) {
  there_[static_cast<std::size_t>(rank)] = false;
  watch(rank).goodbye();
  world.kill(rank);
}

std::vector<int> Fleet::living() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < options.size; ++rank) {
    if (is_there(rank)) ranks.push_back(rank);
  }
  return ranks;
}

void Fleet::run_for(Time duration) {
  const Time until = world.now() + duration;
  while (world.step(until)) {
  }
}

Time Fleet::failed_at(int rank, GroupNumber group) const {
  const auto& failed = failed_[static_cast<std::size_t>(rank)];
  const auto found = failed.find(group);
  return found == failed.end() ? kNever : found->second;
}

Fleet::Traffic Fleet::take_traffic() {
  Traffic traffic;
  for (int rank = 0; rank < options.size; ++rank) {
    std::size_t& before = sent_[static_cast<std::size_t>(rank)];
    const std::size_t since = world.sends(rank) - std::exchange(before, world.sends(rank));
    traffic.all += since;
    traffic.most = std::max(traffic.most, since);
  }
  return traffic;
}

}  // namespace tutti::rendezvous
