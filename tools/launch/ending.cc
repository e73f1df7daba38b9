#include "tools/launch/ending.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <cstring>

namespace tutti::tools {
namespace {

const char* meaning_of(int signal) {
  switch (signal) {
    case SIGSEGV: return "it used memory that is not its own";
    case SIGBUS: return "it used memory that is not there";
    case SIGFPE: return "it divided by zero or the like";
    case SIGILL: return "it ran an instruction this processor does not have";
    case SIGABRT: return "it gave up: a failed assertion or an exception that nobody caught";
    case SIGPIPE: return "it wrote to a pipe that nobody reads";
    case SIGXCPU: return "it used up its processor time";
    case SIGXFSZ: return "it wrote more than a file may hold";
    case SIGSYS: return "it made a system call that is not allowed";
    default: return nullptr;
  }
}

std::string counted(int count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace

std::string name_of_signal(int signal) {
  if (const char* name = ::sigabbrev_np(signal); name != nullptr) return std::string("SIG") + name;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return fmt::format("SIGRTMIN+{}", signal - SIGRTMIN);
  return fmt::format("signal {}", signal);
}

std::string words_of(const Ending& ending) {
  if (ending.signal == 0) return fmt::format("exited with code {}", ending.exit_code);
  std::string about = name_of_signal(ending.signal);
  if (const char* meaning = meaning_of(ending.signal); meaning != nullptr) about += std::string(": ") + meaning;
  if (ending.dumped_core) about += "; core dumped";
  return fmt::format("was killed by signal {} ({})", ending.signal, about);
}

std::string words_of(const Others& others) {
  const int total = others.total();
  if (total == 0) return {};
  const std::string all = total == 1 ? "; the other rank " : fmt::format("; the other {} ranks ", total);
  if (others.ended == total) return all + (total == 1 ? "was ended" : "were ended");
  if (others.finished == total) return all + "had finished";
  if (others.failed == total) return all + "then failed, too";
  std::vector<std::string> parts;
  if (others.finished > 0) parts.push_back(fmt::format("{} finished", others.finished));
  if (others.failed > 0) parts.push_back(fmt::format("{} then failed, too", others.failed));
  if (others.ended > 0) parts.push_back(counted(others.ended, "was ended", "were ended"));
  return fmt::format("; of the other {} ranks {}", total, fmt::join(parts, " and "));
}

}  // namespace tutti::tools
