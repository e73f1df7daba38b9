#include "tutti/train/parameter_server.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/nearest_names.h"
#include "train/agreement.h"
#include "train/checkpoint_index.h"
#include "train/server_loop.h"
#include "train/server_wire.h"
#include "train/server_worker.h"
#include "train/words.h"

namespace tutti::train {
namespace {

constexpr const char* kConsistencies[] = {"synchronous", "stale", "asynchronous"};

std::string settings_in_words(const ServerOptions& options, const Optimizer& optimizer) {
  std::string words = "the settings servers";
  for (const int rank : options.servers) words += " " + std::to_string(rank);
  words += std::string(", ") + kConsistencies[static_cast<std::size_t>(options.consistency)];
  if (options.consistency == Consistency::stale) words += " with bound " + std::to_string(options.bound);
  words += ", optimizer " + std::string(optimizer_name(optimizer));
  for (const auto& [name, value] : optimizer_settings(optimizer)) words += ", " + name + " " + train::in_words(value);
  return words + ", patience " + std::to_string(options.patience.count()) + " ms";
}

std::string in_words(const ServedParameter& parameter) {
  return std::string(parameter.table ? "table \"" : "parameter \"") + parameter.name + "\" " +
         train::in_words(std::span(parameter.shape));
}

void check_alike(Communicator& comm, const ServedParameters& parameters, const std::string& settings) {
  std::vector<std::uint64_t> hashes{hash_of_text(settings)};
  for (const ServedParameter& parameter : parameters) hashes.push_back(hash_of_text(in_words(parameter)));
  Sentence said;
  train::require_alike(
      comm, hashes, [&](std::size_t i) { return i == 0 ? settings : in_words(parameters[i - 1]); },
      "make the same parameter server on all ranks", said);
}

void check_parameters(const ServedParameters& parameters) {
  std::set<std::string_view> names;
  for (const ServedParameter& parameter : parameters) {
    if (!names.insert(parameter.name).second)
      refuse_call("two parameters are named \"" + parameter.name + "\"; rename one");
    if (std::any_of(parameter.shape.begin(), parameter.shape.end(), [](std::int64_t extent) { return extent < 0; }))
      refuse_call(in_words(parameter) + " has a negative extent");
    if (parameter.table && parameter.shape.empty())
      refuse_call(in_words(parameter) + " has no rows; a table has one dimension at least");
  }
}

void check_settings(const ServerOptions& options, const Optimizer& optimizer, int ranks) {
  std::set<int> servers;
  for (const int rank : options.servers) {
    if (rank < 0 || rank >= ranks)
      refuse_call("server rank " + std::to_string(rank) + " is not a rank of the communicator, which has " +
                  std::to_string(ranks));
    if (!servers.insert(rank).second) refuse_call("server rank " + std::to_string(rank) + " is listed twice");
  }
  if (servers.empty()) refuse_call("no servers; name one rank at least in ServerOptions::servers");
  if (static_cast<int>(servers.size()) == ranks)
    refuse_call("all " + std::to_string(ranks) + " ranks are servers; leave one at least that works");
  if (options.consistency == Consistency::stale && options.bound < 0)
    refuse_call("a bound of " + std::to_string(options.bound) + " clocks; it is 0 at least");
  if (state_type(optimizer) != StateType::float32)
    refuse_call("states of 8 bits are not for a parameter server, whose rows they would cut; take float32");
  update(optimizer, 1, {});  // which looks at its numbers
}

strategy::KeyShape key_of(const ServedParameter& parameter) {
  std::size_t elements = 1;
  for (const std::int64_t extent : parameter.shape) elements *= static_cast<std::size_t>(extent);
  if (!parameter.table) return {parameter.name, 1, elements, false};
  std::size_t width = 1;
  for (std::size_t i = 1; i < parameter.shape.size(); ++i) width *= static_cast<std::size_t>(parameter.shape[i]);
  return {parameter.name, static_cast<std::size_t>(parameter.shape[0]), width, true};
}

ServerPlan plan_of(const ServedParameters& parameters, const ServerOptions& options, const Communicator& comm) {
  ServerPlan plan{.servers = options.servers, .options = options};
  for (const ServedParameter& parameter : parameters) plan.keys.push_back(key_of(parameter));
  plan.cuts = strategy::cut_keys(plan.keys, plan.server_count());
  for (int rank = 0; rank < comm.size(); ++rank)
    if (std::find(plan.servers.begin(), plan.servers.end(), rank) == plan.servers.end()) plan.workers.push_back(rank);
  if (options.patience.count() <= 0) plan.options.patience = comm.timeout();
  return plan;
}

// A worker's own: the servers in their order, then the worker.
Communicator group_of(Communicator& comm, const ServerPlan& plan, std::size_t worker) {
  std::vector<int> ranks = plan.servers;
  ranks.push_back(plan.workers[worker]);
  Communicator group = comm.create_group(ranks, static_cast<int>(worker));
  group.set_timeout(plan.options.patience);
  return group;
}

// Of the servers alone; its tag is behind those of the workers.
std::optional<Communicator> group_of_servers(Communicator& comm, const ServerPlan& plan) {
  if (plan.servers.size() == 1) return std::nullopt;
  return comm.create_group(plan.servers, static_cast<int>(plan.workers.size()));
}

// A worker begins when every server has made the groups of all workers, so that one that dies from then on is missed in
// its own group alone.
void tell_made(const ServerPlan& plan, std::vector<Communicator>& groups) {
  const ServerCommand made{static_cast<std::int64_t>(ServerWord::go)};
  for (Communicator& group : groups) group.send(made, plan.server_count(), kCommandTag);
}
void wait_until_made(const ServerPlan& plan, Communicator& group) {
  ServerCommand made{};
  for (int server = 0; server < plan.server_count(); ++server) group.recv(made, server, kCommandTag);
}

}  // namespace

ParameterServer::ParameterServer(Communicator& communicator, ServedParameters parameters, const Optimizer& optimizer,
                                 const ServerOptions& options) {
  Communicator comm = communicator.duplicate();
  check_alike(comm, parameters, settings_in_words(options, optimizer));
  all_or_none(comm, [&] {
    check_parameters(parameters);
    check_settings(options, optimizer, comm.size());
  });
  const ServerPlan plan = plan_of(parameters, options, comm);
  const auto server = std::find(plan.servers.begin(), plan.servers.end(), comm.rank());
  serves_ = server != plan.servers.end();
  workers_ = static_cast<int>(plan.workers.size());
  for (const ServedParameter& parameter : parameters) names_.push_back(parameter.name);
  if (!serves_) {
    const auto worker = std::find(plan.workers.begin(), plan.workers.end(), comm.rank()) - plan.workers.begin();
    Communicator group = group_of(comm, plan, static_cast<std::size_t>(worker));
    wait_until_made(plan, group);
    worker_ = std::make_unique<ServerWorker>(plan, std::move(group), comm.rank());
    return;
  }
  ServerGroups groups{.servers = group_of_servers(comm, plan)};
  for (std::size_t worker = 0; worker < plan.workers.size(); ++worker)
    groups.workers.push_back(group_of(comm, plan, worker));
  tell_made(plan, groups.workers);
  loop_ = std::make_unique<ServerLoop>(plan, static_cast<std::size_t>(server - plan.servers.begin()), parameters,
                                       optimizer, std::move(groups), comm.hosts());
}

ParameterServer::ParameterServer(ParameterServer&&) noexcept = default;
ParameterServer& ParameterServer::operator=(ParameterServer&&) noexcept = default;
ParameterServer::~ParameterServer() = default;

std::size_t ParameterServer::key(std::string_view name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at != names_.end()) return static_cast<std::size_t>(at - names_.begin());
  refuse_call("a key that no server owns: " + none_called("key", name, {names_.begin(), names_.end()}));
}

