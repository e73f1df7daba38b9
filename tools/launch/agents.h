// The ranks of a job on several hosts, started from one: an agent (ssh, as a rule) runs a shell on each host, which is
// told on its standard input to run `tutti run --nnodes ...` there.
//
// What the shell reads holds the job's token, so that no list of processes shows it, and goes on for as long as the job
// is wanted: where it ends, because the job shall end or this launcher was killed, the shell ends its host's part.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tutti::tools {

inline constexpr const char* kUsualAgent = "ssh -o BatchMode=yes";
inline constexpr int kUsualPort = 29400;  // of the first host, as torchrun has it

struct AgentPlan {
  std::vector<std::string> hosts;
  std::vector<std::string> agent;      // run as: agent... host sh -s
  std::vector<std::string> options;    // of `tutti run` on every host, but for --nnodes, --node-rank and --token-file
  std::vector<std::string> command;    // the program and its arguments
  std::vector<std::string> variables;  // NAME=value, for all hosts
  std::string token;
  std::string folder;   // to be in
  std::string program;  // `tutti`, where it is at the same place there; else the one in PATH
  std::chrono::milliseconds grace{2000};
};

// "a,b" and "ssh -p 22" in their parts.
std::vector<std::string> parts_of(const std::string& text, char between);

// What the shell on a host is told.
std::string words_for_host(const AgentPlan& plan, std::size_t index);

// Starts all of it and waits for its end: the exit code of the first host that failed, which `tell` is told of, or 0.
// When one fails the others have their grace, as ranks of one host do. Throws CannotRun where the agent cannot be run.
int run_by_agents(const AgentPlan& plan, const std::function<void(const std::string& sentence)>& tell);

}  // namespace tutti::tools
