// Parameter servers: the bits of data parallel, bytes by formula, bounds that hold, workers that die, stall or err.
#include "tutti/train/parameter_server.h"

#include <gtest/gtest.h>

#include <csignal>
#include <numeric>
#include <random>
#include <thread>

#include "check.h"
#include "train/one_process.h"
#include "train/ones.h"
#include "train/served_progress.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::on_ranks;
using testing::Progress;
using testing::Ranks;
using testing::require;
using train::Consistency;
using train::ParameterServer;
using train::ServedParameters;
using train::ServerOptions;
using train::ServerReport;

ServedParameters served(const testing::ToyModel& model) {
  ServedParameters parameters;
  for (std::size_t i = 0; i < model.parameters.size(); ++i)
    parameters.push_back({.name = model.parameters[i].name,
                          .shape = model.parameters[i].shape,
                          .values = reinterpret_cast<const float*>(model.memory[i].data())});
  return parameters;
}

// The last ranks are servers, so that workers have the ranks of the group that trains by data parallel.
std::vector<int> last_ranks(int servers, int ranks) {
  std::vector<int> list(static_cast<std::size_t>(servers));
  std::iota(list.begin(), list.end(), ranks - servers);
  return list;
}

void require_send_recv(const Counters& after, const Counters& before, const train::Sentence& sentence) {
  const train::Spoken said = spoken(sentence, Verb::send_recv);
  const auto calls = after[Verb::send_recv].calls - before[Verb::send_recv].calls;
  const auto bytes = after[Verb::send_recv].bytes - before[Verb::send_recv].bytes;
  require(calls == said.calls && bytes == said.bytes, "calls " + std::to_string(calls) + " of " +
                                                          std::to_string(said.calls) + ", bytes " +
                                                          std::to_string(bytes) + " of " + std::to_string(said.bytes));
}

// ---- Synchronous is data parallel.

constexpr int kSteps = 4;

void train_both(Communicator& comm, int servers, const train::Optimizer& optimizer) {
  const testing::ToyModel model;
  const int workers = comm.size() - servers;
  Communicator trainers = comm.split(comm.rank() < workers ? 0 : -1);
  ParameterServer server(comm, served(model), optimizer, {.servers = last_ranks(servers, comm.size())});
  if (server.serves()) {
    const ServerReport report = server.serve();
    require(report.dropped.empty() && report.most_ahead == 0, "all in the same clock");
    require(report.clocks == std::vector<std::int64_t>(static_cast<std::size_t>(workers), kSteps), "clocks");
    return;
  }
  train::Strategy strategy = train::data_parallel(trainers, model.parameters, optimizer);
  for (int step = 0; step < kSteps; ++step) {
    testing::train_step(strategy, model, comm.rank(), step);
    const Counters before = server.counters();
    std::vector<std::vector<float>> values(model.parameters.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i].resize(model.parameters[i].elements());
      server.pull(i, values[i]);
    }
    for (std::size_t i = values.size(); i-- > 0;) {
      const testing::Bytes gradient = testing::gradient_of(model.parameters[i], i, values[i].data(), comm.rank(), step);
      server.push(i, {reinterpret_cast<const float*>(gradient.data()), values[i].size()});
    }
    server.clock();
    require_send_recv(server.counters(), before, server.sentence());
  }
  const std::vector<testing::Bytes> expected = testing::values_of(strategy, model);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::vector<float> values(model.parameters[i].elements());
    server.pull(i, values);
    require(expected[i].empty() || std::memcmp(values.data(), expected[i].data(), expected[i].size()) == 0,
            "values of " + model.parameters[i].name);
  }
  server.finish();
}

TEST(ParameterServer, SynchronousIsDataParallelBitForBit) {
  for (const auto& [servers, ranks] : std::vector<std::pair<int, int>>{{1, 2}, {1, 4}, {2, 5}, {3, 8}}) {
    for (const train::Optimizer& optimizer :
         std::initializer_list<train::Optimizer>{train::AdamW{}, train::Sgd{.momentum = 0.9}, train::Lion{}})
      on_ranks(ranks, [&](Communicator& comm) { train_both(comm, servers, optimizer); });
  }
}

TEST(ParameterServer, IsSoBetweenProcessesAndOverTcp) {
  for (const Ranks kind : {Ranks::processes, Ranks::tcp, Ranks::mixed})
    testing::expect_all_ok(
        testing::run_ranks(kind, 6, [](Communicator& comm) { train_both(comm, 2, train::AdamW{}); }));
}

