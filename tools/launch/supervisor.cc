#include "tools/launch/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/system_error.h"

namespace tutti::tools {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAfterTerminate{2000};
constexpr milliseconds kAfterKill{5000};
constexpr milliseconds kExplainedWithin{100};

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string prefix_of(int rank, bool coloured) {
  if (!coloured) return fmt::format("[{}] ", rank);
  return fmt::format("\x1b[{}m[{}]\x1b[0m ", 31 + rank % 6, rank);  // six colours that show on light and dark
}

// Asks for the end of the job, by custom.
bool is_interruption(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace

// A descriptor to wait for, and what to do when it is ready.
struct Supervisor::Watch {
  int descriptor;
  short events;
  std::function<void()> act;
};

Supervisor::Supervisor(LaunchPlan plan, rendezvous::LobbyServer* lobby)
    : plan_(std::move(plan)),
      lobby_(lobby),
      output_(STDOUT_FILENO),
      errors_(STDERR_FILENO),
      crew_(signals_),
      ended_by_launcher_(plan_.environments.size(), false) {}

Outcome Supervisor::run() {
  start_ranks();
  while (!done()) wait();
  Outcome outcome = outcome_of_ranks();
  std::vector<std::string> lost = losses();
  if (!lost.empty() && outcome.exit_code == 0) outcome.exit_code = 1;
  outcome.sentences.insert(outcome.sentences.begin(), lost.begin(), lost.end());
  return outcome;
}

Outcome Supervisor::outcome_of_ranks() const {
  for (const Member& member : crew_.members()) {
    if (member.ending) continue;
    return {128 + SIGKILL,
            {fmt::format("rank {} (pid {}, host {}) does not end even after SIGKILL: the kernel holds it, "
                         "often for a file system or a device that does not answer",
                         member.rank, member.pid, host_name())}};
  }
  if (first_failure_) return {crew_.members()[*first_failure_].ending->shell_code(), {sentence()}};
  if (left_behind_) return {0, {"all ranks finished, but left processes behind, which were ended"}};
  return {};
}

void Supervisor::start_ranks() {
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.valid()) throw_errno("cannot open /dev/null");
  if (plan_.ranks.front() == 0 && TerminalInput::is_needed()) typed_.emplace();
  for (std::size_t i = 0; i < plan_.environments.size(); ++i) start_rank(i, nothing.get());
  if (typed_) typed_->let_go_of_reading_end();
}

void Supervisor::start_rank(std::size_t index, int nothing) {
  const int rank = plan_.ranks[index];
  ProcessStart start;
  start.command = plan_.command;
  start.environment = plan_.environments[index];
  start.descriptor_limit = plan_.descriptor_limit;
  start.input = nothing;
  if (rank == 0) start.input = typed_ ? typed_->reading_end() : -1;
  if (!plan_.cores.empty()) start.processors = plan_.cores[index % plan_.cores.size()];
  if (!plan_.prefix) return crew_.start(rank, start);
  for (Outlet* outlet : {&output_, &errors_}) relays_.emplace_back(prefix_of(rank, outlet->shows_colours()), *outlet);
  Relay& output = relays_[relays_.size() - 2];
  Relay& errors = relays_.back();
  start.output = output.writing_end();
  start.errors = errors.writing_end();
  crew_.start(rank, start);
  output.let_go_of_writing_end();
  errors.let_go_of_writing_end();
}

bool Supervisor::done() const {
  if (!crew_.all_over()) return false;
  const bool relayed = std::none_of(relays_.begin(), relays_.end(), [](const Relay& relay) { return relay.open(); });
  return given_up_ || (relayed && !output_.pending() && !errors_.pending());
}

void Supervisor::wait() {
  std::vector<Watch> watched = watches();
  std::vector<pollfd> polled;
  for (const Watch& watch : watched) polled.push_back({watch.descriptor, watch.events, 0});
  if (::poll(polled.data(), polled.size(), timeout_ms()) < 0 && errno != EINTR)
    throw_errno("cannot wait for the ranks");
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) watched[i].act();
  }
  wind_down();
  close_relays();
}

std::vector<Supervisor::Watch> Supervisor::watches() {
  std::vector<Watch> watched;
  watched.push_back({signals_.descriptor(), POLLIN, [this] { take_signals(); }});
  if (lobby_ != nullptr) watched.push_back({lobby_->descriptor(), POLLIN, [this] { lobby_->progress(); }});
  for (Outlet* outlet : {&output_, &errors_}) {
    if (outlet->pending()) watched.push_back({outlet->descriptor(), POLLOUT, [outlet] { outlet->write_some(); }});
  }
  for (Relay& relay : relays_) {
    if (relay.wants_to_read()) watched.push_back({relay.descriptor(), POLLIN, [&relay] { relay.read_some(); }});
  }
  if (typed_ && typed_->wants_to_read()) watched.push_back({STDIN_FILENO, POLLIN, [this] { typed_->read_some(); }});
  if (typed_ && typed_->wants_to_write()) {
    watched.push_back({typed_->writing_descriptor(), POLLOUT, [this] { typed_->write_some(); }});
  }
  return watched;
}

