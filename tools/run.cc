// tutti run: starts the ranks of a job on this host, and one of several hosts where the same command runs on each.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/nearest_names.h"
#include "rendezvous/launch/launch.h"
#include "rendezvous/token.h"
#include "tools/launch/agents.h"
#include "tools/launch/descriptors.h"
#include "tools/launch/job.h"
#include "tools/launch/mapping.h"
#include "tools/launch/place.h"
#include "tools/launch/process.h"
#include "tools/launch/supervisor.h"
#include "tools/trace_merge.h"
#include "tools/verbs.h"
#include "topology/discover/core_place.h"
#include "topology/discover/cores.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using rendezvous::Token;

constexpr int kMostRanksPerHost = 4096;

constexpr const char* kRunExamples = R"(Examples:
  tutti run -n 4 -- ./train --epochs 3       four ranks on this host
  tutti run -n 4 python train.py --lr 0.1    whatever follows the program is the program's, with or without --
  tutti run -n 2 --no-prefix -- ./quiz       the ranks write to your terminal directly
  tutti run -n 4 --bind core --map-by socket -- ./train      each on a core of its own, neighbours on different sockets
  tutti run -n 4 --trace run.json -- ./train  where its time goes: who computes, sends, waits for whom
  tutti run -n 4 --dry-run -- ./train        what each rank would be told, and nothing started

  Two hosts with four ranks each: the same command on both, but for --node-rank (0 runs on the host of --rendezvous):
  tutti token job.token                      once; then copy it: scp -p job.token node1:
  tutti run --nnodes 2 --node-rank 0 --rendezvous node0:29400 --token-file job.token -n 4 -- ./train
  tutti run --nnodes 2 --node-rank 1 --rendezvous node0:29400 --token-file job.token -n 4 -- ./train

  The same from one of them, where ssh reaches both without asking:
  tutti run --hosts node0,node1 -n 4 --map-by node -- ./train

Programs that use Tutti find their rank and each other by themselves; so do PyTorch scripts that call
init_process_group(backend), because the variables of torchrun are set as well (RANK, WORLD_SIZE, LOCAL_RANK, ...).

Output:   each line behind the rank that wrote it, "[2] loss 0.3". Python holds lines back unless PYTHONUNBUFFERED=1.
Input:    rank 0 reads this command's standard input, the others read nothing.
Signals:  SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to all ranks; a second Ctrl-C or SIGTERM kills them.
Failure:  the first rank that fails decides the exit code (128 + signal as in a shell; 127 and 126 where the program
          cannot be run). The others have --grace seconds to say what they saw, then get SIGTERM, 2 s later SIGKILL.)";

struct RunOptions {
  std::optional<int> ranks;
  std::string names;  // of hosts that agents reach
  std::string agent;
  int hosts = 1;
  std::optional<int> host;
  std::string rendezvous;
  std::string job;
  std::string token_file;
  std::optional<int> master_port;
  std::string bind = "none";
  std::string map_by = "slot";
  double grace_s = 2;
  std::string trace;
  bool no_prefix = false;
  bool dry_run = false;
  std::vector<std::string> command;
};

std::string variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

std::string random_name() { return Token::random().hex().substr(0, 16); }

