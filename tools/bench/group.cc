#include "tools/bench/group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/system_error.h"
#include "rendezvous/host.h"

namespace tutti::bench {
namespace {

constexpr std::chrono::milliseconds kKindness{1500};

FileDescriptor listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Error(ErrorCode::system,
                fmt::format("the path '{}' is too long for a socket; set TMPDIR to a shorter one", path));
  }
  path.copy(address.sun_path, path.size());
  FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid() || ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    throw_errno("cannot listen at " + path);
  }
  return listener;
}

void signal_process(const FileDescriptor& life, int signal) {
  if (life.valid()) ::syscall(SYS_pidfd_send_signal, life.get(), signal, nullptr, 0);
}

bool has_ended(const FileDescriptor& life) {
  pollfd entry{life.get(), POLLIN, 0};
  return !life.valid() || ::poll(&entry, 1, 0) > 0;
}

// The process at the other end, as the kernel knows it.
FileDescriptor life_of_peer(int socket) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.pid <= 0) return {};
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)));
}

}  // namespace

Group::Group(Session& session, std::string name, int ranks)
    : session_(session),
      name_(std::move(name)),
      size_(static_cast<std::size_t>(ranks)),
      folder_(session.folder() / session.fresh_name("g")) {
  std::filesystem::create_directory(folder_);
  listener_ = listen_at(socket_path());
  ranks_.resize(size_);
}

Group::~Group() { end(false); }

std::string Group::socket_path() const { return folder_ / "bench"; }

void Group::start(tools::ProcessStart start) {
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FileDescriptor log(::open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!nothing.valid() || !log.valid()) throw_errno("cannot open the log of " + name_);
  start.input = nothing.get();
  start.output = start.errors = log.get();
  try {
    const pid_t pid = tools::start_process(start, session_.signals());
    children_.push_back({pid, rendezvous::watch_process(pid)});
    session_.guard().watch(pid);
  } catch (const tools::CannotRun& refused) {
    drop(refused.what());
  }
}

void Group::await_hello(std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  while (greeted_ < size_) {
    std::vector<pollfd> descriptors{{listener_.get(), POLLIN, 0}};
    for (const Rank& rank : strangers_) descriptors.push_back({rank.socket.get(), POLLIN, 0});
    const std::size_t first_child = descriptors.size();
    for (const Child& child : children_) descriptors.push_back({child.life.get(), POLLIN, 0});
    if (!session_.wait(descriptors, deadline)) {
      drop(fmt::format("{} of its {} ranks had not started after {} s{}", size_ - greeted_, size_, limit.count() / 1000,
                       last_words()));
    }
    for (std::size_t i = 0; i < strangers_.size(); ++i) {
      if (descriptors[i + 1].revents != 0) read_from(strangers_[i]);
    }
    std::erase_if(strangers_, [&](Rank& rank) { return take_hello(rank); });
    if (descriptors[0].revents != 0) accept_one();
    if (greeted_ < size_) require_running(descriptors, first_child);
  }
}

void Group::accept_one() {
  FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) return;
  FileDescriptor life = life_of_peer(socket.get());
  strangers_.push_back({std::move(socket), std::move(life), {}});
}

void Group::read_from(Rank& rank) {
  char piece[1024];
  for (;;) {
    const ssize_t got = ::read(rank.socket.get(), piece, sizeof piece);
    if (got > 0) rank.inbox.append(piece, static_cast<std::size_t>(got));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0) continue;
    if (rank.inbox.find('\n') == std::string::npos) drop("a rank of it ended" + last_words());
    return;
  }
}

bool Group::take_line(Rank& rank, std::string& line) {
  const std::size_t end = rank.inbox.find('\n');
  if (end == std::string::npos) return false;
  line = rank.inbox.substr(0, end);
  rank.inbox.erase(0, end + 1);
  if (line.starts_with("failed ")) drop(line.substr(7));
  return true;
}

