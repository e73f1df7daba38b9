// Joining a group of processes, however they were started: `tutti run`, torchrun, mpirun, srun, or by hand.
//
//   tutti::Communicator comm = tutti::init();
//
// Recognises the launcher by its environment variables, meets the other ranks, and returns when all are linked; throws
// tutti::Error that names the missing or dead rank and the remedy otherwise. A process that nobody launched is a group
// of one. `tutti env` lists the variables; where a variable and an option disagree, the variable counts, so that a job
// can be changed from outside.
#pragma once

#include <optional>
#include <string>

#include "tutti/communicator.h"
#include "tutti/export.h"

namespace tutti {

// What a program says itself instead of leaving it to a launcher. Ranks that are given this way need a rendezvous that
// rank 0 listens at, and a token file unless it is a UNIX socket.
struct Launch {
  std::optional<int> rank, size;
  std::string rendezvous;  // "host:port", "[v6]:port" or, on one host, "unix:@name"
  std::string job;         // ranks of different jobs never meet
  std::string token_file;  // mode 0600, made by `tutti token`
  std::string interface;   // address or interface that TCP binds
};

// Every rank of the job calls it; a process may do so several times, each time in the same order as all others.
TUTTI_API Communicator init(const Options& options = {}, const Launch& launch = {});

}  // namespace tutti
