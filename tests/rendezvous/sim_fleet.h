// Watches in a simulated network from the moment in which all have met: groups of any size, without the meeting.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "rendezvous/sim_network.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {

struct FleetOptions {
  int size = 4;
  Time silence = std::chrono::seconds(10);
  Time suspicion = std::chrono::seconds(1);
  bool relinks = true;
};

class Fleet {
 public:
  Fleet(std::uint64_t seed, const FleetOptions& options);

  Watch& watch(int rank) { return *watches_[static_cast<std::size_t>(rank)]; }
  void enter_everybody();
  // Ends a process, with or without a word.
  void kill(int rank);
  void leave(int rank);
  bool is_there(int rank) const { return there_[static_cast<std::size_t>(rank)]; }
  std::vector<int> living() const;
  void run_for(Time duration);

  // When each rank learnt that a group has failed; kNever where it has not.
  Time failed_at(int rank, GroupNumber group) const;
  // Frames that were sent since the last call, in all and by the rank that sent the most.
  struct Traffic {
    std::size_t all = 0, most = 0;
  };
  Traffic take_traffic();

  World world;
  const FleetOptions options;

 private:
  std::vector<std::unique_ptr<Watch>> watches_;
  std::vector<bool> there_;
  std::vector<std::map<GroupNumber, Time>> failed_;
  std::vector<std::size_t> sent_;
};

}  // namespace tutti::rendezvous
