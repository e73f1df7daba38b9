// Ranks on this host, started by the caller: as threads of this process, or as forked processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"

namespace tutti {

// What became of one rank.
struct RankEnd {
  int exit_code = 0;    // 0 = the function returned
  int signal = 0;       // processes: the signal that ended it, or 0
  std::string message;  // what it threw, or empty
  bool ok() const { return exit_code == 0 && signal == 0; }
};

using RankFunction = std::function<void(Communicator&)>;

// Runs `function` on `ranks` ranks and returns when all have ended, one RankEnd per rank.
TUTTI_API std::vector<RankEnd> run_threads(int ranks, const RankFunction& function, const Options& options = {});

// As run_threads, with one forked process per rank. To be called while this process has one thread.
// Where `pin` is set, rank r runs on the r-th allowed core (mod their number).
TUTTI_API std::vector<RankEnd> run_processes(int ranks, const RankFunction& function, const Options& options = {},
                                             bool pin = false);

}  // namespace tutti