// ---- Rows of tables.

constexpr std::size_t kRows = 40, kWidth = 7;

std::vector<float> first_table() {
  std::vector<float> table(kRows * kWidth);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = testing::noise(5, 7, i);
  return table;
}

// Some rows, one of them twice, in no order.
std::vector<std::int64_t> rows_of(int worker, int step) {
  std::vector<std::int64_t> rows;
  for (int i = 0; i < 9; ++i) rows.push_back((worker * 7 + step * 3 + i * i * 5) % static_cast<int>(kRows));
  rows.push_back(rows[2]);
  return rows;
}

TEST(ParameterServer, RowsThatArePushedAreThoseOfADenseGradientWithZeros) {
  for (const int servers : {1, 2, 3}) {
    on_ranks(3 + servers, [&](Communicator& comm) {
      const std::vector<float> table = first_table();
      const train::Optimizer plain = train::Sgd{.learning_rate = 0.1};
      Communicator trainers = comm.split(comm.rank() < 3 ? 0 : -1);
      ParameterServer server(comm, {{.name = "e", .shape = {kRows, kWidth}, .table = true, .values = table.data()}},
                             plain, {.servers = last_ranks(servers, comm.size())});
      if (server.serves()) {
        server.serve();
        return;
      }
      train::Strategy dense =
          train::data_parallel(trainers, {{.name = "e", .shape = {kRows, kWidth}, .values = table.data()}}, plain);
      Counters before = server.counters();
      for (int step = 0; step < 5; ++step) {
        const std::vector<std::int64_t> rows = rows_of(comm.rank(), step);
        std::vector<float> gradient(rows.size() * kWidth);
        for (std::size_t i = 0; i < gradient.size(); ++i)
          gradient[i] = testing::noise(static_cast<std::uint32_t>(step), comm.rank(), i);
        dense.zero_gradients();
        for (std::size_t i = 0; i < rows.size(); ++i)
          for (std::size_t j = 0; j < kWidth; ++j)
            dense.gradient_as<float>(0)[static_cast<std::size_t>(rows[i]) * kWidth + j] += gradient[i * kWidth + j];
        dense.ready(0);
        dense.step();
        server.push_rows(0, rows, gradient);
        std::vector<float> some(rows.size() * kWidth);
        server.pull_rows(0, rows, some);
        server.clock();
        require_send_recv(server.counters(), before, server.sentence());
        before = server.counters();
        server.pull_rows(0, rows, some);
        for (std::size_t i = 0; i < rows.size(); ++i)
          require(std::memcmp(some.data() + i * kWidth,
                              dense.values_as<float>(0).data() + static_cast<std::size_t>(rows[i]) * kWidth,
                              kWidth * sizeof(float)) == 0,
                  "row " + std::to_string(rows[i]));
      }
      std::vector<float> all(kRows * kWidth);
      server.pull(0, all);
      require(std::memcmp(all.data(), dense.values_as<float>(0).data(), all.size() * sizeof(float)) == 0, "all rows");
      server.finish();
    });
  }
}

TEST(ParameterServer, ManyRowsTravelInSeveralMessages) {
  on_ranks(2, [](Communicator& comm) {
    constexpr std::size_t kMany = 5000, kWide = 256;
    ParameterServer server(comm, {{.name = "e", .shape = {kMany, kWide}, .table = true}},
                           train::Sgd{.learning_rate = 1}, {.consistency = Consistency::asynchronous});
    if (server.serves()) {
      require(server.serve().steps == 4, "four pushes");
      require(server.held(0)[4999 * kWide] == -4 * 4999, "held");
      return;
    }
    std::vector<float> gradient(kMany * kWide);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i / kWide);
    const Counters before = server.counters();
    server.push(server.key("e"), gradient);
    std::vector<float> values(gradient.size());
    server.pull(0, values);
    for (std::size_t i = 0; i < values.size(); ++i) require(values[i] == -gradient[i], "element " + std::to_string(i));
    server.clock();
    require(spoken(server.sentence(), Verb::send_recv).calls == 2 * (2 + 5) + 2, "five messages each way");
    require_send_recv(server.counters(), before, server.sentence());
    const std::size_t phrases = server.sentence().size();
    const Counters many = server.counters();
    for (int i = 0; i < 3; ++i) {  // are counted, so that no clock is too long for that
      server.push(0, gradient);
      server.pull(0, values);
    }
    server.clock();
    require(server.sentence().size() == phrases, std::to_string(server.sentence().size()) + " phrases");
    require_send_recv(server.counters(), many, server.sentence());
    server.finish();
  });
}

