#include "engine/factory.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/environment.h"
#include "base/rank_list.h"
#include "rendezvous/host.h"
#include "rendezvous/roster.h"
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

// Rank 0's costs are everybody's.
std::unique_ptr<Engine> with_costs(std::unique_ptr<Engine> engine, const AgreedCosts* known,
                                   const std::vector<std::string>& hosts, const Log& log) {
  if (known != nullptr) {
    engine->adopt(*known);
  } else {
    AgreedCosts costs;
    if (engine->rank() == 0 && engine->size() > 1) {
      const topology::FoundCosts found = topology::find_costs(Environment::of_process(), hosts, log);
      log.info(found.tuned ? "algorithms are chosen by what `tutti tune` has measured here"
                           : "algorithms are chosen by built-in costs; `tutti tune` measures this machine's");
      costs = agreed_costs(found.table, engine->size(), found.tuned);
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
bool oversubscribed(const rendezvous::Met& met, const std::vector<int>& ranks) {
  std::vector<std::uint64_t> all;
  for (const int rank : ranks) {
    const std::vector<std::uint64_t>& cores = met.members[static_cast<std::size_t>(rank)].cores;
    if (cores.size() > all.size()) all.resize(cores.size());
    for (std::size_t i = 0; i < cores.size(); ++i) all[i] |= cores[i];
  }
  std::size_t known = 0;
  for (const std::uint64_t word : all) known += static_cast<std::size_t>(std::popcount(word));
  return known != 0 && ranks.size() > known;
}

std::unique_ptr<transport::Transport> make_memory(rendezvous::Met& met, const Deadline& deadline) {
  const auto mine = std::find(met.memory_ranks.begin(), met.memory_ranks.end(), met.rank);
  transport::ShmLinks links{static_cast<int>(mine - met.memory_ranks.begin()),
                            static_cast<int>(met.memory_ranks.size()), std::move(met.memory_sockets),
                            std::move(met.life), met.memory_ranks};
  return std::make_unique<transport::MemoryTransport>(transport::make_shm_mapper(std::move(links)), kChannels,
                                                      deadline);
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
  return {rendezvous::kBuild + std::to_string(hash_of_tables()),
          "TUTTI_ALGORITHM=" + (options.algorithm.empty() ? "unset" : options.algorithm),
          std::string("TUTTI_CHECK=") + (options.check == Check::full ? "full" : "quick"),
          std::string("Options::deterministic=") + (options.deterministic ? "true" : "false")};
}

std::unique_ptr<Engine> make_engine(rendezvous::Met met, const Options& options, const Log& log,
                                    const Deadline& deadline, const AgreedCosts* known) {
  static_cast<void>(forced_algorithms(options.algorithm, options.deterministic));  // said before ranks meet
  const auto finish = [&](std::unique_ptr<transport::Transport> transport) {
    return with_costs(
        std::make_unique<Engine>(std::move(transport), options, log, Origin{nullptr, std::move(met.again)}), known,
        host_names(met), log);
  };
  const auto hosts = hosts_of(met);
  const auto say = [&](const char* how) {
    if (met.rank == 0) log.info(words_of(met, hosts) + "; " + how);
  };
  if (static_cast<int>(met.memory_ranks.size()) == met.size) {
    say("shared memory");
    return finish(make_memory(met, deadline));
  }
  if (options.transport == TransportKind::automatic) warn_of_slow_links(met, hosts, log);
  // All ranks must cut messages alike, so the sizes follow from what all of them know: the whole roster.
  transport::TcpOptions tcp;
  tcp.channels = kChannels;
  bool memory = false;
  for (const auto& ranks : hosts) {
    const bool here = std::find(ranks.begin(), ranks.end(), met.rank) != ranks.end();
    if (here) tcp.oversubscribed = oversubscribed(met, ranks);
    if (ranks.size() == 1 || options.transport == TransportKind::tcp) continue;
    memory = true;
    const std::uint64_t slot = transport::MemoryTransport::slot_bytes_for(static_cast<int>(ranks.size()));
    tcp.slot_bytes = tcp.slot_bytes == 0 ? slot : std::min(tcp.slot_bytes, slot);
  }
  say(memory ? "shared memory inside hosts, TCP across" : "TCP");
  std::unique_ptr<transport::Transport> inner;
  if (met.memory_ranks.size() > 1) {
    const std::vector<int> ranks = met.memory_ranks;
    inner = make_memory(met, deadline);
    tcp.wake = [bell = inner.get()] { bell->notify_self(); };
    auto outer = std::make_unique<transport::TcpTransport>(transport::TcpLinks{met.rank, met.size, std::move(met.data)},
                                                           std::move(met.control), std::move(tcp));
    transport::TcpTransport* arms = outer.get();
    return finish(std::make_unique<transport::MixedTransport>(std::move(inner), ranks, std::move(outer),
                                                              [arms] { arms->arm(); }));
  }
  return finish(std::make_unique<transport::TcpTransport>(transport::TcpLinks{met.rank, met.size, std::move(met.data)},
                                                          std::move(met.control), std::move(tcp)));
}

std::unique_ptr<Engine> make_engine(std::unique_ptr<transport::Mapper> mapper, const Options& options,
                                    const Deadline& deadline, const AgreedCosts* known) {
  static_cast<void>(forced_algorithms(options.algorithm, options.deterministic));  // said before ranks meet
  Origin origin{mapper->regrouping()};
  auto transport = std::make_unique<transport::MemoryTransport>(std::move(mapper), kChannels, deadline);
  return with_costs(std::make_unique<Engine>(std::move(transport), options, Log(), std::move(origin)), known,
                    {rendezvous::host_name()}, Log());
}

}  // namespace tutti::engine
