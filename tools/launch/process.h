// Starts the process of one rank: fork, the few things between, exec; a failure of any of them is told precisely.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/launch/signals.h"

namespace tutti::tools {

struct ProcessStart {
  std::vector<std::string> command;      // the program, looked up in PATH, and its arguments
  std::vector<std::string> environment;  // NAME=value
  int input = -1;                        // descriptors that become the standard streams; -1 = the launcher's own
  int output = -1;
  int errors = -1;
  std::optional<cpu_set_t> processors;            // where it may run
  std::string network;                            // file of the network namespace it runs in; empty = this one
  std::optional<unsigned long> descriptor_limit;  // its soft limit, where the launcher changed its own
};

// The program could not be executed; exit_code as a shell has it, 127 (not found) or 126.
class CannotRun : public std::runtime_error {
 public:
  CannotRun(const std::string& message, int code) : std::runtime_error(message), exit_code(code) {}
  int exit_code;
};

// Returns when the program runs: in a process group of its own, and bound to die when the calling thread does.
// Throws CannotRun, or Error(system) where the system has no process to give; no process is left then.
pid_t start_process(const ProcessStart& start, const Signals& signals);

}  // namespace tutti::tools