TEST(ParameterServer, ATableIsUpdatedByAdamWhereItIsPushedAlone) {
  on_ranks(2, [](Communicator& comm) {
    const std::vector<float> table = first_table();
    ParameterServer server(comm, {{.name = "e", .shape = {kRows, kWidth}, .table = true, .values = table.data()}},
                           train::Adam{.learning_rate = 0.1}, {});
    if (server.serves()) {
      server.serve();
      return;
    }
    const std::vector<std::int64_t> rows{3, 17, 18};
    const std::vector<float> gradient(rows.size() * kWidth, 0.5F);
    std::vector<float> expected = table, m(table.size()), v(table.size());
    for (int step = 1; step <= 3; ++step) {
      server.push_rows(0, rows, gradient);
      server.clock();
      for (const std::int64_t row : rows) {
        const std::size_t at = static_cast<std::size_t>(row) * kWidth;
        train::update(train::Adam{.learning_rate = 0.1}, step,
                      {.count = kWidth,
                       .master = expected.data() + at,
                       .gradient = gradient.data(),
                       .states = {m.data() + at, v.data() + at}});
      }
    }
    std::vector<float> values(table.size());
    server.pull(0, values);
    require(values == expected, "rows 3, 17 and 18 alone");
    server.finish();
  });
}

// ---- Clocks.

void run_with_delays(Communicator& comm, Communicator& workers, const ServerOptions& options, int clocks) {
  Progress progress(comm, options);
  if (progress.server.serves()) {
    const ServerReport report = progress.server.serve();
    require(report.dropped.empty() && report.most_ahead <= options.bound,
            "ahead by " + std::to_string(report.most_ahead));
    return;
  }
  const int worker = comm.rank() - static_cast<int>(options.servers.size());
  std::mt19937 random(static_cast<unsigned>(worker));
  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    for (const float pushed : progress.pull())
      require(static_cast<std::int64_t>(pushed) >= clock - options.bound,
              "clock " + std::to_string(clock) + " lacks more than the bound: " + std::to_string(pushed));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (random() % 8 == 0 ? 3000 : 300)));
    progress.push(worker);
    progress.server.clock();
  }
  // Who has finished is not waited for, so that all pull before anybody does.
  workers.barrier();
  progress.server.finish();
}

TEST(ParameterServer, WhatIsReadNeverLacksMoreThanTheBound) {
  for (const std::int64_t bound : {0, 1, 3}) {
    for (const std::vector<int>& servers : {std::vector{0}, std::vector{0, 1}}) {
      on_ranks(4 + static_cast<int>(servers.size()), [&](Communicator& comm) {
        const ServerOptions options{.servers = servers, .consistency = Consistency::stale, .bound = bound};
        Communicator workers = comm.split(comm.rank() < static_cast<int>(servers.size()) ? 0 : 1);
        run_with_delays(comm, workers, options, 40);
      });
    }
  }
}

// The slow worker does nothing until the quick one has told it: which it can only after so many clocks.
void run_ahead(Communicator& comm, const ServerOptions& options, int clocks, std::int64_t ahead) {
  Progress progress(comm, options);
  if (progress.server.serves()) {
    const ServerReport report = progress.server.serve();
    require(report.most_ahead == ahead, "ahead by " + std::to_string(report.most_ahead));
    return;
  }
  int token = 1;
  if (comm.rank() == 2) comm.recv(one(token), 1);
  for (int clock = 0; clock < clocks; ++clock) {
    progress.push(comm.rank() - 1);
    progress.server.clock();
    if (comm.rank() == 1 && clock + 1 == ahead) comm.send(one(token), 2);
  }
  progress.server.finish();
}

TEST(ParameterServer, AWorkerGoesAheadByTheBoundAndNoFurther) {
  on_ranks(3, [](Communicator& comm) { run_ahead(comm, {.consistency = Consistency::stale, .bound = 3}, 9, 3); });
}

TEST(ParameterServer, AsynchronousWorkersWaitForNobody) {
  on_ranks(3, [](Communicator& comm) { run_ahead(comm, {.consistency = Consistency::asynchronous}, 200, 200); });
}

