#include "engine/factory.h"

#include <algorithm>
#include <bit>
#include <iomanip>
#include <map>
#include <numeric>
#include <sstream>

#include "base/environment.h"
#include "base/rank_list.h"
#include "engine/schedule_files.h"
#include "engine/sharing.h"
#include "engine/wire.h"
#include "rendezvous/host.h"
#include "rendezvous/roster.h"
#include "rendezvous/watch.h"
#include "schedule/algorithms/table.h"
#include "schedule/lower.h"
#include "topology/discover/cost_file.h"
#include "transport/fabric.h"
#include "transport/memory/memory_transport.h"
#include "transport/mixed/mixed_transport.h"
#include "transport/shm/shm_mapper.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/threads/threads_mapper.h"
#include "transport/ucx/ucx.h"

namespace tutti::engine {
namespace {

constexpr int kChannels = Engine::kChannels;
constexpr int kPerChannel = Engine::kPerChannel;

// What goes between processes that share no memory, by what is asked for.
struct FabricRow {
  TransportKind kind;
  const char* name;  // for people
  transport::MakeFabric make;
  bool in_parallel;   // several threads can move bytes at once
  void (*require)();  // throws Error(unsupported) where there is none here; nullptr: it is everywhere
};
constexpr FabricRow kFabrics[] = {
    {TransportKind::automatic, "TCP", transport::make_tcp_fabric, true, nullptr},
    {TransportKind::tcp, "TCP", transport::make_tcp_fabric, true, nullptr},
    {TransportKind::ucx, "UCX", transport::make_ucx_fabric, false, transport::require_ucx},
};

// nullptr: nothing does.
const FabricRow* fabric_for(TransportKind kind) {
  const auto row =
      std::find_if(std::begin(kFabrics), std::end(kFabrics), [&](const auto& it) { return it.kind == kind; });
  return row == std::end(kFabrics) ? nullptr : row;
}

// Of the memory that so many of the members share.
transport::MemoryUse use_of_memory(std::size_t here, std::size_t members) {
  return here == members ? transport::MemoryUse(kChannels) : transport::MemoryUse(kChannels * kPerChannel, true);
}

// The ranks of each host, in the order of their first rank.
std::vector<std::vector<int>> hosts_of(const rendezvous::Met& met) {
  std::vector<std::vector<int>> hosts;
  std::map<std::string, std::size_t> index;
  for (int rank = 0; rank < met.size; ++rank) {
    const std::string& id = met.members[static_cast<std::size_t>(rank)].host_id;
    const auto [entry, first] = index.emplace(id, hosts.size());
    if (first) hosts.emplace_back();
    hosts[entry->second].push_back(rank);
  }
  return hosts;
}

Hosts by_rank(const std::vector<std::vector<int>>& hosts, int ranks) {
  std::vector<int> numbers(static_cast<std::size_t>(ranks));
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const int rank : hosts[host]) numbers[static_cast<std::size_t>(rank)] = static_cast<int>(host);
  }
  return Hosts(numbers);
}

std::vector<std::string> host_names(const rendezvous::Met& met) {
  std::vector<std::string> names;
  for (const rendezvous::Member& member : met.members) names.push_back(member.host);
  return names;
}

// Those of the members that share memory with this rank, by their rank among the members.
std::vector<int> in_memory(const Origin& origin, const std::vector<int>& members) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (origin.number_in_memory(members[i]) >= 0) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

int place_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

