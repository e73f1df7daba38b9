#include "rendezvous/launch/launchers.h"

#include <charconv>

#include "rendezvous/address.h"
#include "rendezvous/launch/hostlist.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

[[noreturn]] void refuse_with(std::string text, std::string_view remedy) {
  throw Error(ErrorCode::invalid_argument, std::move(text) + "; " + std::string(remedy));
}

// The ranks are all here, so they meet at a socket of the kernel's that only this user's processes are let into.
void meet_on_one_host_if_known(Launch& launch) {
  launch.one_host = launch.local_size == launch.size;
  if (launch.one_host) launch.place = Place::unix_socket;
}

// Steps that Slurm makes for itself carry numbers from the top: batch scripts, interactive shells, and the like.
bool is_made_by_srun(std::string_view step) {
  unsigned long long id = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), id);
  return error == std::errc() && end == step.data() + step.size() && id < 0xfffffff0ULL;
}

}  // namespace

int Variables::number(std::string_view name, int otherwise) const {
  const auto text = environment_.get(name);
  if (!text) return otherwise;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0 || value > kMostRanks) {
    refuse(name, "which is no number from 0 to " + std::to_string(kMostRanks));
  }
  return value;
}

int Variables::needed(std::string_view name, std::string_view because) const {
  needed_text(name, because);
  return number(name, -1);
}

std::string Variables::needed_text(std::string_view name, std::string_view because) const {
  const auto text = environment_.get(name);
  if (!text) {
    refuse_with(std::string(because) + " is '" + this->text(because) + "', but " + std::string(name) + " is not set",
                remedy_);
  }
  return *text;
}

void Variables::read_ranks(const Names& names, Launch& launch) const {
  launch.rank = needed(names.rank, names.size);
  launch.size = needed(names.size, names.rank);
  if (launch.size == 0) refuse(names.size, "but a group has at least one rank");
  if (launch.rank >= launch.size) {
    refuse(names.rank, "but " + std::string(names.size) + " is '" + std::to_string(launch.size) +
                           "' and ranks count from 0 to " + std::to_string(launch.size - 1));
  }
  launch.local_rank = number(names.local_rank, -1);
  launch.local_size = number(names.local_size, -1);
  if (launch.local_size == 0 || launch.local_size > launch.size) {
    refuse(names.local_size, "but " + std::string(names.size) + " is '" + std::to_string(launch.size) + "'");
  }
  if (launch.local_size >= 0 && launch.local_rank >= launch.local_size) {
    refuse(names.local_rank,
           "but " + std::string(names.local_size) + " is '" + std::to_string(launch.local_size) + "'");
  }
}

void Variables::refuse(std::string_view name, std::string_view what) const {
  refuse_with(std::string(name) + " is '" + text(name) + "', " + std::string(what), remedy_);
}

std::optional<Launch> from_options(const Environment& environment) {
  const Variables variables(environment,
                            "set TUTTI_RANK (from 0) and TUTTI_SIZE on every rank, or neither, or use tutti run");
  if (!variables.has("TUTTI_RANK") && !variables.has("TUTTI_SIZE")) return std::nullopt;
  Launch launch;
  launch.launcher = Launcher::explicit_options;
  variables.read_ranks({"TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE"}, launch);
  if (const std::string keeper = variables.text("TUTTI_LOBBY"); keeper == "launcher") {
    launch.launcher = Launcher::tutti_run;
    launch.launcher_keeps_lobby = true;
    if (launch.size > 1) variables.needed_text("TUTTI_RENDEZVOUS", "TUTTI_LOBBY");
  } else if (!keeper.empty() && keeper != "rank0") {
    variables.refuse("TUTTI_LOBBY", "which is neither 'launcher' nor 'rank0'");
  }
  launch.one_host = launch.local_size == launch.size;
  // Without a job's name nothing tells two jobs of a user on one host apart.
  if (launch.one_host && variables.has("TUTTI_JOB")) launch.place = Place::unix_socket;
  return launch;
}