TEST(ParameterServer, AWorkerThatHasFinishedIsNotWaitedFor) {
  on_ranks(4, [](Communicator& comm) {
    Progress progress(comm, {});
    if (progress.server.serves()) {
      require(progress.server.serve().clocks == std::vector<std::int64_t>{1, 2, 3}, "clocks");
      return;
    }
    for (int clock = 0; clock < comm.rank(); ++clock) {
      progress.push(comm.rank() - 1);
      progress.server.clock();
    }
    if (comm.rank() == 3) require(progress.server.present() == 1, "the others have finished");
    progress.server.finish();
  });
}

// ---- Workers that are dropped.

// Worker 2 does `part` in clock 3 and is heard of no more; the others end all ten.
std::vector<RankEnd> lose_worker(Ranks kind, const ServerOptions& options, ErrorCode code,
                                 const std::function<void(Communicator&, Progress&)>& part) {
  return testing::run_ranks(kind, 4, [&](Communicator& comm) {
    Progress progress(comm, options);
    if (progress.server.serves()) {
      const ServerReport report = progress.server.serve();
      require(report.clocks == std::vector<std::int64_t>{10, 3, 10}, "clocks");
      require(report.dropped.size() == 1 && report.dropped[0].rank == 2 && report.dropped[0].clock == 3 &&
                  report.dropped[0].code == code,
              report.dropped.empty() ? "nobody was dropped" : report.dropped[0].why);
      require(contains(report.dropped[0].why, "worker rank 2 was dropped in clock 3: "), report.dropped[0].why);
      int token = 1;
      if (code == ErrorCode::timeout) comm.send(one(token), 2);
      return;
    }
    for (int clock = 0; clock < 10; ++clock) {
      progress.push(comm.rank() - 1);
      if (comm.rank() == 2 && clock == 3) return part(comm, progress);
      progress.server.clock();
    }
    // Those who wait for nobody may be through before it is missed; the other one may have finished.
    require(options.consistency == Consistency::asynchronous || progress.server.present() <= 2, "it is not counted");
    progress.server.finish();
  });
}

constexpr Consistency kConsistencies[] = {Consistency::synchronous, Consistency::stale, Consistency::asynchronous};

TEST(ParameterServerWorkers, ThatDieAreNamedAndTheOthersGoOn) {
  for (const Ranks kind : {Ranks::processes, Ranks::tcp}) {
    for (const Consistency consistency : kConsistencies) {
      const auto ends = lose_worker(kind, {.consistency = consistency, .bound = 2}, ErrorCode::peer_lost,
                                    [](Communicator&, Progress&) { ::raise(SIGKILL); });
      EXPECT_EQ(ends[2].signal, SIGKILL);
      for (const std::size_t rank : {0u, 1u, 3u}) EXPECT_TRUE(ends[rank].ok()) << rank << ": " << ends[rank].message;
    }
  }
}

TEST(ParameterServerWorkers, ThatLeaveAreNamedAndTheOthersGoOn) {
  testing::expect_all_ok(lose_worker(Ranks::threads, {}, ErrorCode::peer_lost, [](Communicator&, Progress&) {}));
}

// It does not die, and waits for what only comes behind the end of all others.
TEST(ParameterServerWorkers, ThatStallAreNamedAndTheOthersGoOn) {
  for (const Consistency consistency : kConsistencies) {
    const ServerOptions options{.consistency = consistency, .patience = std::chrono::milliseconds(1500)};
    testing::expect_all_ok(
        lose_worker(Ranks::threads, options, ErrorCode::timeout, [](Communicator& comm, Progress& progress) {
          int token = 0;
          comm.recv(one(token), 0);
          const Error error = error_of([&] { progress.server.clock(); });
          require(contains(error.what(), "worker rank 2, the end in clock 3: "), error.what());
          require(error.code() != ErrorCode::timeout && error.peer() == 0, error.what());
        }));
  }
}

// ---- Mistakes.