std::vector<int> all_of(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Of a group over several hosts whose wire nobody has measured: by rank 0 and the first rank of another host, while all
// others wait to hear of it.
void learn_wire(Engine& engine, const Log& log) {
  const Hosts& hosts = engine.transport().offers().hosts;
  choice::AgreedCosts costs = engine.costs();
  if (!hosts.several() || costs.wired) return;
  int peer = 0;
  while (hosts.share(0, peer)) ++peer;
  if (engine.rank() == 0 || engine.rank() == peer) {
    const bool leads = engine.rank() == 0;
    const std::chrono::milliseconds timeout = engine.timeout();
    engine.set_timeout(std::max(timeout, Engine::kPatienceToBegin));
    const choice::Wire wire = measure_wire(engine, leads ? peer : 0, leads);
    engine.set_timeout(timeout);
    if (leads) {
      choice::put_wire(costs, wire);
      std::ostringstream words;
      words << std::setprecision(2) << "between the hosts of ranks 0 and " << peer << ": "
            << 8e-9 / wire.seconds_per_byte << " Gbit/s each way, " << 1e6 * wire.message
            << " us for a short message, measured just now";
      log.info(words.str());
    }
  }
  engine.agree_on(costs);
}

// Rank 0's costs are everybody's.
std::unique_ptr<Engine> with_costs(std::unique_ptr<Engine> engine, const std::vector<std::string>& hosts,
                                   const Log& log) {
  choice::AgreedCosts costs;
  if (engine->rank() == 0 && engine->size() > 1) {
    const topology::FoundCosts found = topology::find_costs(Environment::of_process(), hosts, log);
    log.info(found.tuned ? "algorithms are chosen by what `tutti tune` has measured here"
                         : "algorithms are chosen by built-in costs; `tutti tune` measures this machine's");
    costs = choice::agreed_costs(found.table, engine->size(), engine->transport().offers().hosts.count(), found.tuned);
  }
  engine->agree_on(costs);
  learn_wire(*engine, log);
  return engine;
}

std::string words_of(const rendezvous::Met& met, const std::vector<std::vector<int>>& hosts) {
  std::string text = std::to_string(met.size) + (met.size == 1 ? " rank on " : " ranks on ") +
                     std::to_string(hosts.size()) + (hosts.size() == 1 ? " host: " : " hosts: ");
  for (const auto& ranks : hosts) {
    text += (&ranks == &hosts.front() ? "" : "; ") + met.members[static_cast<std::size_t>(ranks.front())].host + " (" +
            rank_names(ranks) + ")";
  }
  return text;
}

// Ranks of one machine that have only TCP between them are slower than they could be: somebody should know why.
void warn_of_slow_links(const rendezvous::Met& met, const std::vector<std::vector<int>>& hosts, const Log& log) {
  if (met.rank != 0) return;
  for (std::size_t host = 1; host < hosts.size(); ++host) {
    const auto& id_of = [&](std::size_t index) -> const std::string& {
      return met.members[static_cast<std::size_t>(hosts[index].front())].host_id;
    };
    for (std::size_t other = 0; other < host; ++other) {
      const std::string why = rendezvous::why_apart(id_of(other), id_of(host));
      if (why.empty()) continue;
      log.warn(rank_names(hosts[other]) + " and " + rank_names(hosts[host]) +
               " run on one machine but use TCP, which is slower than shared memory: " + why);
      break;
    }
  }
}

// Cores that these ranks of one host have between them; 0: not known.
std::size_t cores_of(const std::vector<rendezvous::Member>& members, const std::vector<int>& ranks) {
  std::vector<std::uint64_t> all;
  for (const int rank : ranks) {
    const std::vector<std::uint64_t>& cores = members[static_cast<std::size_t>(rank)].cores;
    if (cores.size() > all.size()) all.resize(cores.size());
    for (std::size_t i = 0; i < cores.size(); ++i) all[i] |= cores[i];
  }
  std::size_t cores = 0;
  for (const std::uint64_t word : all) cores += static_cast<std::size_t>(std::popcount(word));
  return cores;
}

// Whether they have fewer than they are.
bool oversubscribed(const std::vector<rendezvous::Member>& members, const std::vector<int>& ranks) {
  const std::size_t cores = cores_of(members, ranks);
  return cores != 0 && ranks.size() > cores;
}

// Of a process with all others, for all parts: many systems let it open 1024 files.
constexpr int kMostPartConnections = 256;

// In how many parts large calls go, by a thread each: where all of those have a core, and a call that needs all ranks
// not too many connections. Beside memory that ranks share they go in one piece.
int parts_of_calls(const FabricRow& row, const Options& options, const rendezvous::Met& met,
                   const std::vector<std::vector<int>>& hosts, bool mixed) {
  if (!row.in_parallel || mixed) return 1;
  if (options.tcp_threads != 0) return options.tcp_threads;
  const int of_a_part = Engine::kTracks * std::max(1, met.size - 1);
  auto least = static_cast<std::size_t>(std::clamp(kMostPartConnections / of_a_part, 1, transport::kMostCallParts));
  for (const std::vector<int>& ranks : hosts) least = std::min(least, cores_of(met.members, ranks) / ranks.size());
  return static_cast<int>(std::max<std::size_t>(least, 1));
}

std::unique_ptr<transport::Mapper> make_mapper(rendezvous::Met& met, const Deadline& deadline) {
  transport::ShmLinks links{place_of(met.memory_ranks, met.rank), static_cast<int>(met.memory_ranks.size()),
                            std::move(met.memory_sockets), std::move(met.life), met.memory_ranks};
  return transport::make_shm_mapper(std::move(links), deadline);
}

// A group of ranks of the job, of which this is the one at `rank`.
struct LinkedGroup {
  const Linked& linked;
  std::vector<int> ranks;
  int rank = 0;
  std::uint64_t number = rendezvous::kEverybody;

  Hosts hosts() const { return linked.hosts.among(ranks); }
  bool oversubscribed() const {
    std::vector<int> here;
    for (const int other : ranks) {
      if (linked.hosts.share(linked.rank, other)) here.push_back(other);
    }
    return engine::oversubscribed(linked.members, here);
  }
};

// `memory`: of this rank's host, or nullptr.
std::unique_ptr<transport::StreamTransport> make_streams(const LinkedGroup& group, std::unique_ptr<Control> control,
                                                         transport::Transport* memory) {
  transport::StreamOptions options;
  options.channels = kChannels;
  options.per_channel = kPerChannel;
  options.parts = group.linked.parts;
  if (!group.linked.mixed) options.hosts = group.hosts();
  options.oversubscribed = group.oversubscribed();
  if (memory != nullptr)
    options.said = [memory](int channel) { return transport::stated(*memory->flags(channel, memory->rank())); };
  return group.linked.fabric->make_transport({group.rank, group.ranks, group.number}, std::move(control),
                                             std::move(options));
}

// What is offered follows from what all ranks know, the whole roster: also where this one is alone on its host.
std::unique_ptr<transport::Transport> make_linked(const LinkedGroup& group, std::unique_ptr<Control> control,
                                                  std::unique_ptr<transport::Transport> inner,
                                                  std::optional<bool> single_copy, const Deadline& deadline) {
  auto outer = make_streams(group, std::move(control), inner.get());
  if (!group.linked.mixed) return outer;
  transport::MixedTransport::Parts parts;
  parts.hosts = group.hosts();
  parts.memory = memory_offers(parts.hosts.most_on_one(outer->size()), true);
  parts.single_copy = single_copy;
  parts.inner = std::move(inner);
  parts.outer = std::move(outer);
  return std::make_unique<transport::MixedTransport>(std::move(parts), deadline);
}

// What all groups of the job have. `elsewhere`: see MakeFabric.
std::shared_ptr<Linked> link(const FabricRow& row, rendezvous::Met& met, const Hosts& hosts, bool mixed,
                             std::function<void()> elsewhere) {
  auto linked = std::make_shared<Linked>();
  linked->plane = std::move(met.plane);
  linked->fabric = row.make({met.rank, met.size, kChannels * kPerChannel}, std::move(met.links), std::move(elsewhere));
  linked->members = met.members;
  linked->hosts = hosts;
  linked->mixed = mixed;
  linked->rank = met.rank;
  return linked;
}

// The group that the caller makes first is the one that its schedules are meant for.
std::shared_ptr<const ScheduleFiles> schedules_for(const Options& options, int ranks) {
  auto files = std::make_shared<const ScheduleFiles>(read_schedules(options));
  for (const ScheduleFile& file : *files) require_ranks(file, ranks);
  return files;
}

// A group that was made of another may lie on its hosts otherwise.
std::shared_ptr<const ScheduleFiles> those_that_fit(ScheduleFiles files, const Offers& offers) {
  std::erase_if(files, [&](const ScheduleFile& file) { return !why_not(file, offers).empty(); });
  return std::make_shared<const ScheduleFiles>(std::move(files));
}

}  // namespace