void check(const RunOptions& asked) {
  if (asked.command.empty()) refuse("name the program to run, as in: tutti run -n 4 -- ./train --epochs 3");
  if (asked.ranks && (*asked.ranks < 1 || *asked.ranks > kMostRanksPerHost)) {
    refuse(fmt::format("-n must be 1 to {}, not {}", kMostRanksPerHost, *asked.ranks));
  }
  if (asked.hosts < 1) refuse(fmt::format("--nnodes must be at least 1, not {}", asked.hosts));
  if (asked.host.value_or(0) < 0 || asked.host.value_or(0) >= asked.hosts) {
    refuse(fmt::format("--node-rank is {}, but --nnodes {} has the node ranks 0 to {}", *asked.host, asked.hosts,
                       asked.hosts - 1));
  }
  if (!(asked.grace_s >= 0 && asked.grace_s <= 1e6)) refuse("--grace must be a number of seconds from 0 to 1000000");
  if (asked.bind != "none" && asked.bind != "core") {
    refuse(fmt::format("--bind must be core or none, not '{}'", asked.bind));
  }
  const std::optional<MapBy> map_by = map_by_named(asked.map_by);
  if (!map_by) refuse("--map-by: " + none_called("order", asked.map_by, map_by_names()));
  if ((*map_by == MapBy::socket || *map_by == MapBy::l3cache) && asked.bind != "core")
    refuse(fmt::format("--map-by {} is about the cores that ranks are bound to: add --bind core", asked.map_by));
  if (asked.master_port && (*asked.master_port < 1 || *asked.master_port > 65535)) {
    refuse(fmt::format("--master-port must be 1 to 65535, not {}", *asked.master_port));
  }
  if (asked.hosts == 1) return;
  if (!asked.host) refuse("--nnodes needs --node-rank: which of the nodes this is, 0 on the host of --rendezvous");
  if (!asked.ranks) refuse("--nnodes needs -n: the number of ranks of each host, the same on all of them");
  const long long ranks = static_cast<long long>(asked.hosts) * *asked.ranks;
  if (ranks >= rendezvous::kMostRanks) {
    refuse(fmt::format("--nnodes {} with -n {} makes {} ranks; a job has fewer than {}", asked.hosts, *asked.ranks,
                       ranks, rendezvous::kMostRanks));
  }
  if (asked.rendezvous.empty()) {
    refuse(
        "--nnodes needs --rendezvous host:port, the same on every host: the host of --node-rank 0 and a free port of "
        "it");
  }
}

// Across hosts the file that all of them hold; on one host a new token, unless a file is asked for.
void add_token(const RunOptions& asked, Job& job) {
  std::string file = asked.token_file;
  if (file.empty() && asked.hosts > 1) file = variable("TUTTI_TOKEN_FILE");
  if (file.empty() && asked.hosts > 1) {
    refuse(
        "a job on several hosts needs a token file; make one with `tutti token job.token`, copy it to all hosts "
        "(scp -p), and name it with --token-file or TUTTI_TOKEN_FILE");
  }
  if (file.empty()) {
    job.token = Token::random().hex();
  } else {
    static_cast<void>(Token::read_file(file));
    job.token_file = std::filesystem::absolute(file);
  }
}

void add_meeting(const RunOptions& asked, Job& job) {
  if (asked.rendezvous.empty()) {
    const std::string unique = random_name();
    job.rendezvous = "unix:@tutti-run-" + unique;
    job.name = asked.job.empty() ? "run-" + unique : asked.job;
    job.master_address = "127.0.0.1";
    job.master_port = asked.master_port ? *asked.master_port : free_port();
    return;
  }
  const MeetingPlace place = meeting_place(asked.rendezvous, asked.hosts);
  job.rendezvous = asked.rendezvous;
  job.name = asked.job.empty() ? "run-" + asked.rendezvous : asked.job;
  job.master_address = place.host;
  job.master_port = asked.master_port.value_or(place.port + 1);
  if (job.master_port > 65535) refuse("the port after that of --rendezvous is none: name one with --master-port");
}

Job job_of(const RunOptions& asked, std::size_t cores) {
  Job job;
  job.ranks_per_host = asked.ranks.value_or(static_cast<int>(cores));
  job.hosts = asked.hosts;
  job.host = asked.host.value_or(0);
  job.round_hosts = *map_by_named(asked.map_by) == MapBy::node;
  job.threads_per_rank = std::max(1, static_cast<int>(cores) / job.ranks_per_host);
  add_token(asked, job);
  add_meeting(asked, job);
  if (!asked.trace.empty()) job.trace = std::filesystem::absolute(asked.trace);
  return job;
}

