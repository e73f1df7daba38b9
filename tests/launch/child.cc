#include "launch/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/system_error.h"

namespace tutti::rendezvous {
namespace {

std::array<FileDescriptor, 2> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe2");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace

Child::Child(const std::vector<std::string>& arguments, const std::vector<std::string>& extra) {
  auto in = make_pipe();
  auto out = make_pipe();
  std::vector<std::string> variables = extra;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const auto replaces = [&](const std::string& variable) { return variable.starts_with(name); };
    if (std::none_of(extra.begin(), extra.end(), replaces)) variables.emplace_back(text);
  }
  std::vector<char*> arguments_c, variables_c;
  for (const auto& argument : arguments) arguments_c.push_back(const_cast<char*>(argument.c_str()));
  for (const auto& variable : variables) variables_c.push_back(const_cast<char*>(variable.c_str()));
  arguments_c.push_back(nullptr);
  variables_c.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0].get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, out[1].get(), 1);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // so that all it starts ends with it
  const int error =
      ::posix_spawnp(&pid_, arguments_c[0], &actions, &attributes, arguments_c.data(), variables_c.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  errno = error;
  if (error != 0) throw_errno(arguments[0]);
  input_ = std::move(in[1]);
  output_ = std::move(out[0]);
}

Child::~Child() {
  input_.reset();
  if (pid_ < 0) return;
  ::kill(-pid_, SIGTERM);
  for (int i = 0; i < 100; ++i) {
    if (::waitpid(pid_, &status_, WNOHANG) != 0) return;
    ::usleep(50'000);
  }
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, &status_, 0);
}

bool Child::read_some(const Deadline& deadline) {
  pollfd waiting{output_.get(), POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  if (::poll(&waiting, 1, static_cast<int>(left)) == 0) return false;
  std::array<char, 4096> bytes;
  const ssize_t got = ::read(output_.get(), bytes.data(), bytes.size());
  ended_ = got <= 0;
  if (!ended_) read_.append(bytes.data(), static_cast<std::size_t>(got));
  return true;
}

bool Child::says_within(std::chrono::seconds limit) {
  const Deadline deadline = Deadline::after(limit);
  while (!ended_ && !has_line())
    if (!read_some(deadline)) return false;
  return true;
}

std::optional<std::string> Child::read_line(std::chrono::seconds limit) {
  if (!says_within(limit)) {
    ADD_FAILURE() << "no line within " << limit.count() << " s";
    if (pid_ >= 0) ::kill(-pid_, SIGKILL);  // nobody is to wait for its end in vain
    return std::nullopt;
  }
  if (!has_line()) return std::nullopt;
  const std::size_t end = read_.find('\n');
  std::string line = read_.substr(0, end);
  read_.erase(0, end + 1);
  return line;
}

void Child::write_line(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(input_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) throw_errno("write");
}

std::string Child::read_all(std::chrono::seconds limit) {
  std::string all;
  while (const auto line = read_line(limit)) all += *line + "\n";
  return all;
}

int Child::wait() {
  if (pid_ >= 0) ::waitpid(pid_, &status_, 0);
  pid_ = -1;
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
}

bool is_installed(const std::string& program) {
  Child child({"sh", "-c", "command -v " + program});
  child.read_all(std::chrono::seconds(10));
  return child.wait() == 0;
}

}  // namespace tutti::rendezvous
