// Runs the ranks of this host from start to end: one thread, one poll for signals, output, input, lobby and deadlines.
//
// When a rank fails, the others have a time of grace to notice and to say so themselves; then they get SIGTERM and, a
// little later, SIGKILL. The same happens to what ranks leave behind when all of them have ended.
#pragma once

#include <sched.h>

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/lobby_server.h"
#include "tools/launch/crew.h"
#include "tools/launch/outlet.h"
#include "tools/launch/relay.h"
#include "tools/launch/signals.h"
#include "tools/launch/terminal_input.h"

namespace tutti::tools {

struct LaunchPlan {
  std::vector<std::string> command;
  std::vector<int> ranks;                              // of this host
  std::vector<std::vector<std::string>> environments;  // as many
  std::vector<cpu_set_t> cores;                        // rank i of this host is pinned to the i-th; none: not pinned
  bool prefix = true;                                  // lines behind the rank, or the launcher's streams as they are
  std::chrono::milliseconds grace{2000};
  std::optional<unsigned long> descriptor_limit;  // of the ranks, where the launcher's own was changed
};

struct Outcome {
  int exit_code = 0;
  std::vector<std::string> sentences;  // what went wrong; none where nothing did
};

class Supervisor {
 public:
  // `lobby` may be null: another host keeps it.
  Supervisor(LaunchPlan plan, rendezvous::LobbyServer* lobby);
  // Throws CannotRun or Error; no rank is left then, either.
  Outcome run();

 private:
  enum class Stage : unsigned char { running, grace, terminated, killed };
  struct Watch;

  void start_ranks();
  void start_rank(std::size_t index, int nothing);
  bool done() const;
  void wait();
  std::vector<Watch> watches();
  int timeout_ms() const;
  void take_signals();
  void take_signal(int signal);
  void note_ended();
  bool explains_first_failure(const Member& member) const;
  void close_relays();
  void wind_down();
  void enter(Stage stage, std::chrono::milliseconds until_next);
  Outcome outcome_of_ranks() const;
  std::string sentence() const;
  std::vector<std::string> losses() const;

  LaunchPlan plan_;
  rendezvous::LobbyServer* lobby_;
  Signals signals_;
  Outlet output_;
  Outlet errors_;
  std::deque<Relay> relays_;  // two per rank: its output, its errors; none without prefix
  std::optional<TerminalInput> typed_;
  Crew crew_;
  Stage stage_ = Stage::running;
  std::optional<Clock::time_point> next_stage_at_;
  std::optional<std::size_t> first_failure_;  // in crew_.members()
  std::vector<bool> ended_by_launcher_;       // by member
  Signalled signalled_;
  int asked_to_end_ = 0;      // times
  bool left_behind_ = false;  // processes, by ranks that have ended
  bool given_up_ = false;     // on output that nobody reads
};

}  // namespace tutti::tools