void print_plan(const Job& job) {
  for (int i = 0; i < job.ranks_per_host; ++i) {
    fmt::print("rank {}\n", job.rank_of(i));
    for (const auto& [name, value] : variables_of_rank(job, i, {})) {
      fmt::print("  {}={}\n", name, name == "TUTTI_TOKEN" ? "(hidden)" : value);
    }
  }
}

// Cores in the order in which ranks are bound to them.
std::vector<cpu_set_t> in_order(const std::vector<cpu_set_t>& cores, MapBy map_by) {
  if (map_by != MapBy::socket && map_by != MapBy::l3cache) return cores;
  std::vector<int> groups;
  for (const cpu_set_t& core : cores) {
    std::vector<std::uint64_t> bits(CPU_SETSIZE / 64);
    for (std::size_t i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &core)) bits[i / 64] |= std::uint64_t{1} << (i % 64);
    }
    const topology::CorePlace place = topology::place_of_cores(bits);
    groups.push_back(map_by == MapBy::socket ? place.package : place.cache);
  }
  std::vector<cpu_set_t> ordered;
  for (const std::size_t index : round_groups(groups)) ordered.push_back(cores[index]);
  return ordered;
}

int run(const RunOptions& asked) {
  check(asked);
  const std::vector<cpu_set_t> cores = topology::allowed_cores();
  const Job job = job_of(asked, cores.size());
  if (asked.dry_run) {
    print_plan(job);
    return 0;
  }
  LaunchPlan plan;
  plan.command = asked.command;
  plan.prefix = !asked.no_prefix;
  plan.grace = std::chrono::milliseconds(static_cast<long long>(asked.grace_s * 1000));
  if (asked.bind == "core") plan.cores = in_order(cores, *map_by_named(asked.map_by));
  if (asked.bind == "core" && cores.size() < static_cast<std::size_t>(job.ranks_per_host)) {
    say("run", fmt::format("{} ranks are bound to {} cores, so some share one; each waits while another runs",
                           job.ranks_per_host, cores.size()));
  }
  const Variables inherited = variables_of_process();
  for (int i = 0; i < job.ranks_per_host; ++i) {
    plan.ranks.push_back(job.rank_of(i));
    plan.environments.push_back(entries_of(variables_of_rank(job, i, inherited)));
  }
  plan.descriptor_limit = provide_descriptors(plan.environments.size());
  if (!job.trace.empty()) clear_trace(job.trace);  // before the lobby is there, without which no rank records
  const auto lobby = open_lobby(job);
  try {
    const Outcome outcome = Supervisor(std::move(plan), lobby.get()).run();
    for (const std::string& sentence : outcome.sentences) say("run", sentence);
    const bool traced = job.trace.empty() || finish_trace("run", job.trace, job.hosts == 1);
    return outcome.exit_code == 0 && !traced ? kFailed : outcome.exit_code;
  } catch (const CannotRun& refused) {
    say("run", refused.what());
    return refused.exit_code;
  }
}

// As `tutti run` on each of the hosts is told.
std::vector<std::string> options_for_hosts(const RunOptions& asked) {
  std::vector<std::string> options{"-n",           fmt::format("{}", *asked.ranks),
                                   "--rendezvous", asked.rendezvous,
                                   "--map-by",     asked.map_by,
                                   "--bind",       asked.bind,
                                   "--grace",      fmt::format("{}", asked.grace_s),
                                   "--job",        asked.job.empty() ? "run-" + random_name() : asked.job};
  const auto add = [&](bool wanted, std::initializer_list<std::string> words) {
    if (wanted) options.insert(options.end(), words);
  };
  add(asked.master_port.has_value(), {"--master-port", fmt::format("{}", asked.master_port.value_or(0))});
  add(!asked.trace.empty(), {"--trace", asked.trace});
  add(asked.no_prefix, {"--no-prefix"});
  return options;
}

// What this process was told of Tutti, but for what the job has of its own.
std::vector<std::string> variables_for_hosts() {
  std::vector<std::string> found;
  for (const auto& [name, value] : variables_of_process()) {
    if (name.starts_with("TUTTI_") && !name.starts_with("TUTTI_TOKEN") && name != "TUTTI_RENDEZVOUS")
      found.push_back(name + "=" + value);
  }
  return found;
}

