#include "tools/bench/implementations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/environment.h"
#include "base/system_error.h"
#include "rendezvous/token.h"
#include "tools/bench/driver/protocol.h"
#include "tools/bench/rank.h"
#include "tools/launch/job.h"

namespace tutti::bench {
namespace {

namespace fs = std::filesystem;
using tools::ProcessStart;
using tools::Variables;

fs::path this_program() { return fs::read_symlink("/proc/self/exe"); }
// Drivers are built beside the command.
fs::path driver(const std::string& name) { return this_program().parent_path() / name; }

std::string in_path(std::initializer_list<const char*> names) {
  const std::string path = variable("PATH");
  for (const std::string name : names) {
    for (std::size_t at = 0; at <= path.size();) {
      const std::size_t end = std::min(path.find(':', at), path.size());
      const std::string candidate = path.substr(at, end - at) + "/" + name;
      if (end > at && ::access(candidate.c_str(), X_OK) == 0) return candidate;
      at = end + 1;
    }
  }
  return "";
}

std::string openmpi_launcher() { return in_path({"mpirun.openmpi", "mpiexec.openmpi"}); }
std::string mpich_launcher() { return in_path({"mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich"}); }

// A python that has PyTorch, where scripts/python.sh looks for one.
std::string torch_python() {
  const std::string candidates[] = {variable("TORCH_PYTHON"), in_path({"python3"}),
                                    Environment::of_process().cache_folder() + "/torch/bin/python"};
  for (const std::string& python : candidates) {
    if (python.empty() || ::access(python.c_str(), X_OK) != 0) continue;
    const pid_t pid = ::fork();
    if (pid == 0) {
      // Asks without loading it, which takes seconds.
      ::execl(python.c_str(), python.c_str(), "-c",
              "import importlib.machinery as m, sys; sys.exit(m.PathFinder.find_spec('torch') is None)", nullptr);
      ::_exit(127);
    }
    int status = 1;
    while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status == 0) return python;
  }
  return "";
}

// Whether one process may read another's memory, which is no child of it: what MPI's single-copy transfers need.
bool siblings_may_read() {
  static const int kWord = 42;
  const pid_t target = ::fork();
  if (target == 0) {
    for (;;) ::pause();
  }
  const pid_t reader = target < 0 ? -1 : ::fork();
  if (reader == 0) {
    int word = 0;
    const iovec to{&word, sizeof word}, from{const_cast<int*>(&kWord), sizeof kWord};
    ::_exit(::process_vm_readv(target, &to, 1, &from, 1, 0) == static_cast<ssize_t>(sizeof word) && word == 42 ? 0 : 1);
  }
  int status = 1;
  while (reader > 0 && ::waitpid(reader, &status, 0) < 0 && errno == EINTR) {
  }
  if (target > 0) {
    ::kill(target, SIGKILL);
    ::waitpid(target, nullptr, 0);
  }
  return reader > 0 && status == 0;
}

// This process's, without what another launcher may have left.
Variables plain_variables() {
  Variables all = tools::variables_of_process();
  constexpr std::string_view kForeign[] = {"OMPI_", "PMIX_", "PMI_",   "HYDRA_", "HYDI_",
                                           "MPIR_", "MPI_",  "SLURM_", "PRTE_",  "TORCHELASTIC_"};
  constexpr std::string_view kOwn[] = {"TUTTI_RANK", "TUTTI_SIZE",  "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE",
                                       "TUTTI_JOB",  "TUTTI_LOBBY", "TUTTI_RENDEZVOUS", "TUTTI_TOKEN",
                                       "RANK",       "WORLD_SIZE",  "LOCAL_RANK",       "LOCAL_WORLD_SIZE"};
  std::erase_if(all, [&](const auto& entry) {
    const auto begins = [&](std::string_view with) { return entry.first.starts_with(with); };
    return std::any_of(std::begin(kForeign), std::end(kForeign), begins) ||
           std::find(std::begin(kOwn), std::end(kOwn), entry.first) != std::end(kOwn);
  });
  return all;
}

// Over which ranks reach each other.
std::string interface_of(const StartFacts& facts) { return facts.hosts.empty() ? "lo" : facts.hosts.front().interface; }

Variables variables_for(const Group& group, const StartFacts& facts) {
  Variables all = plain_variables();
  all[kSocketVariable] = group.socket_path();
  all[kDirectoryVariable] = group.folder();
  all[kRanksVariable] = std::to_string(facts.ranks);
  all[kBytesVariable] = std::to_string(facts.bytes);
  all[kCoresVariable] = fmt::format("{}", fmt::join(facts.processors, ","));
  all[kInterfaceVariable] = interface_of(facts);
  all[kMemoryVariable] = facts.own_devices ? "devices" : facts.on_device ? "device" : "host";
  all["OMP_NUM_THREADS"] = "1";
  return all;
}

// Null where all run here.
const NetworkNamespace* host_of(const StartFacts& facts, int rank) {
  if (facts.hosts.empty()) return nullptr;
  const std::size_t hosts = facts.hosts.size(), place = static_cast<std::size_t>(rank);
  return &facts.hosts[facts.round_hosts ? place % hosts : place * hosts / static_cast<std::size_t>(facts.ranks)];
}

void start(Group& group, std::vector<std::string> command, const Variables& variables, const NetworkNamespace* host) {
  ProcessStart process;
  if (host != nullptr) process.network = host->file();
  process.command = std::move(command);
  process.environment = tools::entries_of(variables);
  group.start(std::move(process));
}

// One process per rank, each told its number.
void start_each(Group& group, const StartFacts& facts, const std::vector<std::string>& command, Variables variables) {
  for (int rank = 0; rank < facts.ranks; ++rank) {
    variables[kRankVariable] = std::to_string(rank);
    start(group, command, variables, host_of(facts, rank));
  }
}

void start_ours(Group& group, const StartFacts& facts) {
  Variables variables = variables_for(group, facts);
  variables["TUTTI_SIZE"] = std::to_string(facts.ranks);
  variables["TUTTI_RENDEZVOUS"] = "unix:@" + group.socket_path();
  if (!facts.hosts.empty()) {
    variables["TUTTI_RENDEZVOUS"] = fmt::format("{}:{}", facts.hosts.front().address, facts.hosts.front().free_port);
    variables["TUTTI_TOKEN"] = rendezvous::Token::random().hex();
  }
  variables["TUTTI_JOB"] = group.socket_path();
  variables["TUTTI_TRANSPORT"] = facts.transport;
  if (!facts.costs.empty()) variables["TUTTI_COSTS"] = facts.costs;
  if (!facts.schedule.empty()) variables["TUTTI_SCHEDULE"] = facts.schedule;
  for (int rank = 0; rank < facts.ranks; ++rank) {
    variables["TUTTI_RANK"] = variables[kRankVariable] = std::to_string(rank);
    if (group.name() == kFlat) variables["TUTTI_HOSTID"] = std::to_string(rank);
    start(group, {this_program(), kRankCommand}, variables, host_of(facts, rank));
  }
}

// How mpirun comes from one namespace into another, instead of by ssh. Each gets a name of its own, too: ranks whose
// hosts have one name are taken to share memory.
std::string openmpi_agent(const Group& group, const StartFacts& facts) {
  const fs::path path = group.folder() / "agent";
  std::ofstream file(path);
  file << "#!/bin/sh\naddress=$1\nshift\ncase $address in\n";
  for (const NetworkNamespace& host : facts.hosts)
    file << fmt::format("  {}) file={} name={} ;;\n", host.address, host.file(), host.name);
  file << "esac\nexec nsenter --net=$file unshare --uts sh -c \"hostname $name; $*\"\n";
  file.close();
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

void add_openmpi_hosts(std::vector<std::string>& command, const Group& group, const StartFacts& facts) {
  std::vector<std::string> hosts;
  for (const NetworkNamespace& host : facts.hosts) {
    int slots = 0;
    for (int rank = 0; rank < facts.ranks; ++rank) slots += host_of(facts, rank) == &host ? 1 : 0;
    if (slots > 0) hosts.push_back(fmt::format("{}:{}", host.address, slots));
  }
  command.insert(command.end(), {"--host", fmt::format("{}", fmt::join(hosts, ",")), "--map-by",
                                 facts.round_hosts ? "node" : "slot", "--mca", "plm_rsh_agent",
                                 openmpi_agent(group, facts), "--mca", "oob_tcp_if_include", interface_of(facts)});
  const std::string name = "hostname " + facts.hosts.front().name + " && exec \"$@\"";
  command.insert(command.begin(), {"unshare", "--uts", "sh", "-c", name, "sh"});
}

void start_openmpi(Group& group, const StartFacts& facts) {
  const bool tcp = facts.transport == "tcp", one_host = facts.hosts.empty();
  std::vector<std::string> command{openmpi_launcher(), "-n",   std::to_string(facts.ranks),
                                   "--bind-to",        "none", "--oversubscribe"};
  const auto set = [&](const std::string& name, const std::string& value) {
    command.insert(command.end(), {"--mca", name, value});
  };
  if (one_host) set("plm", "isolated");  // no agent to reach others is looked for
  set("pml", "ob1");
  set("btl", tcp ? "tcp,self" : one_host ? "vader,self" : "vader,tcp,self");
  if (tcp || !one_host) set("btl_tcp_if_include", interface_of(facts));
  if (!tcp) set("btl_vader_single_copy_mechanism", siblings_may_read() ? "cma" : "none");
  // Otherwise a rank spins while the one it waits for has no core.
  set("mpi_yield_when_idle", static_cast<std::size_t>(facts.ranks) > facts.cores ? "1" : "0");
  if (!one_host) add_openmpi_hosts(command, group, facts);
  command.push_back(driver("openmpi_driver"));
  Variables variables = variables_for(group, facts);
  variables["OMPI_ALLOW_RUN_AS_ROOT"] = variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  variables["TMPDIR"] = group.folder();  // its session files go with ours
  start(group, command, variables, host_of(facts, 0));
}

void start_mpich(Group& group, const StartFacts& facts) {
  Variables variables = variables_for(group, facts);
  if (facts.transport == "tcp") {
    variables["MPIR_CVAR_NOLOCAL"] = "1";
    variables["UCX_TLS"] = "tcp,self";
    variables["UCX_NET_DEVICES"] = "lo";
  }
  start(group,
        {mpich_launcher(), "-launcher", "fork", "-bind-to", "none", "-n", std::to_string(facts.ranks),
         driver("mpich_driver")},
        variables, nullptr);
}

void start_torch(Group& group, const StartFacts& facts) {
  Variables variables = variables_for(group, facts);
  variables["GLOO_SOCKET_IFNAME"] = variables[kInterfaceVariable];
  start_each(group, facts, {torch_python(), driver("torch_gloo.py")}, variables);
}

void start_limit(Group& group, const StartFacts& facts) {
  start(group, {driver("limit_driver")}, variables_for(group, facts), nullptr);
}

void start_gloo(Group& group, const StartFacts& facts) {
  start_each(group, facts, {driver("gloo_driver")}, variables_for(group, facts));
}

struct Implementation {
  const char* name;
  const char* program;        // its driver, beside the command
  std::string (*launcher)();  // what it cannot be started without; null where nothing is needed
  const char* remedy;         // where one of them is missing
  bool shm;                   // works over shared memory only
  bool one_host;              // works on one host only
  void (*start)(Group& group, const StartFacts& facts);
};

constexpr Implementation kPeers[] = {
    {"openmpi", "openmpi_driver", openmpi_launcher, "install openmpi-bin and libopenmpi-dev, and build again", false,
     false, start_openmpi},
    {"mpich", "mpich_driver", mpich_launcher, "install mpich and libmpich-dev, and build again", false, true,
     start_mpich},
    {"gloo", "gloo_driver", nullptr, "install libgloo-dev, and build again", false, false, start_gloo},
    {"torch-gloo", "torch_gloo.py", torch_python, "install PyTorch (make test-torch does), or set TORCH_PYTHON", false,
     false, start_torch},
    {kLimit, "limit_driver", nullptr, "build it: it is part of the benchmarks (TUTTI_BENCH)", true, true, start_limit},
};

const Implementation* find(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(kPeers), std::end(kPeers), [&](const Implementation& it) { return it.name == name; });
  return found == std::end(kPeers) ? nullptr : found;
}

bool is_program(const std::string& name) { return name.find('/') != std::string::npos; }

}  // namespace

