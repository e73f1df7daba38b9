#include "tools/launch/agents.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <sstream>

#include "base/file_descriptor.h"
#include "base/system_error.h"
#include "tools/launch/ending.h"
#include "tools/launch/job.h"
#include "tools/launch/process.h"
#include "tools/launch/signals.h"

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Tell = std::function<void(const std::string& sentence)>;

// `tutti run` on a host gives its ranks two seconds between SIGTERM and SIGKILL.
constexpr std::chrono::seconds kToEnd{5};

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? "'\\''" : std::string(1, letter);
  return text + "'";
}

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

// The agents of all hosts, each in a process group of its own.
class Agents {
 public:
  Agents(const AgentPlan& plan, const Tell& tell) : plan_(plan), tell_(tell) {}
  ~Agents() { kill_all(); }
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  int run();

 private:
  struct Agent {
    pid_t pid = -1;
    FileDescriptor words;  // what its shell reads; closed: it is to end
    bool running = true;
  };

  void start(std::size_t index);
  void take_signals();
  void note_ended();
  void fail(std::size_t index, const Ending& ending);
  void end_all();
  void kill_all();
  bool any_running() const {
    return std::ranges::any_of(agents_, [](const Agent& agent) { return agent.running; });
  }
  int timeout_ms() const;
  void look_at_time();

  const AgentPlan& plan_;
  const Tell& tell_;
  Signals signals_;
  std::vector<Agent> agents_;
  std::optional<int> first_failure_;
  std::optional<Clock::time_point> end_at_, kill_at_;
  bool asked_to_end_ = false;
};

void Agents::start(std::size_t index) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  ProcessStart started;
  started.command = plan_.agent;
  started.command.insert(started.command.end(), {plan_.hosts[index], "sh", "-s"});
  started.environment = entries_of(variables_of_process());
  started.input = reading.get();
  const pid_t pid = start_process(started, signals_);
  agents_.push_back({pid, std::move(writing), true});
  const std::string words = words_for_host(plan_, index);
  // A pipe holds more than that; an agent that is gone already tells why by its end.
  [[maybe_unused]] const ssize_t wrote = ::write(agents_.back().words.get(), words.data(), words.size());
}

int Agents::run() {
  for (std::size_t index = 0; index < plan_.hosts.size(); ++index) start(index);
  while (any_running()) {
    pollfd watched{signals_.descriptor(), POLLIN, 0};
    ::poll(&watched, 1, timeout_ms());
    take_signals();
    note_ended();
    look_at_time();
  }
  return first_failure_.value_or(0);
}

int Agents::timeout_ms() const {
  const auto& next = end_at_ ? end_at_ : kill_at_;
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
  return static_cast<int>(std::max<std::chrono::milliseconds::rep>(0, left.count()));
}

void Agents::look_at_time() {
  const auto now = Clock::now();
  if (end_at_ && now >= *end_at_) end_all();
  if (kill_at_ && now >= *kill_at_) kill_all();
}

void Agents::take_signals() {
  for (const int signal : signals_.take()) {
    const bool to_end = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    if (!to_end) continue;
    if (asked_to_end_) kill_all();
    asked_to_end_ = true;
    if (!first_failure_) first_failure_ = 128 + signal;
    end_all();
  }
}

void Agents::note_ended() {
  for (std::size_t index = 0; index < agents_.size(); ++index) {
    siginfo_t info{};
    Agent& agent = agents_[index];
    if (!agent.running) continue;
    if (::waitid(P_PID, static_cast<id_t>(agent.pid), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) continue;
    agent.running = false;
    agent.words.reset();
    if (const Ending ending = ending_of(info); !ending.ok()) fail(index, ending);
  }
}

void Agents::fail(std::size_t index, const Ending& ending) {
  if (first_failure_) return;
  first_failure_ = ending.shell_code();
  tell_(fmt::format("host {}: {} {}", plan_.hosts[index], plan_.agent.front(), words_of(ending)));
  end_at_ = Clock::now() + plan_.grace;
}

void Agents::end_all() {
  end_at_.reset();
  for (Agent& agent : agents_) agent.words.reset();
  if (!kill_at_) kill_at_ = Clock::now() + kToEnd;
}

void Agents::kill_all() {
  for (const Agent& agent : agents_) {
    if (agent.running) ::kill(-agent.pid, SIGKILL);
  }
  kill_at_.reset();
}

}  // namespace

std::vector<std::string> parts_of(const std::string& text, char between) {
  std::vector<std::string> parts;
  std::istringstream words(text);
  for (std::string part; std::getline(words, part, between);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// The job runs in the background, so that the shell can end it when there is nothing more to read. It reads nothing.
std::string words_for_host(const AgentPlan& plan, std::size_t index) {
  std::string words = "exec 3<&0\ntoken=$(mktemp) || exit 1\n";
  words += "echo " + plan.token + " >\"$token\"\n";
  for (const std::string& variable : plan.variables) words += "export " + quoted(variable) + "\n";
  words += "cd " + quoted(plan.folder) + " || { rm -f \"$token\"; exit 1; }\n";
  words += "tutti=" + quoted(plan.program) + "; [ -x \"$tutti\" ] || tutti=tutti\n";
  words += fmt::format("\"$tutti\" run --nnodes {} --node-rank {} --token-file \"$token\" {} -- {} 3<&- &\n",
                       plan.hosts.size(), index, quoted(plan.options), quoted(plan.command));
  words +=
      "job=$!\n"
      "{ cat <&3; kill \"$job\"; rm -f \"$token\"; } >/dev/null 2>&1 &\n"
      "guard=$!\n"
      "exec 3<&-\n"
      "wait \"$job\"\n"
      "code=$?\n"
      "kill \"$guard\" 2>/dev/null\n"
      "rm -f \"$token\"\n"
      "exit \"$code\"\n";
  return words;
}

int run_by_agents(const AgentPlan& plan, const Tell& tell) { return Agents(plan, tell).run(); }

}  // namespace tutti::tools
