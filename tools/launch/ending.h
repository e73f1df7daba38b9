// How the process of a rank ended, and the sentences about it. A value.
#pragma once

#include <chrono>
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

}  // namespace tutti::tools