int Supervisor::timeout_ms() const {
  if (!next_stage_at_) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*next_stage_at_ - Clock::now());
  return static_cast<int>(std::max<milliseconds::rep>(0, left.count()));
}

void Supervisor::take_signals() {
  for (const int signal : signals_.take()) take_signal(signal);
}

void Supervisor::take_signal(int signal) {
  switch (signal) {
    case SIGCHLD: return note_ended();
    case SIGTSTP:  // Ctrl-Z: the ranks, in groups of their own, have not seen it
      crew_.signal_all(SIGSTOP);
      ::kill(::getpid(), SIGSTOP);
      return;  // SIGCONT comes next
    case SIGCONT:
      crew_.signal_all(SIGCONT);
      if (typed_) typed_->resume();
      return;
    default: break;
  }
  const bool to_end = signal == SIGINT || signal == SIGTERM;
  if (to_end) ++asked_to_end_;
  if (to_end && crew_.all_over()) given_up_ = true;
  if (asked_to_end_ >= 2) {
    if (to_end && signalled_.killed_by == 0) signalled_.killed_by = signal;
    enter(Stage::killed, kAfterKill);
    return;
  }
  if (is_interruption(signal) && !first_failure_ && signalled_.interrupted_by == 0) signalled_.interrupted_by = signal;
  crew_.signal_all(signal);
  signalled_.passed_on.push_back(signal);
}

void Supervisor::note_ended() {
  for (const std::size_t index : crew_.reap()) {
    const Member& member = crew_.members()[index];
    if (lobby_ != nullptr) lobby_->note_death(member.rank, words_of(*member.ending));
    ended_by_launcher_[index] = stage_ >= Stage::terminated;
    if (!member.ending->ok() && (!first_failure_ || explains_first_failure(member))) first_failure_ = index;
  }
}

// The kernel closes the connections of a rank that is killed a moment before it tells us: another may have seen it and
// exited meanwhile.
bool Supervisor::explains_first_failure(const Member& member) const {
  const Member& first = crew_.members()[*first_failure_];
  return member.ending->signal != 0 && first.ending->signal == 0 && signalled_.passed_on.empty() &&
         stage_ < Stage::terminated && member.ended - first.ended < kExplainedWithin;
}

void Supervisor::close_relays() {
  for (std::size_t i = 0; i < relays_.size(); ++i) {
    Relay& relay = relays_[i];
    if (relay.leads_to_nobody()) relay.drop();
    if (relay.open() && crew_.members()[i / 2].over) relay.finish();
  }
}

void Supervisor::wind_down() {
  if (stage_ == Stage::running) {
    if (first_failure_ || crew_.all_ended()) enter(Stage::grace, plan_.grace);
    return;
  }
  if (!next_stage_at_ || Clock::now() < *next_stage_at_) return;
  next_stage_at_.reset();
  if (stage_ == Stage::killed) {
    given_up_ = asked_to_end_ >= 2;  // even where somebody is slow to read what is left
    crew_.abandon();
  } else if (!crew_.all_over()) {
    left_behind_ = crew_.all_ended();
    stage_ == Stage::grace ? enter(Stage::terminated, kAfterTerminate) : enter(Stage::killed, kAfterKill);
  } else {
    const auto& told = signalled_.passed_on;  // SIGTERM ends the launcher though nobody reads what is left
    given_up_ = std::find(told.begin(), told.end(), SIGTERM) != told.end();
  }
}

void Supervisor::enter(Stage stage, milliseconds until_next) {
  stage_ = stage;
  next_stage_at_ = Clock::now() + until_next;
  if (stage == Stage::terminated) crew_.signal_all(SIGTERM);
  if (stage == Stage::killed) crew_.signal_all(SIGKILL);
}

std::string Supervisor::sentence() const {
  std::vector<RankEnd> ranks;
  for (const Member& member : crew_.members()) {
    ranks.push_back({member.rank, member.pid, member.started, member.ended, member.ending,
                     static_cast<bool>(ended_by_launcher_[ranks.size()])});
  }
  return last_sentence(ranks, *first_failure_, signalled_, host_name());
}

std::vector<std::string> Supervisor::losses() const {
  std::vector<std::string> sentences;
  for (const Outlet* outlet : {&output_, &errors_}) {
    const char* stream = outlet == &output_ ? "standard output" : "standard error";
    if (const int number = outlet->trouble(); number != 0) {
      sentences.push_back(
          fmt::format("cannot write to {}: {}; output of the ranks was lost", stream, std::strerror(number)));
    } else if (outlet->pending()) {
      sentences.push_back(fmt::format("nobody read {} in time; output of the ranks was lost", stream));
    }
  }
  return sentences;
}

}  // namespace tutti::tools
