#include "tools/launch/ending.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

constexpr std::chrono::seconds kAlikeWithin{1};  // an interpreter takes its time to end

bool failed_alone(const RankEnd& rank) { return rank.ending && !rank.ending->ok() && !rank.by_launcher; }

bool is_alike(const RankEnd& rank, const RankEnd& first) {
  return failed_alone(rank) && rank.ending->signal == 0 && first.ending->signal == 0 &&
         rank.ending->exit_code == first.ending->exit_code && rank.ended - first.ended < kAlikeWithin;
}

template <class Condition>
Others others_of(const std::vector<RankEnd>& ranks, const Condition& spoken_of) {
  Others others;
  for (const RankEnd& rank : ranks) {
    if (spoken_of(rank)) continue;
    ++(rank.ending && rank.ending->ok() ? others.finished : failed_alone(rank) ? others.failed : others.ended);
  }
  return others;
}

double seconds_of(const RankEnd& rank) { return std::chrono::duration<double>(rank.ended - rank.started).count(); }

// Empty where one rank stands out.
std::string shared_failure(const std::vector<RankEnd>& ranks, const RankEnd& first) {
  const auto alike = [&](const RankEnd& rank) { return is_alike(rank, first); };
  const auto same = std::count_if(ranks.begin(), ranks.end(), alike);
  if (same < 2 || same != std::count_if(ranks.begin(), ranks.end(), failed_alone)) return {};
  const bool all = same == static_cast<std::ptrdiff_t>(ranks.size());
  return fmt::format("{} {} ranks failed with exit code {} after {:.1f} s; what they wrote above says why{}",
                     all ? "all" : fmt::format("{} of", same), ranks.size(), first.ending->exit_code, seconds_of(first),
                     words_of(others_of(ranks, alike)));
}

std::string failure(const std::vector<RankEnd>& ranks, const RankEnd& first, const Signalled& signalled,
                    const std::string& host) {
  if (std::string shared = shared_failure(ranks, first); !shared.empty()) return shared;
  const auto& told = signalled.passed_on;
  const bool passed_on = std::find(told.begin(), told.end(), first.ending->signal) != told.end();
  return fmt::format("rank {} (pid {}, host {}) {}{} after {:.1f} s{}", first.rank, first.pid, host,
                     words_of(*first.ending), passed_on ? ", which tutti run passed on to all ranks," : "",
                     seconds_of(first),
                     words_of(others_of(ranks, [&](const RankEnd& rank) { return &rank == &first; })));
}

}  // namespace

Ending ending_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {info.si_status, 0, false};
  return {0, info.si_status, info.si_code == CLD_DUMPED};
}

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

std::string last_sentence(const std::vector<RankEnd>& ranks, std::size_t first, const Signalled& signalled,
                          const std::string& host) {
  const int signal = signalled.interrupted_by;
  if (signal == 0) return failure(ranks, ranks[first], signalled, host);
  const std::string said = fmt::format("interrupted: {} was passed on to all ranks", name_of_signal(signal));
  if (const int killed_by = signalled.killed_by; killed_by != 0) {
    return said + fmt::format("; then {} came{}, and because of it the ranks were killed", name_of_signal(killed_by),
                              killed_by == signal ? " again" : "");
  }
  if (ranks[first].ending->shell_code() != 128 + signal) {
    return said + "; then " + failure(ranks, ranks[first], signalled, host);
  }
  const auto ended = std::count_if(ranks.begin(), ranks.end(), [](const RankEnd& rank) { return rank.by_launcher; });
  if (ended == 0) return said;
  return said +
         fmt::format("; {} of {} did not end by it and {} ended", ended, ranks.size(), ended == 1 ? "was" : "were");
}

}  // namespace tutti::tools
