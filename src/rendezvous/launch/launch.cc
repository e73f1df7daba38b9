#include "rendezvous/launch/launch.h"

#include <array>
#include <optional>

#include "rendezvous/address.h"
#include "rendezvous/launch/launchers.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

// Torch's variables set by hand inside of another launcher's: where both tell the same, the launcher knows more.
std::optional<Launch> from_launcher(const Environment& environment) {
  if (auto launch = from_torchrun(environment)) return launch;
  const auto by_hand = from_torch_variables(environment);
  for (const auto from : {from_open_mpi, from_mpich, from_slurm}) {
    const auto launch = from(environment);
    if (!launch) continue;
    if (by_hand && (by_hand->rank != launch->rank || by_hand->size != launch->size)) break;
    return launch;
  }
  return by_hand;
}

Launch alone(const Environment& environment) {
  const Variables variables(environment,
                            "set TUTTI_RANK and TUTTI_SIZE too, or start the program with tutti run, torchrun, mpirun "
                            "or srun");
  for (const auto name : {"TUTTI_RENDEZVOUS", "TUTTI_LOBBY", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE"}) {
    if (variables.has(name)) variables.refuse(name, "but nothing says which rank this process is");
  }
  for (const auto name : {"RANK", "WORLD_SIZE"}) {
    if (variables.has(name)) {
      variables.refuse(name, name == std::string_view("RANK") ? "but WORLD_SIZE is not set" : "but RANK is not set");
    }
  }
  Launch launch;
  launch.local_rank = 0;
  launch.local_size = 1;
  const std::string tasks = variables.text("SLURM_NTASKS");
  if (variables.has("SLURM_JOB_ID") && !tasks.empty() && tasks != "1") {
    launch.note = "SLURM_NTASKS is " + tasks +
                  ", but this process is no srun step, so it is a group of one; start the program with srun for " +
                  tasks + " ranks";
  }
  return launch;
}

// TUTTI_JOB and TUTTI_RENDEZVOUS count before what the launcher says.
void override_meeting(const Environment& environment, Launch& launch) {
  if (const auto job = environment.get("TUTTI_JOB")) launch.job = *job;
  const auto given = environment.get("TUTTI_RENDEZVOUS");
  if (!given || launch.size == 1) return;
  const Variables variables(environment, "set it to host:port or [v6]:port, or on one host to unix:@name");
  const auto address = parse(*given);
  if (!address || (!address->is_unix && address->port == 0)) {
    variables.refuse("TUTTI_RENDEZVOUS", "which is no place to meet");
  }
  if (address->is_unix && launch.local_size >= 0 && launch.local_size < launch.size) {
    variables.refuse("TUTTI_RENDEZVOUS", "which reaches one host only, but " + std::to_string(launch.local_size) +
                                             " of " + std::to_string(launch.size) + " ranks are on this one");
  }
  launch.place = Place::given;
  launch.where = *given;
  if (launch.job.empty()) launch.job = "at " + *given;
}

// What no launcher could say must now be known.
void check_meeting(const Launch& launch) {
  if (launch.size == 1 || launch.place != Place::alone) return;
  const std::string who(name_of(launch.launcher));
  std::string why = "nothing says where the " + std::to_string(launch.size) + " ranks meet";
  if (launch.launcher == Launcher::open_mpi) why = "the variables of Open MPI hold no address and PMIx is not there";
  if (launch.launcher == Launcher::mpich)
    why = "the variables of MPICH hold no address, and the ranks may be on several hosts";
  if (launch.launcher == Launcher::torchrun) {
    why = "TORCHELASTIC_USE_AGENT_STORE is not True, so no store is served at MASTER_PORT";
  }
  throw Error(ErrorCode::invalid_argument,
              "started by " + who + ", but " + why +
                  "; set TUTTI_RENDEZVOUS=host:port on all ranks, a free port on the host of rank 0");
}

}  // namespace

std::string_view name_of(Launcher launcher) {
  constexpr std::array<std::string_view, 9> kNames{"no launcher",
                                                   "TUTTI_RANK and TUTTI_SIZE",
                                                   "tutti run",
                                                   "torchrun",
                                                   "RANK and WORLD_SIZE",
                                                   "Open MPI",
                                                   "MPICH",
                                                   "Slurm",
                                                   "the program"};
  return kNames[static_cast<std::size_t>(launcher)];
}

Launch recognise(const Environment& environment) {
  auto launch = from_options(environment);
  if (!launch) launch = from_launcher(environment);
  if (!launch) return alone(environment);
  override_meeting(environment, *launch);
  check_meeting(*launch);
  if (launch->size == 1) launch->place = Place::alone;
  return *launch;
}

std::string describe(const Launch& launch) {
  std::string text = std::string(name_of(launch.launcher)) + ", rank " + std::to_string(launch.rank) + " of " +
                     std::to_string(launch.size);
  switch (launch.place) {
    case Place::alone: return text + ", alone";
    case Place::given: return text + ", meeting at " + launch.where;
    case Place::unix_socket: return text + ", meeting on this host at a UNIX socket of the job";
    case Place::first_host: return text + ", meeting on host " + launch.where + " at a port of the job";
    case Place::torch_store: return text + ", meeting through its store at " + launch.where;
    case Place::pmix: return text + ", meeting through PMIx";
    case Place::own_store: return text + ", meeting through a store of the program's";
  }
  return text;
}

}  // namespace tutti::rendezvous
