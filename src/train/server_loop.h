// Behind train::ParameterServer, on a server: one loop that answers all workers, none of which can hold it up.
//
// Each worker has a session: a message that the server waits for, or sends, and what comes then. The loop sleeps until
// one of those has ended, in whichever communicator, and takes that session a step further.
//
// A worker that fails is dropped, and a server that fails ends it all, on every server: OtherServers knows which it
// was.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategy/server_clock.h"
#include "train/other_servers.h"
#include "train/served_values.h"
#include "train/server_wire.h"
#include "tutti/train/parameter_server.h"

namespace tutti::train {

class ServerLoop {
 public:
  // `hosts` by rank.
  ServerLoop(const ServerPlan& plan, std::size_t server, const ServedParameters& parameters, const Optimizer& optimizer,
             ServerGroups groups, std::span<const int> hosts);
  ~ServerLoop();
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;

  ServerReport run();
  std::span<const float> held(std::size_t key) const { return values_.held(key); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kInFlight = 2;  // messages of data
  // How long it may take until it is known whether a server that a worker's group names has failed.
  static constexpr std::chrono::milliseconds kUntilKnown{1000};

  // Another server has failed: no Error, which would be a worker's.
  struct EndOfAll {
    Error error;
  };
  struct Answer {
    ServerCommand words{};
    Work work;
  };
  struct WorkerSession {
    enum class Stage : unsigned char { listening, rows, receiving, sending, waiting, gone };

    std::size_t worker = 0;
    Communicator group;
    Stage stage = Stage::listening;
    ServerCommand command{};
    std::vector<std::int64_t> which = {};  // rows of a table
    // Data: rows that are under way or done, and done; where it lands, or nullptr for the buffers, in turn.
    std::size_t key = 0, rows = 0, started = 0, done = 0;
    std::int64_t step = 0;
    float* place = nullptr;
    std::array<std::vector<float>, kInFlight> buffers = {};
    std::deque<Work> works = {};  // in the order of messages
    std::deque<Answer> answers = {};
    Clock::time_point heard = {};  // when it waits: the last time that it heard of this server, or could have
  };
  using Stage = WorkerSession::Stage;

  bool is_push(const WorkerSession& session) const {
    return session.command[0] == static_cast<std::int64_t>(ServerWord::push);
  }
  std::size_t rows_of_next(const WorkerSession& session, std::size_t first) const;
  std::vector<float>& buffer_of(WorkerSession& session, std::size_t first) const;

  void serve_all();
  void await();
  // How long a worker that waits may be left without a word, from now on; nothing where it need not be told.
  std::optional<std::chrono::milliseconds> left_of(const WorkerSession& session) const;
  void listen(WorkerSession& session);
  void advance(WorkerSession& session);
  void obey(WorkerSession& session);
  void receive_rows(WorkerSession& session);
  void check_rows(const WorkerSession& session) const;
  void start_data(WorkerSession& session);
  void start_message(WorkerSession& session);
  void take_message(WorkerSession& session);
  void end_data(WorkerSession& session);
  void end_clock(WorkerSession& session);
  void leave(WorkerSession& session);
  void close(WorkerSession& session);
  // What the clock made of it: the step of a synchronous one, and who goes on.
  void let_go(const std::vector<std::size_t>& free, std::optional<std::int64_t> before);
  void answer(WorkerSession& session, ServerWord word);
  void look_at_answers(WorkerSession& session);
  void drop(WorkerSession& session, const Error& error);
  [[noreturn]] void end_with(const LostServer& lost);
  void hear_of_loss(int server);
  // Runs `part`; where it fails the worker is dropped.
  template <class Part>
  void with(WorkerSession& session, const Part& part) {
    try {
      part();
    } catch (const Error& error) {
      drop(session, error);
    }
  }

  ServerPlan plan_;
  int server_;
  bool synchronous_;
  double scale_;
  std::chrono::milliseconds patience_, told_every_;
  ServedValues values_;
  ClockGradients gradients_;
  strategy::ServerClock clock_;
  std::deque<WorkerSession> sessions_;  // by worker
  OtherServers others_;
  ServerReport report_;
};

}  // namespace tutti::train