std::optional<Launch> from_torchrun(const Environment& environment) {
  const Variables variables(environment, "start the program again with torchrun, or set TUTTI_RANK and TUTTI_SIZE");
  if (!variables.has("TORCHELASTIC_RUN_ID")) return std::nullopt;
  Launch launch;
  launch.launcher = Launcher::torchrun;
  variables.needed("RANK", "TORCHELASTIC_RUN_ID");
  variables.read_ranks({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, launch);
  const std::string host = variables.needed_text("MASTER_ADDR", "TORCHELASTIC_RUN_ID");
  const int port = variables.needed("MASTER_PORT", "TORCHELASTIC_RUN_ID");
  if (port < 1 || port > 65535) variables.refuse("MASTER_PORT", "which is no port");
  // A run's name may be `none`; the agents' store then still has a port of its own.
  launch.job = "torchrun " + variables.text("TORCHELASTIC_RUN_ID") + ", restart " +
               std::to_string(variables.number("TORCHELASTIC_RESTART_COUNT", 0)) + ", port " + std::to_string(port);
  meet_on_one_host_if_known(launch);
  if (!launch.one_host && variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    launch.place = Place::torch_store;
    launch.where = endpoint_of(host, port);
  }
  return launch;
}

std::optional<Launch> from_torch_variables(const Environment& environment) {
  const Variables variables(environment,
                            "set all of torch's variables, or TUTTI_RANK and TUTTI_SIZE, or use tutti run");
  if (!variables.has("RANK") || !variables.has("WORLD_SIZE")) return std::nullopt;
  Launch launch;
  launch.launcher = Launcher::torch_variables;
  variables.read_ranks({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, launch);
  launch.one_host = launch.local_size == launch.size;
  // Nobody serves a store before the program itself does, but one port of a host serves one job.
  if (launch.one_host && variables.has("MASTER_PORT")) {
    launch.place = Place::unix_socket;
    launch.job = "torch variables, port " + variables.text("MASTER_PORT");
  }
  return launch;
}

std::optional<Launch> from_open_mpi(const Environment& environment) {
  const Variables variables(environment, "start the program again with mpirun, or set TUTTI_RANK and TUTTI_SIZE");
  if (!variables.has("OMPI_COMM_WORLD_RANK") && !variables.has("OMPI_COMM_WORLD_SIZE")) return std::nullopt;
  Launch launch;
  launch.launcher = Launcher::open_mpi;
  variables.read_ranks(
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      launch);
  // The name space follows from mpirun's host and process; the key is random, and the same on all ranks of an mpirun.
  const std::string space = variables.text("PMIX_NAMESPACE");
  const std::string key = variables.text("OMPI_MCA_orte_precondition_transports");
  if (!space.empty() || !key.empty()) {
    launch.job = "mpirun " + space + (space.empty() || key.empty() ? "" : ", ") + key;
    meet_on_one_host_if_known(launch);
  }
  launch.one_host = launch.local_size == launch.size;
  if (!launch.one_host && !space.empty()) launch.place = Place::pmix;
  return launch;
}

std::optional<Launch> from_mpich(const Environment& environment) {
  const Variables variables(environment, "start the program again with mpiexec, or set TUTTI_RANK and TUTTI_SIZE");
  if (!variables.has("PMI_RANK") && !variables.has("PMI_SIZE")) return std::nullopt;
  // `srun --mpi=pmi2` sets PMI_RANK as well, but only Hydra counts the ranks of a host.
  if (variables.has("SLURM_STEP_ID") && !variables.has("MPI_LOCALNRANKS")) return std::nullopt;
  Launch launch;
  launch.launcher = Launcher::mpich;
  variables.read_ranks({"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, launch);
  meet_on_one_host_if_known(launch);
  return launch;
}

std::optional<Launch> from_slurm(const Environment& environment) {
  const Variables variables(environment, "start the program again with srun, or set TUTTI_RENDEZVOUS=host:port");
  // A batch script has SLURM_PROCID=0 and SLURM_NTASKS=n as well, but no step.
  const std::string step = variables.text("SLURM_STEP_ID");
  if (!is_made_by_srun(step)) return std::nullopt;
  Launch launch;
  launch.launcher = Launcher::slurm;
  const char* size = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  variables.needed("SLURM_PROCID", "SLURM_STEP_ID");
  variables.read_ranks({"SLURM_PROCID", size, "SLURM_LOCALID", ""}, launch);

  const char* nodes = variables.has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  const int node = variables.number("SLURM_NODEID", -1);
  const int node_count = variables.needed(nodes, "SLURM_STEP_ID");
  if (const std::string list = variables.text("SLURM_STEP_TASKS_PER_NODE"); !list.empty()) {
    const std::vector<int> counts = counts_of(list);
    if (node >= 0 && static_cast<std::size_t>(node) < counts.size()) {
      launch.local_size = counts[static_cast<std::size_t>(node)];
    }
  }
  launch.job = "slurm " + variables.text("SLURM_CLUSTER_NAME") + " " +
               variables.needed_text("SLURM_JOB_ID", "SLURM_STEP_ID") + "." + step + ", restart " +
               std::to_string(variables.number("SLURM_RESTART_COUNT", 0)) + ", srun at " +
               variables.text("SLURM_STEP_LAUNCHER_PORT");
  launch.one_host = node_count == 1;
  if (launch.one_host) {
    launch.local_size = launch.size;
    launch.place = Place::unix_socket;
    return launch;
  }
  launch.place = Place::first_host;
  launch.where = hosts_of(variables.needed_text("SLURM_STEP_NODELIST", "SLURM_STEP_ID")).front();
  if (launch.rank == 0 && node > 0 && !environment.get("TUTTI_RENDEZVOUS")) {
    variables.refuse("SLURM_NODEID", "but rank 0 was expected on the first host of SLURM_STEP_NODELIST");
  }
  return launch;
}

}  // namespace tutti::rendezvous