std::vector<std::unique_ptr<transport::Mapper>> make_threads_group(int ranks) {
  return transport::make_threads_mappers(ranks);
}

void require_options(const Options& options) {
  if (static_cast<std::size_t>(options.transport) >= kTransportKinds)
    throw Error(ErrorCode::invalid_argument,
                "there is no transport " + std::to_string(static_cast<int>(options.transport)));
  if (options.tcp_threads < 0 || options.tcp_threads > transport::kMostCallParts)
    throw Error(ErrorCode::invalid_argument, "Options::tcp_threads is " + std::to_string(options.tcp_threads) +
                                                 "; it may be 1 to 4, or 0 for what suits the hosts");
  const FabricRow* const row = fabric_for(options.transport);
  if (row != nullptr && row->require != nullptr) row->require();
}

std::vector<std::string> settings(const Options& options) {
  return {rendezvous::kBuild + std::to_string(schedule::hash_of_table()),
          "TUTTI_ALGORITHM=" + (options.algorithm.empty() ? "unset" : options.algorithm),
          "TUTTI_SCHEDULE=" + words_of(read_schedules(options)),
          std::string("TUTTI_VERIFY=") + (options.verify ? "1" : "0"),
          "TUTTI_TCP_THREADS=" + (options.tcp_threads == 0 ? "auto" : std::to_string(options.tcp_threads)),
          std::string("TUTTI_CHECK=") + (options.check == Check::full ? "full" : "quick"),
          std::string("Options::deterministic=") + (options.deterministic ? "true" : "false")};
}