bool Group::take_hello(Rank& rank) {
  std::string line;
  if (!take_line(rank, line)) return false;
  std::istringstream words(line);
  std::string hello, about;
  std::size_t number = 0;
  if (!(words >> hello >> number) || hello != "hello" || number >= size_ || ranks_[number].socket.valid()) {
    drop(fmt::format("a rank of it said '{}' instead of hello and its number", line));
  }
  std::getline(words >> std::ws, about);
  if (number == 0) about_ = about;
  ranks_[number] = std::move(rank);
  ++greeted_;
  return true;
}

void Group::require_running(const std::vector<pollfd>& descriptors, std::size_t first_child) {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (descriptors[first_child + i].revents != 0) drop("it ended before its ranks had started" + last_words());
  }
}

std::vector<std::string> Group::ask(const std::string& line, std::chrono::milliseconds limit) {
  if (!alive()) throw Dropped(dropped_);
  const std::string text = line + "\n";
  for (const Rank& rank : ranks_) {
    if (::send(rank.socket.get(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
      drop("a rank of it ended" + last_words());
    }
  }
  const Clock::time_point deadline = Clock::now() + limit;
  std::vector<std::string> answers(size_);
  for (std::size_t answered = 0; answered < size_;) {
    std::vector<pollfd> descriptors;
    std::vector<std::size_t> waited_for;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!answers[i].empty()) continue;
      descriptors.push_back({ranks_[i].socket.get(), POLLIN, 0});
      waited_for.push_back(i);
    }
    if (!session_.wait(descriptors, deadline)) {
      drop(fmt::format("{} of its {} ranks did not answer for {} s{}", waited_for.size(), size_, limit.count() / 1000,
                       last_words()));
    }
    for (std::size_t i = 0; i < waited_for.size(); ++i) {
      if (descriptors[i].revents == 0) continue;
      Rank& rank = ranks_[waited_for[i]];
      read_from(rank);
      if (take_line(rank, answers[waited_for[i]])) ++answered;
    }
  }
  return answers;
}

void Group::give_up(const std::string& why) {
  if (!alive()) return;
  dropped_ = why;
  end(false);
}

void Group::drop(const std::string& why) {
  give_up(why);
  throw Dropped(why);
}

// The last lines that its ranks have printed.
std::string Group::last_words() const {
  std::ifstream file(folder_ / "log");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = lines.size() - std::min(kShown, lines.size()); i < lines.size(); ++i)
    text += "\n    " + lines[i];
  return text.empty() ? text : "; it printed:" + text;
}

bool Group::any_running() const {
  const auto runs = [](const auto& it) { return !has_ended(it.life); };
  return std::any_of(ranks_.begin(), ranks_.end(), runs) || std::any_of(children_.begin(), children_.end(), runs) ||
         std::any_of(strangers_.begin(), strangers_.end(), runs);
}

void Group::await_end(Clock::time_point deadline) {
  while (any_running() && Clock::now() < deadline) {
    std::vector<pollfd> descriptors;
    const auto add = [&](const auto& it) {
      if (!has_ended(it.life)) descriptors.push_back({it.life.get(), POLLIN, 0});
    };
    for (const Rank& rank : ranks_) add(rank);
    for (const Rank& rank : strangers_) add(rank);
    for (const Child& child : children_) add(child);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    ::poll(descriptors.data(), descriptors.size(), static_cast<int>(std::max(0L, left)));
  }
}

void Group::end(bool kindly) {
  listener_.reset();
  for (Rank& rank : ranks_) {
    if (kindly && rank.socket.valid()) ::send(rank.socket.get(), "end\n", 4, MSG_NOSIGNAL | MSG_DONTWAIT);
    rank.socket.reset();
  }
  if (kindly) await_end(Clock::now() + kKindness);
  // Launchers have put ranks into process groups of their own, so each is named; then what belongs to the launchers.
  for (const Rank& rank : ranks_) signal_process(rank.life, SIGKILL);
  for (const Rank& rank : strangers_) signal_process(rank.life, SIGKILL);
  for (const Child& child : children_) ::kill(-child.pid, SIGKILL);
  await_end(Clock::now() + std::chrono::seconds(10));
  for (const Child& child : children_) {
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    session_.guard().release(child.pid);
  }
  children_.clear();
  strangers_.clear();
  ranks_.clear();
  ranks_.resize(size_);
}

}  // namespace tutti::bench
