// Joining a group of processes, however they were started: `tutti run`, torchrun, mpirun, srun, or by hand.
//
//   tutti::Communicator comm = tutti::init();
//
// Recognises the launcher by its environment variables, meets the other ranks, and returns when all are linked; throws
// tutti::Error that names the missing or dead rank and the remedy otherwise. A process that nobody launched is a group
// of one. `tutti env` lists the variables; where a variable and an option disagree, the variable counts, so that a job
// can be changed from outside.
#pragma once

#include <chrono>
#include <memory>
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

// A place where ranks leave a few words for each other before they are linked, and which the program has already:
// PyTorch's store, a scheduler's, a folder that all hosts see. Keys and values are text of some hundred bytes. What
// these throw ends init_with_store, with the same words.
class TUTTI_API Store {
 public:
  virtual ~Store();

  // When it returns, others can get the value.
  virtual void set(const std::string& key, const std::string& value, std::chrono::milliseconds timeout) = 0;
  // Waits until somebody has set the key.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  virtual void remove(const std::string& key) = 0;
};

// The group of launch.size ranks that pass the same launch.job and stores with the same content, whoever started them:
// launcher and variables say nothing about rank, size, job and place here. Rank 0 leaves its address and, where there
// is no token file, a token in the store, and takes them out again before any rank returns: the same job may then meet
// again. launch.rendezvous is a host:port that all hosts reach, to find the right network by (default: MASTER_ADDR and
// MASTER_PORT, else the name of this host); the ranks need not meet there.
TUTTI_API Communicator init_with_store(const Options& options, const Launch& launch, std::shared_ptr<Store> store);

}  // namespace tutti