std::vector<std::string> known_peers() {
  std::vector<std::string> names;
  for (const Implementation& peer : kPeers) names.emplace_back(peer.name);
  return names;
}

std::optional<std::string> why_missing(const std::string& name, const std::string& transport, bool several_hosts,
                                       bool on_device) {
  if (is_program(name)) {
    if (::access(name.c_str(), X_OK) == 0) return std::nullopt;
    return fmt::format("'{}' is no program that can be run", name);
  }
  const Implementation* const peer = find(name);
  if (peer == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no implementation '{}'; there are: {}, all, or the path of a driver of your own", name,
                            fmt::join(known_peers(), ", ")));
  }
  if (on_device && peer->start != start_torch) return "its buffers are in host memory; torch-gloo takes a GPU's";
  if (peer->one_host && several_hosts) return "it runs on one host only, here";
  if (peer->shm && !shares_memory(transport)) return "it is about shared memory";
  if (!fs::exists(driver(peer->program)) || (peer->launcher != nullptr && peer->launcher().empty())) {
    return std::string(peer->remedy);
  }
  return std::nullopt;
}

void start_ranks(Group& group, const StartFacts& facts) {
  if (group.name() == kOurs || group.name() == kTuned || group.name() == kBrought || group.name() == kFlat) {
    return start_ours(group, facts);
  }
  if (is_program(group.name())) return start_each(group, facts, {group.name()}, variables_for(group, facts));
  find(group.name())->start(group, facts);
}

}  // namespace tutti::bench
