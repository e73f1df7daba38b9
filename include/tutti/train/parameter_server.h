// A parameter server: some ranks hold the values and update them, the others compute gradients, each at its own pace.
//
//   train::ServedParameters model{{.name = "bias", .shape = {1}},
//                                 {.name = "embedding", .shape = {1'000'000, 64}, .table = true}};
//   train::ParameterServer server(comm, model, train::Sgd{.learning_rate = 0.1},
//                                 {.servers = {0}, .consistency = train::Consistency::stale, .bound = 4});
//   if (server.serves()) {
//     server.serve();                                    // until all workers have finished
//   } else {
//     for (...) {
//       server.pull_rows(1, rows, values);               // of the rows that this batch has
//       ... gradients
//       server.push_rows(1, rows, gradients);
//       server.clock();                                  // waits where this worker is too far ahead
//     }
//     server.finish();
//   }
//
// What keeps workers together is the clock. A worker's clocks are numbered from 0, and clock() ends one:
//   synchronous   all work in the same clock. Its gradients are averaged over the workers, in canonical order, and make
//                 one step of the optimizer, before anybody begins the next: data parallel, bit for bit.
//   stale         a worker begins clock c once all have ended c - bound clocks. Each push is a step of its own when it
//                 comes, of its gradient over the number of workers. What is read lacks at most the last `bound` clocks
//                 of others.
//   asynchronous  nobody waits.
// A bound evens out chance; a worker that is always slow sets everybody's pace under any bound.
//
// Large parameters are cut over the servers, rows of tables are dealt out to them. Of a table only rows that were
// pushed are updated, their moments included. Everything is float32.
//
// Every worker has a communicator of its own with the servers. One that dies, leaves without finish(), or says nothing
// for ServerOptions::patience is dropped: what it has pushed since its last clock() is forgotten where clocks are
// synchronous, nobody waits for it any more, and ServerReport names it. The others go on. Servers do not agree on this:
// a worker that dies in clock() may have ended its clock at some of them and not at others, and what it has pushed
// counts at the former alone.
//
// A server that dies ends the training with Error(peer_lost) that names it, on all ranks; one that leaves before its
// workers have finished does so with Error(peer_failed) on servers, and on workers with either.
//
// Threads: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/optimizer.h"
#include "tutti/train/report.h"

namespace tutti::train {

class ServerWorker;
class ServerLoop;

struct ServedParameter {
  std::string name;  // no two alike
  std::vector<std::int64_t> shape = {};
  // Rows, those of the first dimension, may be pushed and pulled one by one.
  bool table = false;
  // Servers take what they hold from here; nullptr: zeros. Workers' is not looked at.
  const float* values = nullptr;
};
using ServedParameters = std::vector<ServedParameter>;

enum class Consistency : unsigned char { synchronous, stale, asynchronous };

struct ServerOptions {
  std::vector<int> servers = {0};                      // ranks; all others are workers. All ranks alike
  Consistency consistency = Consistency::synchronous;  // all ranks alike
  std::int64_t bound = 4;                              // of stale; all ranks alike
  // How long a worker may say nothing, and a server not answer; without it the communicator's timeout. All ranks alike.
  std::chrono::milliseconds patience{0};
};

// A worker that takes part no more, though it has not finished. code: peer_lost, it died or
// left; timeout, it said nothing; peer_failed, all else.
struct DroppedWorker {
  int rank = -1;           // in the communicator that the server was made of
  std::int64_t clock = 0;  // that it was in
  ErrorCode code = ErrorCode::peer_lost;
  std::string why;
};

// What a server has done.
struct ServerReport {
  std::vector<std::int64_t> clocks;    // by worker: those that it has ended
  std::vector<DroppedWorker> dropped;  // in the order of their end
  std::uint64_t steps = 0;             // of the optimizer, on parameters of which this server holds a part
  std::int64_t most_ahead = 0;         // clocks between the slowest and one that began a clock
};

class TUTTI_API ParameterServer {
 public:
  // Collective. Error(mismatch) on all ranks where one has other parameters or settings; it names the rank. A rank that
  // dies meanwhile ends it for all; workers return when the servers are ready to go on without them.
  ParameterServer(Communicator& communicator, ServedParameters parameters, const Optimizer& optimizer,
                  const ServerOptions& options = {});
  ParameterServer(ParameterServer&&) noexcept;
  ParameterServer& operator=(ParameterServer&&) noexcept;
  // A worker that has not finished is dropped; a server whose workers have not finished fails on all ranks.
  ~ParameterServer();

  bool serves() const { return serves_; }
  int workers() const { return workers_; }  // at the beginning
  // The number of a parameter. Error(invalid_argument) where no server owns one of that name; it tells which there are.
  std::size_t key(std::string_view name) const;

  // ---- Servers.

  // Answers workers until none is left, and the other servers have none either.
  ServerReport serve();
  // What this server holds of a parameter: a range of its elements, or of a table every servers-th row from its own
  // number on.
  std::span<const float> held(std::size_t key) const;

  // ---- Workers. Lengths must fit the shape; Error(invalid_argument) otherwise, which harms nothing.

  void push(std::size_t key, std::span<const float> gradient);
  void pull(std::size_t key, std::span<float> values);
  // Of a table: row i of `gradient` or `values` is that of rows[i]. Gradients of a row that is named twice add up.
  // Rows that ascend are pushed from where they lie, others are sorted first.
  void push_rows(std::size_t key, std::span<const std::int64_t> rows, std::span<const float> gradient);
  void pull_rows(std::size_t key, std::span<const std::int64_t> rows, std::span<float> values);
  // Ends this worker's clock and returns when the next one has begun.
  void clock();
  // Leaves; what was pushed since the last clock() is as if it had been dropped.
  void finish();

  std::int64_t clocks() const;  // that this worker has ended
  int present() const;          // workers that took part when the clock began
  // What this worker said in its last clock, by formula; and what it has really called.
  Sentence sentence() const;
  Counters counters() const;

 private:
  ServerWorker& worker(const char* call) const;
  // The key, where there is such a one.
  std::size_t owned(std::size_t key) const;

  bool serves_ = false;
  int workers_ = 0;
  std::vector<std::string> names_;
  std::unique_ptr<ServerLoop> loop_;      // of a server
  std::unique_ptr<ServerWorker> worker_;  // of a worker
};

}  // namespace tutti::train
