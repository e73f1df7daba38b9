// Who started this process, which rank it is, and where its group meets: read off the environment, and nothing else.
//
// A pure function of the variables. What variables cannot say (the user, the process that started this one, an address
// behind a store) is left to arrange.h. Looked for in this order; the first that is there counts:
//
//   TUTTI_RANK, TUTTI_SIZE      `tutti run` (TUTTI_LOBBY=launcher), or options set by hand
//   TORCHELASTIC_RUN_ID, RANK   torchrun
//   OMPI_COMM_WORLD_RANK        mpirun of Open MPI
//   PMI_RANK                    mpiexec of MPICH (Hydra); a PMI_RANK of `srun --mpi=pmi2` is Slurm's
//   SLURM_STEP_ID, SLURM_PROCID a step of Slurm; an allocation or a batch script alone starts nobody
//   RANK, WORLD_SIZE            torch's variables set by hand; they count before the three above where they disagree
//                               with them, because they were set further inside
//   none of them                a group of one
//
// TUTTI_RENDEZVOUS and TUTTI_JOB count before what the launcher says of meeting place and job. A set of variables that
// is incomplete or contradicts itself is an Error(invalid_argument) that names variable, value and remedy: a process
// never starts alone by mistake.
#pragma once

#include <string>
#include <string_view>

#include "base/environment.h"

namespace tutti::rendezvous {

inline constexpr int kMostRanks = 1 << 20;

enum class Launcher : unsigned char {
  none,
  explicit_options,
  tutti_run,
  torchrun,
  torch_variables,
  open_mpi,
  mpich,
  slurm,
  program  // says itself which rank it is, and brings a store
};
std::string_view name_of(Launcher launcher);

// How the lobby is found.
enum class Place : unsigned char {
  alone,        // a group of one meets nobody
  given,        // `where` is its endpoint: host:port, or unix:@name
  unix_socket,  // all ranks are on this host: an abstract socket named after user and job
  first_host,   // on the host `where`, rank 0's, at a port that follows from the job
  torch_store,  // rank 0 leaves the endpoint in the store of torchrun's agent at `where`
  pmix,         // ... or with the PMIx server that started this process
  own_store     // ... or in a store of the program's own; `where` is an endpoint that all hosts reach, or empty
};

struct Launch {
  Launcher launcher = Launcher::none;
  int rank = 0;
  int size = 1;
  int local_rank = -1;  // -1 = not known
  int local_size = -1;
  bool one_host = true;  // known from the variables
  // The same on all ranks; differs between jobs of a user that run at once and between restarts. Empty for MPICH on one
  // host, where it follows from the process that started the ranks (arrange.h).
  std::string job;
  Place place = Place::alone;
  std::string where;
  bool launcher_keeps_lobby = false;  // otherwise rank 0 does
  std::string note;                   // something the user should know; empty = nothing
};

Launch recognise(const Environment& environment);

// One line for the log: "torchrun, rank 2 of 8, meeting through its store at node0:29500".
std::string describe(const Launch& launch);

}  // namespace tutti::rendezvous