int run_on_hosts(RunOptions asked) {
  AgentPlan plan;
  plan.hosts = parts_of(asked.names, ',');
  if (plan.hosts.empty()) refuse("--hosts needs the names of hosts with commas between, as in --hosts node0,node1");
  if (asked.hosts != 1 || asked.host || !asked.token_file.empty())
    refuse(
        "--hosts starts the ranks of all hosts, with a token of their own: leave --nnodes, --node-rank and "
        "--token-file out");
  if (!asked.ranks) refuse("--hosts needs -n: the number of ranks of each host, the same on all of them");
  plan.agent = parts_of(asked.agent.empty() ? kUsualAgent : asked.agent, ' ');
  if (plan.agent.empty()) refuse("--agent needs a command that runs another one on a host, such as ssh");
  const std::string& first = plan.hosts.front();
  if (asked.rendezvous.empty()) asked.rendezvous = fmt::format("{}:{}", first.substr(first.find('@') + 1), kUsualPort);
  asked.hosts = static_cast<int>(plan.hosts.size());
  asked.host = 0;
  check(asked);
  plan.options = options_for_hosts(asked);
  plan.command = asked.command;
  plan.variables = variables_for_hosts();
  plan.token = asked.dry_run ? "(hidden)" : Token::random().hex();
  plan.folder = std::filesystem::current_path();
  plan.program = std::filesystem::read_symlink("/proc/self/exe");
  plan.grace = std::chrono::milliseconds(static_cast<long long>(asked.grace_s * 1000));
  if (asked.dry_run) {
    for (std::size_t i = 0; i < plan.hosts.size(); ++i)
      fmt::print("{} {} sh -s, which reads\n{}", fmt::join(plan.agent, " "), plan.hosts[i], words_for_host(plan, i));
    return 0;
  }
  try {
    return run_by_agents(plan, [](const std::string& sentence) { say("run", sentence); });
  } catch (const CannotRun& refused) {
    say("run", refused.what());
    return refused.exit_code;
  }
}

// The program is no option to CLI11, so its help would leave it out.
class WithProgram : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: tutti run [OPTIONS] [--] PROGRAM [ARGUMENTS...]\n";
  }
};

// Refuses what is no number, in words about what it is for.
template <class Number>
void must_be_number(CLI::Option* option, const char* name, const char* what) {
  option->check([name, what](const std::string& text) {
    const CLI::TypeValidator<Number> number;
    if (!number(text).empty()) refuse(fmt::format("{} needs {}, not '{}'", name, what, text));
    return std::string();
  });
}