TEST(ParameterServerMistakes, OfWorkersAreRefusedAndHarmNothing) {
  on_ranks(2, [](Communicator& comm) {
    ParameterServer server(comm,
                           {{.name = "bias", .shape = {3}}, {.name = "embedding", .shape = {10, 4}, .table = true}},
                           train::Sgd{.learning_rate = 1});
    if (server.serves()) {
      const Error error = error_of([&] { server.clock(); });
      require(contains(error.what(), "clock is a worker's call, and this rank is a server; let it call serve()"),
              error.what());
      require(server.serve().dropped.empty(), "nobody was dropped");
      return;
    }
    std::vector<float> four(4, 1.0F), three(3, 1.0F);
    const auto refused = [&](const std::function<void()>& call, const std::string& part) {
      const Error error = error_of(call);
      require(error.code() == ErrorCode::invalid_argument && contains(error.what(), part), error.what());
    };
    refused([&] { static_cast<void>(server.key("embeding")); },
            "a key that no server owns: no key 'embeding'; did you mean embedding?");
    refused([&] { server.push(2, three); }, "no server owns key 2; there are 2, from 0 on");
    refused([&] { server.push(0, four); },
            "worker rank 1, push of \"bias\": 4 numbers, and 3 belong there; give the shape that servers hold");
    const std::vector<std::int64_t> row{10}, good{9};
    refused([&] { server.push_rows(1, row, four); },
            "worker rank 1, push of \"embedding\": no server owns row 10; there are 10");
    refused([&] { server.pull_rows(1, good, three); }, "3 numbers, and 4 belong there, rows of 4");
    refused([&] { server.push_rows(0, good, std::span(three).first(3)); }, "push of \"bias\": it is no table");
    refused([&] { server.serve(); }, "serve is a server's call, and this rank is a worker");
    server.push(0, three);
    server.push_rows(1, good, four);
    server.clock();
    server.pull(0, three);
    require(three == std::vector<float>(3, -1.0F), "the step was made");
    server.finish();
    refused([&] { server.push(0, three); }, "push: this worker has finished");
  });
}

TEST(ParameterServerMistakes, OfSettingsAreRefusedOnAllRanks) {
  on_ranks(3, [](Communicator& comm) {
    const train::Optimizer plain = train::Sgd{};
    const auto refused = [&](const ServedParameters& parameters, const ServerOptions& options, const std::string& part,
                             const train::Optimizer& optimizer) {
      const Error error = error_of([&] { ParameterServer(comm, parameters, optimizer, options); });
      require(contains(error.what(), part), error.what());
    };
    const ServedParameters one{{.name = "w", .shape = {4}}};
    refused({{.name = "w", .shape = {comm.rank() == 2 ? 5 : 4}}}, {},
            "rank 2 has parameter \"w\" [5] where rank 0 has parameter \"w\" [4]; make the same parameter server",
            plain);
    refused(one, {.consistency = Consistency::stale, .bound = comm.rank()}, "rank 1 has the settings servers 0, stale",
            plain);
    refused(one, {}, "rank 1 has the settings servers 0, synchronous, optimizer Sgd, learning_rate 0.2",
            train::Sgd{.learning_rate = comm.rank() == 1 ? 0.2 : 0.1});
    refused(one, {.servers = {}}, "no servers; name one rank at least", plain);
    refused(one, {.servers = {0, 3}}, "server rank 3 is not a rank of the communicator, which has 3", plain);
    refused(one, {.servers = {1, 1}}, "server rank 1 is listed twice", plain);
    refused(one, {.servers = {0, 1, 2}}, "all 3 ranks are servers; leave one at least that works", plain);
    refused(one, {.consistency = Consistency::stale, .bound = -1}, "a bound of -1 clocks", plain);
    refused({{.name = "w", .shape = {}, .table = true}}, {}, "has no rows", plain);
    refused({{.name = "w"}, {.name = "w"}}, {}, "two parameters are named \"w\"", plain);
    refused(one, {}, "states of 8 bits", train::AdamW{.state = train::StateType::eight_bits});
    refused(one, {}, "learning rate", train::Sgd{.learning_rate = -1});
  });
}

TEST(ParameterServerMistakes, AServerThatDiesIsNamedByAll) {
  const auto ends = testing::run_ranks(Ranks::processes, 5, [](Communicator& comm) {
    Progress progress(comm, {.servers = {0, 1}});
    if (comm.rank() == 1) {
      std::thread([&] {
        int token = 0;
        comm.recv(one(token), 2);
        ::raise(SIGKILL);
      }).detach();
    }
    const Error error = error_of([&] {
      if (progress.server.serves()) progress.server.serve();
      for (int clock = 0;; ++clock) {
        if (comm.rank() == 2 && clock == 5) comm.send(one(clock), 1);
        progress.push(comm.rank() - 2);
        progress.server.clock();
      }
    });
    require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
    require(contains(error.what(), "server rank 1 is gone, and the parameters that it held"), error.what());
  });
  EXPECT_EQ(ends[1].signal, SIGKILL);
  for (const std::size_t rank : {0u, 2u, 3u, 4u}) EXPECT_TRUE(ends[rank].ok()) << rank << ": " << ends[rank].message;
}

}  // namespace
}  // namespace tutti
