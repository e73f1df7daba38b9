#include "tools/launched.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tutti::testing {
namespace {

constexpr int kPatience_ms = 30'000;

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  }
};

void write_to(const std::string& file, int stream) {
  if (!file.empty()) ::dup2(::open(file.c_str(), O_WRONLY | O_CLOEXEC), stream);
}

[[noreturn]] void become_tutti(const std::vector<std::string>& arguments, const Launched::Setup& setup) {
  for (const auto& [name, value] : setup.environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (setup.most_descriptors != 0) {
    const rlimit limit{setup.most_descriptors, setup.most_descriptors};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  write_to(setup.output_file, STDOUT_FILENO);
  write_to(setup.errors_file, STDERR_FILENO);
  for (const int descriptor : setup.closed) ::close(descriptor);
  std::vector<char*> words{const_cast<char*>("tutti")};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execv(TUTTI_TOOL, words.data());
  ::_exit(125);
}

// Returns whether the descriptor may have more.
bool append_from(int fd, std::string& text) {
  std::array<char, 64 << 10> piece;
  const ssize_t got = ::read(fd, piece.data(), piece.size());
  if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
  return got > 0;
}

}  // namespace

Launched::Launched(const std::vector<std::string>& arguments, const Setup& setup) : on_terminal_(setup.on_terminal) {
  if (on_terminal_) {
    termios quiet{};
    ::cfmakeraw(&quiet);
    quiet.c_lflag |= ISIG | ICANON;  // Ctrl-C is a signal and input comes by lines, but nothing is echoed
    quiet.c_cc[VINTR] = 3;
    quiet.c_cc[VSUSP] = 26;
    quiet.c_cc[VEOF] = 4;
    pid_ = ::forkpty(&out_, nullptr, &quiet, nullptr);
    if (pid_ == 0) become_tutti(arguments, setup);
    return;
  }
  const Pipe in;
  const Pipe out;
  const Pipe err;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in.ends[0], STDIN_FILENO);
    ::dup2(out.ends[1], STDOUT_FILENO);
    ::dup2(err.ends[1], STDERR_FILENO);
    if (setup.close_output) ::close(out.ends[0]);
    become_tutti(arguments, setup);
  }
  for (const int end : {in.ends[0], out.ends[1], err.ends[1]}) ::close(end);
  if (::write(in.ends[1], setup.input.data(), setup.input.size()) < 0) std::abort();
  ::close(in.ends[1]);
  out_ = out.ends[0];
  err_ = err.ends[0];
  if (setup.close_output) {
    ::close(out_);
    out_ = -1;
  }
}

Launched::~Launched() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_, err_}) {
    if (fd >= 0) ::close(fd);
  }
}

void Launched::type(const std::string& text) const {
  if (::write(out_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
}

void Launched::signal(int number) const { ::kill(pid_, number); }

bool Launched::read_more() {
  pollfd polled[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  if (::poll(polled, 2, kPatience_ms) <= 0) return false;
  if (polled[0].revents != 0 && !append_from(out_, output_)) {
    ::close(out_);
    out_ = -1;
  }
  if (polled[1].revents != 0 && !append_from(err_, errors_)) {
    ::close(err_);
    err_ = -1;
  }
  return true;
}

bool Launched::shows(const std::string& text, int times) {
  while (count_of(output_, text) < times) {
    if (out_ < 0 || !read_more()) return false;
  }
  return true;
}

LaunchedEnd Launched::finish() {
  while ((out_ >= 0 || err_ >= 0) && read_more()) {
  }
  LaunchedEnd end{-1, output_, errors_};
  if (out_ >= 0 || err_ >= 0 || !ends(pid_)) return end;  // not in time
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

LaunchedEnd launch(const std::vector<std::string>& arguments) { return Launched(arguments).finish(); }

LaunchedEnd launch(const std::vector<std::string>& arguments, const Launched::Setup& setup) {
  return Launched(arguments, setup).finish();
}

bool ends(pid_t pid) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd polled{fd, POLLIN, 0};
  const bool ended = ::poll(&polled, 1, kPatience_ms) == 1;
  ::close(fd);
  return ended;
}

Words run_shell(int ranks, const std::string& script, const Words& options) {
  Words words{"run", "-n", std::to_string(ranks)};
  words.insert(words.end(), options.begin(), options.end());
  for (const char* word : {"--", "sh", "-c"}) words.emplace_back(word);
  words.push_back(script);
  return words;
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "tutti-tools-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

Folder::~Folder() { std::filesystem::remove_all(path_); }

std::string Folder::pipe(const std::string& name) const {
  if (::mkfifo(path(name).c_str(), 0600) != 0) std::abort();
  return path(name);
}

std::string Folder::with(const std::string& name, const std::string& text, mode_t mode) const {
  std::ofstream(path(name)) << text;
  ::chmod(path(name).c_str(), mode);
  return path(name);
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace tutti::testing
