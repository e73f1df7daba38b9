#include "tools/launch/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/file_descriptor.h"
#include "base/folders.h"
#include "base/system_error.h"

namespace tutti::tools {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

bool put_streams_in_place(const ProcessStart& start) {
  const auto put = [](int from, int to) { return from < 0 || ::dup2(from, to) >= 0; };
  return put(start.input, STDIN_FILENO) && put(start.output, STDOUT_FILENO) && put(start.errors, STDERR_FILENO);
}

bool set_descriptor_limit(unsigned long soft) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = soft;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

bool enter_network(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  return descriptor >= 0 && ::setns(descriptor, CLONE_NEWNET) == 0;
}

// What a child that did not get as far as its program leaves in the pipe.
struct Refusal {
  int number = 0;  // of the error
  bool executing = false;
};

// In the child. Returns only where something failed.
Refusal become(const ProcessStart& start, const Signals& signals, pid_t launcher, char* const* command,
               char* const* environment) {
  if (::setpgid(0, 0) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return {errno};
  if (::getppid() != launcher) ::_exit(1);  // it died before the line above
  if (!put_streams_in_place(start)) return {errno};
  if (start.processors && ::sched_setaffinity(0, sizeof *start.processors, &*start.processors) != 0) return {errno};
  if (start.descriptor_limit && !set_descriptor_limit(*start.descriptor_limit)) return {errno};
  if (!start.network.empty() && !enter_network(start.network)) return {errno};
  signals.restore();
  ::execvpe(command[0], command, environment);
  return {errno, true};
}

[[noreturn]] void cannot_run(const std::string& program, int number) {
  const bool names_path = program.find('/') != std::string::npos;
  std::string remedy;
  if (number == ENOENT && !names_path) {
    remedy = "; it is not in PATH: give its path, or mind the order, options of tutti run come before the program";
  } else if (number == ENOENT && ::access(program.c_str(), F_OK) == 0) {
    remedy = "; the file is there, but the interpreter that its first line names is not";
  } else if (number == ENOENT) {
    remedy = "; is the path right, seen from this folder?";
  } else if (number == EACCES && is_folder(program)) {
    remedy = "; it is a folder: name the program in it";
  } else if (number == EACCES) {
    remedy = "; make it executable (chmod +x), or start its interpreter, as in: tutti run -n 4 -- python train.py";
  }
  throw CannotRun(fmt::format("cannot run '{}': {}{}", program, std::strerror(number), remedy),
                  number == ENOENT ? 127 : 126);
}

}  // namespace

pid_t start_process(const ProcessStart& start, const Signals& signals) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  const std::vector<char*> command = pointers_to(start.command);
  const std::vector<char*> environment = pointers_to(start.environment);
  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("cannot start a process; the limit on processes (ulimit -u) may be too low");
  if (pid == 0) {
    const Refusal refusal = become(start, signals, launcher, command.data(), environment.data());
    [[maybe_unused]] const ssize_t wrote = ::write(writing.get(), &refusal, sizeof refusal);
    ::_exit(127);
  }
  writing.reset();
  Refusal refusal;
  ssize_t got = 0;
  do {
    got = ::read(reading.get(), &refusal, sizeof refusal);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof refusal)) return pid;  // the pipe hung up: exec closed it
  ::waitpid(pid, nullptr, 0);
  if (refusal.executing) cannot_run(start.command.front(), refusal.number);
  errno = refusal.number;
  throw_errno("cannot prepare the process of a rank");
}

}  // namespace tutti::tools
