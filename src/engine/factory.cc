#include "engine/factory.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "base/environment.h"
#include "base/rank_list.h"
#include "rendezvous/host.h"
#include "rendezvous/roster.h"
#include "rendezvous/watch.h"
#include "schedule/algorithms/table.h"
#include "schedule/lower.h"
#include "topology/discover/cost_file.h"
#include "transport/memory/memory_transport.h"
#include "transport/mixed/mixed_transport.h"
#include "transport/shm/shm_mapper.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/threads/threads_mapper.h"

namespace tutti::engine {
namespace {

constexpr int kChannels = Engine::kTracks + 1;

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

std::vector<std::string> host_names(const rendezvous::Met& met) {
  std::vector<std::string> names;
  for (const rendezvous::Member& member : met.members) names.push_back(member.host);
  return names;
}

std::vector<int> all_of(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Origin origin_of(const Engine* parent, std::shared_ptr<transport::Regrouping> memory, std::vector<int> memory_ranks,
                 rendezvous::Again again) {
  Origin origin = parent == nullptr ? Origin() : parent->origin();
  origin.memory = std::move(memory);
  origin.memory_ranks = std::move(memory_ranks);
  origin.again = std::move(again);
  return origin;
}

// Rank 0's costs are everybody's.
std::unique_ptr<Engine> with_costs(std::unique_ptr<Engine> engine, const Engine* parent,
                                   const std::vector<std::string>& hosts, const Log& log) {
  if (parent != nullptr) {
    engine->adopt(parent->costs());
  } else {
    choice::AgreedCosts costs;
    if (engine->rank() == 0 && engine->size() > 1) {
      const topology::FoundCosts found = topology::find_costs(Environment::of_process(), hosts, log);
      log.info(found.tuned ? "algorithms are chosen by what `tutti tune` has measured here"
                           : "algorithms are chosen by built-in costs; `tutti tune` measures this machine's");
      costs = choice::agreed_costs(found.table, engine->size(), found.tuned);
    }
    engine->agree_on(costs);
  }
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

// Whether these ranks of one host have fewer cores between them than they are.
bool oversubscribed(const std::vector<rendezvous::Member>& members, const std::vector<int>& ranks) {
  std::vector<std::uint64_t> all;
  for (const int rank : ranks) {
    const std::vector<std::uint64_t>& cores = members[static_cast<std::size_t>(rank)].cores;
    if (cores.size() > all.size()) all.resize(cores.size());
    for (std::size_t i = 0; i < cores.size(); ++i) all[i] |= cores[i];
  }
  std::size_t known = 0;
  for (const std::uint64_t word : all) known += static_cast<std::size_t>(std::popcount(word));
  return known != 0 && ranks.size() > known;
}

std::unique_ptr<transport::Mapper> make_mapper(rendezvous::Met& met, const Deadline& deadline) {
  const auto mine = std::find(met.memory_ranks.begin(), met.memory_ranks.end(), met.rank);
  transport::ShmLinks links{static_cast<int>(mine - met.memory_ranks.begin()),
                            static_cast<int>(met.memory_ranks.size()), std::move(met.memory_sockets),
                            std::move(met.life), met.memory_ranks};
  return transport::make_shm_mapper(std::move(links), deadline);
}

std::unique_ptr<transport::TcpTransport> make_tcp(rendezvous::Met& met, transport::TcpOptions options,
                                                  std::shared_ptr<transport::Connections> connections) {
  transport::TcpGroup group{met.rank, all_of(met.size), rendezvous::kEverybody, std::move(connections)};
  return std::make_unique<transport::TcpTransport>(std::move(group), std::move(met.control), std::move(options));
}

// Of ranks of the job, of which this is the one at `rank`.
std::unique_ptr<transport::TcpTransport> make_linked(const Linked& linked, const std::vector<int>& ranks, int rank,
                                                     std::uint64_t number) {
  const std::string& here = linked.members[static_cast<std::size_t>(linked.rank)].host_id;
  std::vector<int> neighbours;
  for (const int other : ranks) {
    if (linked.members[static_cast<std::size_t>(other)].host_id == here) neighbours.push_back(other);
  }
  transport::TcpOptions options;
  options.channels = kChannels;
  options.oversubscribed = oversubscribed(linked.members, neighbours);
  auto control = ranks.size() == 1 ? nullptr : linked.plane->enter(number, ranks);
  return std::make_unique<transport::TcpTransport>(transport::TcpGroup{rank, ranks, number, linked.connections},
                                                   std::move(control), std::move(options));
}

// What is offered follows from what all ranks know, the whole roster: also where this one is alone on its host.
std::unique_ptr<transport::Transport> make_mixed(rendezvous::Met& met, const std::vector<std::vector<int>>& hosts,
                                                 std::unique_ptr<transport::Transport> inner, transport::TcpOptions tcp,
                                                 const Deadline& deadline) {
  std::vector<int> by_rank(static_cast<std::size_t>(met.size));
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const int rank : hosts[host]) by_rank[static_cast<std::size_t>(rank)] = static_cast<int>(host);
  }
  transport::MixedTransport::Parts parts;
  parts.hosts = Hosts(by_rank);
  parts.memory = transport::MemoryTransport::offers_for(parts.hosts.most_on_one(met.size));
  if (inner) {
    parts.inner = std::move(inner);
    transport::Transport* const memory = parts.inner.get();
    tcp.wake = [memory] { memory->notify_self(); };
    tcp.said = [memory](int channel) { return transport::stated(*memory->flags(channel, memory->rank())); };
  }
  auto outer = make_tcp(met, std::move(tcp), std::make_shared<transport::Connections>(std::move(met.links)));
  parts.arm = [arms = outer.get()] { arms->arm(); };
  parts.outer = std::move(outer);
  return std::make_unique<transport::MixedTransport>(std::move(parts), deadline);
}

}  // namespace

std::vector<std::unique_ptr<transport::Mapper>> make_threads_group(int ranks) {
  return transport::make_threads_mappers(ranks);
}

rendezvous::Wanted wanted(TransportKind transport) {
  switch (transport) {
    case TransportKind::shm: return rendezvous::Wanted::shm;
    case TransportKind::tcp: return rendezvous::Wanted::tcp;
    case TransportKind::automatic: break;
  }
  return rendezvous::Wanted::automatic;
}

std::vector<std::string> settings(const Options& options) {
  return {rendezvous::kBuild + std::to_string(schedule::hash_of_table()),
          "TUTTI_ALGORITHM=" + (options.algorithm.empty() ? "unset" : options.algorithm),
          std::string("TUTTI_CHECK=") + (options.check == Check::full ? "full" : "quick"),
          std::string("Options::deterministic=") + (options.deterministic ? "true" : "false")};
}

std::unique_ptr<Engine> make_engine(rendezvous::Met met, const Options& options, const Log& log,
                                    const Deadline& deadline, const Engine* parent) {
  static_cast<void>(choice::forced_algorithms(options.algorithm, options.deterministic));  // said before ranks meet
  Origin origin = origin_of(parent, nullptr, met.memory_ranks, met.again);
  const auto make_memory = [&] {
    auto mapper = make_mapper(met, deadline);
    origin.memory = mapper->regrouping();
    return std::make_unique<transport::MemoryTransport>(std::move(mapper), kChannels, deadline);
  };
  const auto finish = [&](std::unique_ptr<transport::Transport> transport) {
    return with_costs(std::make_unique<Engine>(std::move(transport), options, log, std::move(origin)), parent,
                      host_names(met), log);
  };
  const auto hosts = hosts_of(met);
  const auto say = [&](const char* how) {
    if (met.rank == 0) log.info(words_of(met, hosts) + "; " + how);
  };
  if (static_cast<int>(met.memory_ranks.size()) == met.size) {
    say("shared memory");
    return finish(make_memory());
  }
  if (options.transport == TransportKind::automatic) warn_of_slow_links(met, hosts, log);
  transport::TcpOptions tcp;
  tcp.channels = kChannels;
  for (const auto& ranks : hosts) {
    const bool here = std::find(ranks.begin(), ranks.end(), met.rank) != ranks.end();
    if (here) tcp.oversubscribed = oversubscribed(met.members, ranks);
  }
  const bool memory = options.transport != TransportKind::tcp && static_cast<int>(hosts.size()) < met.size;
  say(memory ? "shared memory inside hosts, TCP across" : "TCP");
  if (memory) {
    auto inner = met.memory_ranks.size() > 1 ? make_memory() : nullptr;
    return finish(make_mixed(met, hosts, std::move(inner), std::move(tcp), deadline));
  }
  origin.linked = std::make_shared<Linked>();
  origin.linked->plane = std::move(met.plane);
  origin.linked->connections = std::make_shared<transport::Connections>(std::move(met.links));
  origin.linked->members = met.members;
  origin.linked->rank = met.rank;
  origin.job_ranks = all_of(met.size);
  return finish(make_tcp(met, std::move(tcp), origin.linked->connections));
}

std::unique_ptr<Engine> make_engine(std::unique_ptr<transport::Mapper> mapper, const Options& options,
                                    const Deadline& deadline) {
  static_cast<void>(choice::forced_algorithms(options.algorithm, options.deterministic));  // said before ranks meet
  Origin origin{mapper->regrouping(), all_of(mapper->size())};
  auto transport = std::make_unique<transport::MemoryTransport>(std::move(mapper), kChannels, deadline);
  return with_costs(std::make_unique<Engine>(std::move(transport), options, Log(), std::move(origin)), nullptr,
                    {rendezvous::host_name()}, Log());
}

bool need_not_meet(const Engine& parent, const std::vector<int>& members) {
  const Origin& from = parent.origin();
  const auto in_memory = [&](int member) { return from.number_in_memory(member) >= 0; };
  return from.linked != nullptr || (from.memory != nullptr && std::all_of(members.begin(), members.end(), in_memory));
}

std::uint64_t make_place(const Engine& parent, int size) {
  const Origin& from = parent.origin();
  if (from.linked == nullptr)
    return from.memory->make_place(transport::MemoryTransport::arena_bytes(size, kChannels), size);
  constexpr int kCounterBits = 40;  // numbers are never used again
  return (static_cast<std::uint64_t>(from.linked->rank) + 1) << kCounterBits | ++from.linked->groups;
}

std::unique_ptr<Engine> make_engine(const Engine& parent, const std::vector<int>& members, std::uint64_t place,
                                    const Deadline& deadline, const std::function<bool()>& hopeless) {
  const Origin& from = parent.origin();
  const int rank = static_cast<int>(std::find(members.begin(), members.end(), parent.rank()) - members.begin());
  std::unique_ptr<transport::Transport> transport;
  Origin origin;
  if (from.linked == nullptr) {
    std::vector<int> numbers;  // by which the memory knows them
    for (const int member : members) numbers.push_back(from.number_in_memory(member));
    auto mapper = from.memory->part(place, numbers, rank);
    origin = origin_of(&parent, mapper->regrouping(), all_of(mapper->size()), from.again);
    transport = std::make_unique<transport::MemoryTransport>(std::move(mapper), kChannels, deadline, hopeless);
  } else {
    origin = origin_of(&parent, nullptr, {rank}, from.again);
    origin.job_ranks.clear();
    for (const int member : members) origin.job_ranks.push_back(from.job_ranks[static_cast<std::size_t>(member)]);
    transport = make_linked(*from.linked, origin.job_ranks, rank, place);
  }
  // What there is to warn of was said when the parent was made.
  const Log log = from.again.log.says(Log::Level::info) ? from.again.log : Log();
  auto engine = std::make_unique<Engine>(std::move(transport), parent.options(), log, std::move(origin));
  engine->adopt(parent.costs());
  return engine;
}

}  // namespace tutti::engine
