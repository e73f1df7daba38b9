// The environment variables of Tutti: one table, and a snapshot of their values.
//
// Nothing else in the library reads the environment, so everything that depends on it is a function of an Environment
// and can be tested as one.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tutti/types.h"

namespace tutti {

struct Variable {
  std::string_view name;
  std::string_view unset;    // what holds when it is not set, in words or as a value
  std::string_view values;   // what it may be: words as a|b|c, numbers as least..most; empty = anything
  std::string_view meaning;  // one sentence
  bool secret = false;       // its value is never shown
};

#define TUTTI_NEXT_WORD(name, word, memory, meaning) "|" #word
#define TUTTI_NEXT_MEANING(name, word, memory, meaning) "; " #word ": " meaning

// X(name, unset, values, meaning, secret). What a launcher sets comes last.
#define TUTTI_VARIABLES(X)                                                                                             \
  X(TUTTI_TRANSPORT, "auto", std::string_view(TUTTI_TRANSPORTS(TUTTI_NEXT_WORD)).substr(1),                            \
    "what carries the bytes" TUTTI_TRANSPORTS(TUTTI_NEXT_MEANING), false)                                              \
  X(TUTTI_TCP_THREADS, "auto", "auto|1|2|3|4",                                                                         \
    "threads of a rank that carry a call of 2 MB or more over TCP at once, a part of it each; auto: as many as every " \
    "host has cores for each of its ranks, where ranks share no memory, at most 4",                                    \
    false)                                                                                                             \
  X(TUTTI_RENDEZVOUS, "from the launcher", "", "where the ranks meet: host:port, or unix:@name on one host", false)    \
  X(TUTTI_INTERFACE, "the one that routes to the rendezvous", "", "address or interface that TCP binds", false)        \
  X(TUTTI_HOSTID, "this machine", "",                                                                                  \
    "ranks of one machine share memory only where they have it alike: to try several hosts on one", false)             \
  X(TUTTI_TOKEN_FILE, "none", "", "file with the job's token, mode 0600, made by `tutti token`", false)                \
  X(TUTTI_TOKEN, "none", "", "the token itself, 64 hexadecimal digits, as `tutti run` passes it to its ranks", true)   \
  X(TUTTI_TIMEOUT_MS, "60000", "1..1000000000", "a call during which nothing moves for this long is an error", false)  \
  X(TUTTI_SUSPECT_MS, "1000", "0..1000000000",                                                                         \
    "a rank silent for this long across TCP is named in the log; 0 = never", false)                                    \
  X(TUTTI_SILENCE_MS, "10000", "0..1000000000", "a rank silent for this long across TCP counts as lost; 0 = never",    \
    false)                                                                                                             \
  X(TUTTI_CHECK, "quick", "quick|full", "quick, or full: all ranks compare each call before any buffer is touched",    \
    false)                                                                                                             \
  X(TUTTI_ALGORITHM, "chosen by size", "",                                                                             \
    "the algorithm to run wherever a verb has one of that name, or verb=name,... (see `tutti list`)", false)           \
  X(TUTTI_SCHEDULE, "none", "",                                                                                        \
    "schedules of one's own, verb=file.json,...: verified, then run where verb, ranks and root are theirs", false)     \
  X(TUTTI_VERIFY, "0", "0|1", "1: every program is verified, for all ranks, before it first runs", false)              \
  X(TUTTI_COSTS, "of the user's cache folder", "",                                                                     \
    "file with the costs to choose algorithms by, made by `tutti tune`; built-in: those of the library", false)        \
  X(TUTTI_SHARED_BUCKETS, "1", "0|1", "0: DDP over Tutti keeps PyTorch's ordinary memory for its gradients", false)    \
  X(TUTTI_CUDA_DRIVER, "libcuda.so.1, once the program has loaded it", "",                                             \
    "another file for the CUDA driver, which is loaded at once; none: memory of GPUs is not recognised", false)        \
  X(TUTTI_NVRTC, "libnvrtc.so of the process, the loader or the CUDA toolkit", "",                                     \
    "another file for NVRTC, which compiles kernels for GPUs; none: ranks on one GPU go through host memory", false)   \
  X(TUTTI_TRACE, "none", "",                                                                                           \
    "file that a trace of the job goes to, as of `tutti run --trace`; its rings lie beside it meanwhile; not of "      \
    "ranks of run_threads and run_processes",                                                                          \
    false)                                                                                                             \
  X(TUTTI_TRACE_EVENTS, "65536", "64..16777216", "how many events of each rank a trace keeps, the last ones", false)   \
  X(TUTTI_LOG, "warn", "off|warn|info|debug", "off, warn, info or debug, to standard error", false)                    \
  X(TUTTI_RANK, "from the launcher", "", "this process's rank", false)                                                 \
  X(TUTTI_SIZE, "from the launcher", "", "number of ranks of the job", false)                                          \
  X(TUTTI_LOCAL_RANK, "from the launcher", "", "this process's number among the ranks of its host", false)             \
  X(TUTTI_LOCAL_SIZE, "from the launcher", "", "number of ranks on this host", false)                                  \
  X(TUTTI_LOBBY, "rank 0 keeps it", "", "launcher: the launcher keeps the place where the ranks meet", false)          \
  X(TUTTI_JOB, "from the launcher", "", "name of the job; ranks of different jobs never meet", false)

std::span<const Variable> variables();

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> values) : values_(std::move(values)) {}
  // All variables of this process, as they are now.
  static Environment of_process();
  // The same, and takes what is secret out of the process's environment, so that the programs it starts do not inherit
  // it. What was taken once is there again for later calls of this process, unless it is set anew. As with all changes
  // of the environment, other threads had better not read theirs meanwhile.
  static Environment take_of_process();

  // This one, with `values` for what is not set here; empty values stay out.
  Environment with_defaults(const std::map<std::string, std::string, std::less<>>& values) const;

  // The value, if it is set and not empty.
  std::optional<std::string> get(std::string_view name) const;
  // The same of a variable of the table; throws Error(invalid_argument) that names the variable, its value and what it
  // may be where the table does not allow it.
  std::optional<std::string> word(std::string_view name) const;
  std::optional<long long> number(std::string_view name) const;

  // Where what is found out about this machine is kept, for this user; empty where there is no home. It need not exist.
  std::string cache_folder() const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace tutti
