// Parameter servers that lose somebody: who waits in clock(), who stalls, and servers that fail without dying.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "check.h"
#include "train/ones.h"
#include "train/served_progress.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using testing::contains;
using testing::error_of;
using testing::on_ranks;
using testing::Progress;
using testing::Ranks;
using testing::require;
using train::Consistency;
using train::ParameterServer;
using train::ServerOptions;
using train::ServerReport;

constexpr milliseconds kPatience{1500};

// Pulls now and then, for so long.
void keep_talking(Progress& progress, milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    progress.pull();
    std::this_thread::sleep_for(milliseconds(20));
  }
}

TEST(ParameterServerLosses, AWorkerThatWaitsHearsOfTheServerThoughAnotherOneKeepsItBusy) {
  for (const Consistency consistency : {Consistency::synchronous, Consistency::stale}) {
    on_ranks(3, [&](Communicator& comm) {
      Progress progress(comm, {.consistency = consistency, .bound = 0, .patience = kPatience});
      if (progress.server.serves()) {
        const ServerReport report = progress.server.serve();
        require(report.dropped.empty(), report.dropped.empty() ? "" : report.dropped[0].why);
        return;
      }
      if (comm.rank() == 2) keep_talking(progress, 2 * kPatience);
      progress.push(comm.rank() - 1);
      progress.server.clock();
      progress.server.finish();
    });
  }
}

// The process of rank 2 ends when rank 1 says so, which is when it waits in clock() for rank 1.
TEST(ParameterServerLosses, AWorkerThatDiesWaitingIsNamedAndItsClockCounts) {
  for (const Consistency consistency : {Consistency::synchronous, Consistency::stale}) {
    const auto ends = testing::run_ranks(Ranks::processes, 3, [&](Communicator& comm) {
      Progress progress(comm, {.consistency = consistency, .bound = 0, .patience = kPatience});
      if (progress.server.serves()) {
        const ServerReport report = progress.server.serve();
        require(report.clocks == std::vector<std::int64_t>{4, 1}, "clocks");
        require(report.dropped.size() == 1, std::to_string(report.dropped.size()) + " dropped");
        require(report.dropped[0].rank == 2 && report.dropped[0].clock == 1 &&
                    report.dropped[0].code == ErrorCode::peer_lost,
                report.dropped[0].why);
        require(progress.server.held(0)[1] == 1, "what it has pushed counts");
        return;
      }
      int token = 1;
      progress.push(comm.rank() - 1);
      if (comm.rank() == 2) {
        std::thread([&] {
          comm.recv(one(token), 1);
          ::raise(SIGKILL);
        }).detach();
        for (;;) progress.server.clock();
      }
      keep_talking(progress, kPatience / 3);
      comm.send(one(token), 2);
      keep_talking(progress, kPatience);
      for (int clock = 0; clock < 4; ++clock) progress.server.clock();
      require(progress.server.present() == 1, "it is not counted");
      progress.server.finish();
    });
    EXPECT_EQ(ends[2].signal, SIGKILL) << ends[2].message;
    for (const std::size_t rank : {0u, 1u}) EXPECT_TRUE(ends[rank].ok()) << rank << ": " << ends[rank].message;
  }
}

TEST(ParameterServerLosses, AWorkerThatStallsIsDroppedByEveryServer) {
  on_ranks(5, [](Communicator& comm) {
    Progress progress(comm, {.servers = {0, 1}, .patience = kPatience});
    int token = 1;
    if (progress.server.serves()) {
      const ServerReport report = progress.server.serve();
      require(report.clocks == std::vector<std::int64_t>{6, 3, 6}, "clocks");
      require(report.dropped.size() == 1 && report.dropped[0].rank == 3 && report.dropped[0].clock == 3,
              report.dropped.empty() ? "nobody was dropped" : report.dropped[0].why);
      // The other server may have been the first to give it up.
      require(report.dropped[0].code != ErrorCode::peer_lost, report.dropped[0].why);
      if (comm.rank() == 0) comm.send(one(token), 3);
      return;
    }
    for (int clock = 0; clock < 6; ++clock) {
      progress.push(comm.rank() - 2);
      if (comm.rank() == 3 && clock == 3) {
        comm.recv(one(token), 0);
        const Error error = error_of([&] { progress.server.clock(); });
        require(error.peer() == 0 || error.peer() == 1, error.what());
        return;
      }
      progress.server.clock();
    }
    progress.server.finish();
  });
}

// ---- Servers.

// As behind an exception of its program: its parameter server goes, and nobody dies.
TEST(ParameterServerLosses, AServerThatFailsWithoutDyingIsNamedByAll) {
  for (const Ranks kind : {Ranks::threads, Ranks::processes, Ranks::tcp}) {
    testing::expect_all_ok(testing::run_ranks(kind, 5, [](Communicator& comm) {
      Communicator telling = comm.duplicate();
      int token = 1;
      Progress progress(comm, {.servers = {0, 1}});
      if (comm.rank() == 0) {
        for (int worker = 2; worker < 5; ++worker) telling.recv(one(token), worker);
        return;
      }
      const Error error = error_of([&] {
        if (progress.server.serves()) progress.server.serve();
        telling.send(one(token), 0);
        for (;;) {
          progress.push(comm.rank() - 2);
          progress.server.clock();
        }
      });
      require(error.peer() == 0 && contains(error.what(), "server rank 0"), error.what());
      if (comm.rank() != 1) return;
      require(error.code() == ErrorCode::peer_failed, error.what());
      require(contains(error.what(), "server rank 0 has failed, and the parameters that it held"), error.what());
    }));
  }
}

// Server 0 begins late, so that worker 2, which server 1 tells to wait, gives up on it. Worker 3 only talks to
// server 1 meanwhile.
TEST(ParameterServerLosses, AWorkerThatComplainsOfAServerIsDroppedAndTheOthersGoOn) {
  on_ranks(4, [](Communicator& comm) {
    Communicator telling = comm.duplicate();
    ParameterServer server(comm, {{.name = "on 0", .shape = {4}}, {.name = "on 1", .shape = {4}}},
                           train::Sgd{.learning_rate = 1}, {.servers = {0, 1}, .patience = kPatience});
    int token = 1;
    std::vector<float> four(4, 1.0F);
    if (server.serves()) {
      if (comm.rank() == 0) telling.recv(one(token), 2);
      const ServerReport report = server.serve();
      require(report.dropped.size() == 1 && report.dropped[0].rank == 2,
              report.dropped.empty() ? "nobody was dropped" : report.dropped[0].why);
      require(report.clocks[1] == 2, "clocks");
      return;
    }
    if (comm.rank() == 2) {
      const Error error = error_of([&] { server.clock(); });
      require(error.code() == ErrorCode::timeout && error.peer() == 0, error.what());
      telling.send(one(token), 0);
      telling.send(one(token), 3);
      return;
    }
    while (!telling.iprobe(2, 0, DType::int32)) {
      server.pull(1, four);
      std::this_thread::sleep_for(milliseconds(20));
    }
    for (int clock = 0; clock < 2; ++clock) {
      server.push(0, four);
      server.push(1, four);
      server.clock();
    }
    server.finish();
  });
}

}  // namespace
}  // namespace tutti
