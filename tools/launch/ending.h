// How the processes of ranks ended, and the sentences about it. Values and pure functions of them.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

struct Ending {
  int exit_code = 0;
  int signal = 0;  // 0 where it exited by itself
  bool dumped_core = false;

  bool ok() const { return exit_code == 0 && signal == 0; }
  // As a shell has it: 128 + signal.
  int shell_code() const { return signal != 0 ? 128 + signal : exit_code; }
};

// As waitid() tells it.
Ending ending_of(const siginfo_t& info);

// "SIGKILL".
std::string name_of_signal(int signal);

// "exited with code 3", "was killed by signal 11 (SIGSEGV: it used memory that is not its own; core dumped)".
std::string words_of(const Ending& ending);

// What became of the ranks other than the one that failed first.
struct Others {
  int finished = 0;  // with exit code 0
  int failed = 0;    // by themselves, after it
  int ended = 0;     // by the launcher
  int total() const { return finished + failed + ended; }
};

// "; the other 3 ranks were ended", or empty where there are none.
std::string words_of(const Others& others);

struct RankEnd {
  int rank = 0;
  pid_t pid = -1;
  std::chrono::steady_clock::time_point started;
  std::chrono::steady_clock::time_point ended;
  std::optional<Ending> ending;  // none where the kernel holds the process
  bool by_launcher = false;
};

// What the launcher was told while it ran.
struct Signalled {
  std::vector<int> passed_on;
  int interrupted_by = 0;  // asked to end the job before any rank had failed; 0 where none did
  int killed_by = 0;       // asked again, so that the ranks were killed; 0 where none did
};

// The launcher's last sentence about a job in which a rank failed. It blames the first that failed, unless several
// exited with the same code at about the same time: then each saw the failure of another, and any may have been first.
std::string last_sentence(const std::vector<RankEnd>& ranks, std::size_t first, const Signalled& signalled,
                          const std::string& host);

}  // namespace tutti::tools