void add_options(CLI::App& verb, RunOptions& asked) {
  verb.add_option("-n,--ranks", asked.ranks, "Ranks on this host; if left out one per core it may use")->type_name("N");
  verb.add_option("--nnodes", asked.hosts, "Number of hosts; 1 if left out")->type_name("N");
  verb.add_option("--node-rank", asked.host, "Which of the hosts this is, from 0")->type_name("I");
  verb.add_option("--rendezvous", asked.rendezvous,
                  "Where the hosts meet, the same on each: host 0 and a free port of it; or TUTTI_RENDEZVOUS")
      ->type_name("HOST:PORT");
  verb.add_option("--token-file", asked.token_file, "The job's token across hosts (tutti token); or TUTTI_TOKEN_FILE")
      ->type_name("FILE");
  verb.add_option("--job", asked.job, "Name of the job, the same on each host; if left out made from --rendezvous")
      ->type_name("NAME");
  verb.add_option("--master-port", asked.master_port,
                  "Port for PyTorch's store; if left out a free one, across hosts the one after --rendezvous")
      ->type_name("PORT");
  verb.add_option("--bind", asked.bind,
                  "core pins rank i to the i-th core this command may use; none (default) does not")
      ->type_name("core|none");
  verb.add_option(
          "--map-by", asked.map_by,
          "How ranks go over hosts: slot (default) host after host, node round them; the same on each host. With "
          "--bind core also socket or l3cache: host after host, and there round those")
      ->type_name("slot|node|socket|l3cache");
  verb.add_option("--grace", asked.grace_s, "Time the others have when a rank fails; 2 if left out")
      ->type_name("SECONDS");
  must_be_number<int>(verb.get_option("-n"), "-n", "a number of ranks");
  must_be_number<int>(verb.get_option("--nnodes"), "--nnodes", "a number of hosts");
  must_be_number<int>(verb.get_option("--node-rank"), "--node-rank", "the number of this host, from 0");
  must_be_number<int>(verb.get_option("--master-port"), "--master-port", "the number of a port");
  must_be_number<double>(verb.get_option("--grace"), "--grace", "a number of seconds");
  verb.add_option("--trace", asked.trace,
                  "Record what the ranks do, by time, for this file: tutti view --file, or ui.perfetto.dev, shows it")
      ->type_name("FILE");
  verb.add_option(
          "--hosts,--host,-H", asked.names,
          "Hosts to start -n ranks on each of, with commas between; they meet on port 29400 of the first, or at "
          "--rendezvous")
      ->type_name("NAMES");
  verb.add_option("--agent", asked.agent,
                  fmt::format("How --hosts are reached: what runs a command on a host; {} if left out", kUsualAgent))
      ->type_name("COMMAND");
  // What launchers of others take, and what there is instead.
  verb.add_option_function<std::string>("--hostfile",
                                        [](const std::string&) { refuse("name the hosts: --hosts node0,node1"); })
      ->group("");
  verb.add_flag("--no-prefix", asked.no_prefix, "Leave output as it is: ranks write to this command's own streams");
  verb.add_flag("--dry-run", asked.dry_run, "Print the variables each rank would get, and start nothing");
}

}  // namespace

std::vector<std::string> split_off_program(const CLI::App& app, std::vector<std::string>& arguments) {
  if (arguments.empty()) return {};
  if (arguments.front() == "study") {  // only what is marked: studies have arguments of their own
    const auto mark = std::ranges::find(arguments, "--");
    std::vector<std::string> program(mark == arguments.end() ? mark : mark + 1, arguments.end());
    arguments.erase(mark, arguments.end());
    return program;
  }
  if (arguments.front() != "run") return {};
  const CLI::App* verb = app.get_subcommand("run");
  std::size_t at = 1;
  for (; at < arguments.size() && arguments[at].size() > 1 && arguments[at].front() == '-'; ++at) {
    if (arguments[at] == "--") break;
    const CLI::Option* option = verb->get_option_no_throw(arguments[at]);  // none where a value is attached: -n4, --a=b
    if (option != nullptr && option->get_items_expected_max() > 0) ++at;
  }
  at = std::min(at, arguments.size());
  const auto own_end = arguments.begin() + static_cast<std::ptrdiff_t>(at);
  const bool marked = at < arguments.size() && arguments[at] == "--";
  std::vector<std::string> program(own_end + (marked ? 1 : 0), arguments.end());
  arguments.erase(own_end, arguments.end());
  return program;
}

void add_run(CLI::App& app, int& exit_code, const std::vector<std::string>& program) {
  CLI::App* verb = app.add_subcommand("run", "Run a program as the ranks of a job, on this host or on several");
  verb->footer(kRunExamples);
  const auto formatter = std::make_shared<WithProgram>();
  formatter->column_width(34);
  verb->formatter(formatter);
  const auto asked = std::make_shared<RunOptions>();
  add_options(*verb, *asked);
  verb->callback([asked, &exit_code, &program] {
    asked->command = program;
    if (asked->hosts > 1 && asked->rendezvous.empty()) asked->rendezvous = variable("TUTTI_RENDEZVOUS");
    exit_code = asked->names.empty() ? run(*asked) : run_on_hosts(*asked);
  });
}

}  // namespace tutti::tools