ServerWorker& ParameterServer::worker(const char* call) const {
  if (worker_ == nullptr)
    refuse_call(std::string(call) + " is a worker's call, and this rank is a server; let it call serve()");
  return *worker_;
}

ServerReport ParameterServer::serve() {
  if (loop_ == nullptr) refuse_call("serve is a server's call, and this rank is a worker; ask serves() first");
  return loop_->run();
}

std::span<const float> ParameterServer::held(std::size_t key) const {
  if (loop_ == nullptr) refuse_call("held is a server's call, and this rank is a worker; let it pull");
  return loop_->held(owned(key));
}

std::size_t ParameterServer::owned(std::size_t key) const {
  if (key < names_.size()) return key;
  refuse_call("no server owns key " + std::to_string(key) + "; there are " + std::to_string(names_.size()) +
              ", from 0 on");
}

void ParameterServer::push(std::size_t key, std::span<const float> gradient) {
  worker("push").push(owned(key), gradient);
}
void ParameterServer::pull(std::size_t key, std::span<float> values) { worker("pull").pull(owned(key), values); }
void ParameterServer::push_rows(std::size_t key, std::span<const std::int64_t> rows, std::span<const float> gradient) {
  worker("push_rows").push_rows(owned(key), rows, gradient);
}
void ParameterServer::pull_rows(std::size_t key, std::span<const std::int64_t> rows, std::span<float> values) {
  worker("pull_rows").pull_rows(owned(key), rows, values);
}
void ParameterServer::clock() { worker("clock").clock(); }
void ParameterServer::finish() { worker("finish").finish(); }
std::int64_t ParameterServer::clocks() const { return worker("clocks").clocks(); }
int ParameterServer::present() const { return worker("present").present(); }
Sentence ParameterServer::sentence() const { return worker("sentence").sentence(); }
Counters ParameterServer::counters() const { return worker("counters").counters(); }

}  // namespace tutti::train