std::unique_ptr<Engine> make_engine(rendezvous::Met met, const Options& options, const Log& log,
                                    const Deadline& deadline) {
  static_cast<void>(choice::forced_algorithms(options.algorithm, options.deterministic));  // said before ranks meet
  Origin origin;
  origin.schedules = schedules_for(options, met.size);
  origin.job_ranks = all_of(origin.job_size = met.size);
  origin.memory_ranks = met.memory_ranks;
  origin.silence = met.silence;
  origin.log = log;
  const auto make_memory = [&] {
    auto mapper = make_mapper(met, deadline);
    origin.memory = mapper->regrouping();
    return std::make_unique<transport::MemoryTransport>(
        std::move(mapper), use_of_memory(met.memory_ranks.size(), static_cast<std::size_t>(met.size)), deadline);
  };
  const auto finish = [&](std::unique_ptr<transport::Transport> transport) {
    return with_costs(std::make_unique<Engine>(std::move(transport), options, log, std::move(origin)), host_names(met),
                      log);
  };
  const auto hosts = hosts_of(met);
  const auto say = [&](const std::string& how) {
    if (met.rank != 0 || !log.says(Log::Level::info)) return;
    log.info(words_of(met, hosts) + "; " + how);
    log.info(words_of_sharing(met.members, hosts));
  };
  if (static_cast<int>(met.memory_ranks.size()) == met.size) {
    say("shared memory");
    return finish(make_memory());
  }
  if (options.transport == TransportKind::automatic) warn_of_slow_links(met, hosts, log);
  const FabricRow& row = *fabric_for(options.transport);  // where there is none, the meeting has refused
  const bool mixed = host_memory_of(options.transport) != HostMemory::never && hosts.size() > 1 &&
                     static_cast<int>(hosts.size()) < met.size;
  const int parts = parts_of_calls(row, options, met, hosts, mixed);
  say((mixed ? std::string("shared memory inside hosts, ") + row.name + " across" : row.name) +
      (parts > 1 ? "; calls of 2 MB and more by " + std::to_string(parts) + " threads of each rank" : ""));
  auto memory = mixed && met.memory_ranks.size() > 1 ? make_memory() : nullptr;
  auto linked = link(row, met, by_rank(hosts, met.size), mixed, memory ? memory->waker() : nullptr);
  linked->parts = parts;
  origin.linked = std::move(linked);
  const LinkedGroup group{*origin.linked, origin.job_ranks, met.rank};
  return finish(make_linked(group, std::move(met.control), std::move(memory), std::nullopt, deadline));
}

