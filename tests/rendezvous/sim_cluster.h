// A job in a simulated network: a lobby, its ranks on their way into the group, and their watches once they have met.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/joiner.h"
#include "rendezvous/lobby.h"
#include "rendezvous/sim_network.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {

inline constexpr Time kSilence = std::chrono::milliseconds(900);
inline constexpr Time kSuspicion = std::chrono::milliseconds(300);
inline constexpr Time kBeat = kSuspicion / 4;
inline constexpr Time kDeadline = std::chrono::seconds(60);
// Longest delay of the simulated network, there and back a few times.
inline constexpr Time kSlack = std::chrono::milliseconds(100);
inline constexpr const char* kLobbyAt = "lobby:1";

// The ranks of a group of all.
std::vector<int> everybody(int size);

struct Rank {
  int node = -1;
  int number = 0;
  std::unique_ptr<Joiner> joiner;
  std::unique_ptr<Watch> watch;  // once it has met
  bool dead = false;
  Time failed_at = kNever;  // when it learnt that something is wrong
  std::vector<Watch::Suspicion> suspicions;

  bool failed() const { return failed_at != kNever; }
  // The rank it names as the cause, or -1.
  int named() const;
};

struct ClusterOptions {
  int size = 4;
  std::vector<int> hosts;  // by rank; all on one where it is empty
  TransportKind wanted = TransportKind::automatic;
  int channels = 1;
  bool with_token = true;
  int keeper = -1;
  bool again = false;
  Time deadline = kDeadline;
};

// Several hosts, so that there is a control plane after the meeting.
ClusterOptions linked_layout(std::uint64_t seed);

class Cluster {
 public:
  Cluster(std::uint64_t seed, ClusterOptions options);

  // Changes to what one rank brings along, before it is started.
  JoinerOptions joining(int rank) const;
  void start_lobby();
  Rank& start(const JoinerOptions& options);
  void start_all();

  // Runs until every living rank has met (or failed), or nothing happens any more.
  void run_until_met();
  void run_until_all_failed(Time limit);
  void run_for(Time duration);
  bool all_met() const;

  // A rank's process ends; a launcher notices that a little later, a lobby kept by that rank ends with it.
  void kill(int rank);

  World world;
  ClusterOptions options;
  std::unique_ptr<Lobby> lobby;
  int lobby_node;
  std::vector<std::unique_ptr<Rank>> ranks;  // in the order in which they were started

 private:
  void look_at(Rank& rank);
};

// Every survivor names `culprit`, and knew by then.
void expect_all_name(const Cluster& cluster, int culprit, Time by, const std::string& what);

}  // namespace tutti::rendezvous
