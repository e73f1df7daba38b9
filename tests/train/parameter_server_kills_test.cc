// Workers of a parameter server that are killed while they push, by seeds: whoever is left goes on, the dead are named,
// and what servers hold is what whole messages brought, or with synchronous clocks whole clocks.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <random>
#include <thread>

#include "check.h"
#include "train/ones.h"
#include "tutti/train/parameter_server.h"

namespace tutti {
namespace {

using testing::contains;
using testing::Ranks;
using testing::require;
using train::Consistency;
using train::ParameterServer;
using train::ServerReport;

constexpr int kWorkers = 4;
constexpr std::size_t kNumbers = 1'200'000;  // several messages to each server
constexpr float kOfVictim = 1000;            // what a push of a victim's last clock adds, where others' adds 1

// Who dies: in its clock `clock`, in push number `push` of that one.
struct Victim {
  int worker = 0;
  int clock = 0, push = 0;
};

struct Kills {
  Ranks kind;
  Consistency consistency;
  int servers = 1, clocks = 0;
  std::vector<Victim> victims = {};

  explicit Kills(unsigned seed) {
    std::mt19937 random(seed);
    const auto below = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
    kind = seed % 2 == 0 ? Ranks::processes : Ranks::tcp;
    consistency = static_cast<Consistency>(below(3));
    servers = 1 + below(2);
    clocks = 4 + below(4);
    const int first = below(kWorkers), second = (first + 1 + below(kWorkers - 1)) % kWorkers;
    victims.push_back({first, below(clocks), below(6)});
    if (below(2) == 0) victims.push_back({second, below(clocks), below(6)});
  }
  const Victim* victim(int worker) const {
    for (const Victim& it : victims)
      if (it.worker == worker) return &it;
    return nullptr;
  }
  int ranks() const { return servers + kWorkers; }
};

// Pushes without end; another thread ends the process as soon as it has come to the push that it is to die in.
[[noreturn]] void die_while_pushing(ParameterServer& server, int last) {
  std::atomic<int> begun{0};
  std::thread([&] {
    for (int now = begun; now <= last; now = begun) begun.wait(now);
    ::raise(SIGKILL);
  }).detach();
  const std::vector<float> gradient(kNumbers, -kOfVictim);
  for (;;) {
    ++begun;
    begun.notify_one();
    server.push(0, gradient);
  }
}

void work(const Kills& kills, int worker, ParameterServer& server) {
  const std::vector<float> gradient(kNumbers, -1.0F);
  std::vector<float> values(kNumbers);
  const Victim* const victim = kills.victim(worker);
  for (int clock = 0; clock < kills.clocks; ++clock) {
    if (victim != nullptr && victim->clock == clock) die_while_pushing(server, victim->push);
    server.pull(0, values);
    server.push(0, gradient);
    server.clock();
  }
  server.finish();
}

void check_report(const Kills& kills, const ServerReport& report) {
  require(report.dropped.size() == kills.victims.size(), std::to_string(report.dropped.size()) + " dropped");
  for (const train::DroppedWorker& dropped : report.dropped) {
    const Victim* const victim = kills.victim(dropped.rank - kills.servers);
    require(victim != nullptr && dropped.clock == victim->clock && dropped.code == ErrorCode::peer_lost, dropped.why);
    require(contains(dropped.why, "worker rank " + std::to_string(dropped.rank) + " was dropped in clock " +
                                      std::to_string(victim->clock) + ": "),
            dropped.why);
  }
  for (int worker = 0; worker < kWorkers; ++worker) {
    const Victim* const victim = kills.victim(worker);
    require(report.clocks[static_cast<std::size_t>(worker)] == (victim != nullptr ? victim->clock : kills.clocks),
            "clocks of worker " + std::to_string(worker));
  }
}

// A clock of synchronous workers is one step of their mean, which is 1; a victim's last pushes are forgotten. Other
// pushes are steps of their own: all of the survivors', and of a victim's last ones each message that came whole.
void check_values(const Kills& kills, std::span<const float> values) {
  const bool synchronous = kills.consistency == Consistency::synchronous;
  float steps = static_cast<float>(kills.clocks);
  if (!synchronous) {
    steps = 0;
    for (int worker = 0; worker < kWorkers; ++worker)
      steps += static_cast<float>(kills.victim(worker) != nullptr ? kills.victim(worker)->clock : kills.clocks);
  }
  const std::size_t most = kills.victims.size();  // pushes that were under way when their worker died
  float before = INFINITY, first = 0, last = 0;
  for (const float value : values) {
    const float of_victims = std::round((value - steps) / kOfVictim);
    require(std::abs(value - steps - of_victims * kOfVictim) < 0.01F, "a value of " + std::to_string(value));
    require(!synchronous || of_victims == 0, "a push of a clock that never ended");
    require(of_victims <= before, "messages of a push come in their order");
    if (before == INFINITY) first = of_victims;
    last = before = of_victims;
  }
  require(first - last <= static_cast<float>(most), "pushes that ended are whole");
}

void serve_or_work(const Kills& kills, Communicator& comm) {
  std::vector<int> servers(static_cast<std::size_t>(kills.servers));
  for (int i = 0; i < kills.servers; ++i) servers[static_cast<std::size_t>(i)] = i;
  // A push is divided by the workers where it is a step of its own.
  const double rate = kills.consistency == Consistency::synchronous ? 1 : kWorkers;
  ParameterServer server(comm, {{.name = "w", .shape = {kNumbers}}}, train::Sgd{.learning_rate = rate},
                         {.servers = servers, .consistency = kills.consistency, .bound = 1});
  if (!server.serves()) return work(kills, comm.rank() - kills.servers, server);
  check_report(kills, server.serve());
  check_values(kills, server.held(0));
}

class ParameterServerKills : public ::testing::TestWithParam<unsigned> {};
TEST_P(ParameterServerKills, LeaveTheOthersAtWork) {
  const Kills kills(GetParam());
  const auto ends =
      testing::run_ranks(kills.kind, kills.ranks(), [&](Communicator& comm) { serve_or_work(kills, comm); });
  for (int rank = 0; rank < kills.ranks(); ++rank) {
    const RankEnd& end = ends[static_cast<std::size_t>(rank)];
    if (rank >= kills.servers && kills.victim(rank - kills.servers) != nullptr)
      EXPECT_EQ(end.signal, SIGKILL) << "rank " << rank << ": " << end.message;
    else
      EXPECT_TRUE(end.ok()) << "rank " << rank << ": " << end.message;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, ParameterServerKills, ::testing::Range(0U, 16U));

}  // namespace
}  // namespace tutti