std::unique_ptr<Engine> make_engine(std::unique_ptr<transport::Mapper> mapper, const Options& options,
                                    const Deadline& deadline) {
  static_cast<void>(choice::forced_algorithms(options.algorithm, options.deterministic));  // said before ranks meet
  Origin origin;
  origin.schedules = schedules_for(options, mapper->size());
  origin.memory = mapper->regrouping();
  origin.memory_ranks = origin.job_ranks = all_of(origin.job_size = mapper->size());
  auto transport = std::make_unique<transport::MemoryTransport>(std::move(mapper), kChannels, deadline);
  return with_costs(std::make_unique<Engine>(std::move(transport), options, Log(), std::move(origin)),
                    {rendezvous::host_name()}, Log());
}

GroupPlace make_place(const Engine& parent, const std::vector<int>& members) {
  const Origin& from = parent.origin();
  GroupPlace place;
  const int here = static_cast<int>(in_memory(from, members).size());
  if (from.memory != nullptr && here > 0 && first_in_memory(parent, members) == parent.rank())
    place.memory = from.memory->make_place(
        transport::MemoryTransport::arena_bytes(here, use_of_memory(static_cast<std::size_t>(here), members.size())),
        here);
  constexpr int kCounterBits = 40;  // numbers are never used again
  if (!members.empty() && members.front() == parent.rank())
    place.number = (static_cast<std::uint64_t>(from.job_rank(parent.rank())) + 1) << kCounterBits | ++*from.groups;
  return place;
}

int first_in_memory(const Engine& parent, const std::vector<int>& members) {
  const auto shares = [&](int member) { return parent.origin().number_in_memory(member) >= 0; };
  return *std::find_if(members.begin(), members.end(), shares);
}

std::unique_ptr<Engine> make_engine(const Engine& parent, const std::vector<int>& members, const GroupPlace& place,
                                    const Deadline& deadline, const std::function<bool()>& hopeless) {
  const Origin& from = parent.origin();
  const int rank = place_of(members, parent.rank());
  Origin origin = from;
  origin.memory_ranks = in_memory(from, members);
  std::unique_ptr<transport::Transport> transport;
  if (from.memory != nullptr) {
    std::vector<int> numbers;  // by which the memory knows them
    for (const int here : origin.memory_ranks)
      numbers.push_back(from.number_in_memory(members[static_cast<std::size_t>(here)]));
    auto mapper = from.memory->part(place.memory, numbers, place_of(origin.memory_ranks, rank), origin.memory_ranks);
    origin.memory = mapper->regrouping();
    transport = std::make_unique<transport::MemoryTransport>(
        std::move(mapper), use_of_memory(origin.memory_ranks.size(), members.size()), deadline, hopeless);
  }
  origin.number = place.number;
  origin.job_ranks.clear();
  for (const int member : members) origin.job_ranks.push_back(from.job_rank(member));
  if (from.memory != nullptr && origin.memory_ranks.size() == members.size()) {
    origin.linked = nullptr;
  } else {
    const LinkedGroup group{*from.linked, origin.job_ranks, rank, place.number};
    auto control = members.size() == 1 ? nullptr : from.linked->plane->enter(place.number, origin.job_ranks);
    transport = make_linked(group, std::move(control), std::move(transport),
                            parent.transport().offers().inside.single_copy, deadline);
  }
  // What there is to warn of was said when the parent was made.
  const Log log = from.log.says(Log::Level::info) ? from.log : Log();
  origin.schedules = those_that_fit(*from.schedules, transport->offers());
  auto engine = std::make_unique<Engine>(std::move(transport), parent.options(), log, std::move(origin));
  engine->adopt(parent.costs());
  return engine;
}

}  // namespace tutti::engine
