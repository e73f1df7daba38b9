#include "transport/harness.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "base/system_error.h"
#include "rendezvous/forked_group.h"
#include "transport/memory/memory_transport.h"
#include "transport/mixed/mixed_transport.h"
#include "transport/shm/shm_mapper.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/test_control.h"
#include "transport/threads/threads_mapper.h"
#include "transport/ucx/ucx.h"
#include "transport/wiring.h"
#include "tutti/error.h"

namespace tutti::testing {
namespace {

using namespace transport;  // NOLINT: this file is all about it

// By Carrier.
struct Carrying {
  MakeFabric make;
  void (*require)();  // as the engine's factory has it
  int family;         // of the connections that it is brought up with
};
constexpr Carrying kCarrying[] = {
    {nullptr, nullptr, AF_UNSPEC},
    {make_tcp_fabric, nullptr, AF_INET},
    {make_tcp_fabric, nullptr, AF_INET6},
    {make_ucx_fabric, require_ucx, AF_INET},
};
const Carrying& fabric_of(Kind kind) { return kCarrying[static_cast<std::size_t>(facts_of(kind).carrier)]; }

bool has_memory_alone(Kind kind) { return facts_of(kind).sharers == Sharers::all; }
bool is_mixed(Kind kind) { return facts_of(kind).sharers == Sharers::of_two_hosts; }
int host_of(int rank) { return rank % 2; }  // which is also the first rank of it

Hosts hosts_of(int ranks) {
  std::vector<int> by_rank;
  for (int rank = 0; rank < ranks; ++rank) by_rank.push_back(host_of(rank));
  return Hosts(by_rank);
}

std::vector<int> neighbours_of(int rank, int ranks) {
  std::vector<int> neighbours;
  for (int peer = 0; peer < ranks; ++peer) {
    if (host_of(peer) == host_of(rank)) neighbours.push_back(peer);
  }
  return neighbours;
}

// What a rank gets before it starts.
struct RankLinks {
  int channels = 0;
  int per_channel = 1;  // of them
  int rank = 0;
  int size = 1;
  std::vector<std::vector<FileDescriptor>> data;  // [peer][channel]
  std::vector<FileDescriptor> control;            // by peer
  std::vector<FileDescriptor> memory_sockets;     // as ShmLinks wants them, among the ranks of the host
};

// The first rank of a host has a socket to each other rank there.
void link_hosts(std::vector<RankLinks>& links) {
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    const auto first = static_cast<std::size_t>(host_of(static_cast<int>(rank)));
    links[first].memory_sockets.resize(links[first].memory_sockets.size() + 1);
    if (rank == first) continue;
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
    links[first].memory_sockets.back() = FileDescriptor(ends[0]);
    links[rank].memory_sockets.push_back(FileDescriptor(ends[1]));
  }
}

std::vector<RankLinks> make_links(Kind kind, int ranks, int channels, int per_channel) {
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<RankLinks> links(size);
  channels *= per_channel;
  for (RankLinks& each : links) {
    each.channels = channels;
    each.per_channel = per_channel;
  }
  if (has_memory_alone(kind)) return links;
  for (std::size_t rank = 0; rank < size; ++rank) {
    links[rank].rank = static_cast<int>(rank);
    links[rank].size = ranks;
    links[rank].data.resize(size);
    links[rank].control.resize(size);
  }
  for (std::size_t a = 0; a < size; ++a) {
    for (std::size_t b = a + 1; b < size; ++b) {
      std::tie(links[a].control[b], links[b].control[a]) = make_control_pair();
      if (is_mixed(kind) && host_of(static_cast<int>(a)) == host_of(static_cast<int>(b))) continue;
      for (int channel = 0; channel < channels; ++channel) {
        auto [one, other] = connect_loopback(fabric_of(kind).family);
        links[a].data[b].push_back(std::move(one));
        links[b].data[a].push_back(std::move(other));
      }
    }
  }
  if (is_mixed(kind)) link_hosts(links);
  return links;
}

std::vector<int> everybody(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Over connections that stand.
std::shared_ptr<Fabric> make_fabric(Kind kind, RankLinks& links, std::function<void()> elsewhere) {
  std::vector<Links::Made> made;
  for (int peer = 0; peer < links.size; ++peer) {
    std::uint32_t channel = 0;
    for (FileDescriptor& socket : links.data[static_cast<std::size_t>(peer)])
      made.push_back({peer, channel++, std::move(socket), {}, 0});
  }
  const FabricJob job{links.rank, links.size, links.channels};
  return fabric_of(kind).make(job, make_test_links(std::move(made)), std::move(elsewhere));
}

std::unique_ptr<StreamTransport> make_streams(Kind kind, RankLinks& links, StreamOptions options = {},
                                              std::function<void()> elsewhere = {}) {
  options.channels = links.channels / links.per_channel;
  options.per_channel = links.per_channel;
  options.oversubscribed = true;
  auto control = make_test_control(links.rank, std::move(links.control));
  const auto fabric = make_fabric(kind, links, std::move(elsewhere));
  return fabric->make_transport({links.rank, everybody(links.size), 0}, std::move(control), std::move(options));
}

// As the engine's factory does it. A rank that is alone on its host has no mapper.
std::unique_ptr<Transport> make_mixed(Kind kind, RankLinks& links, std::unique_ptr<Mapper> mapper) {
  MixedTransport::Parts parts;
  parts.hosts = hosts_of(links.size);
  parts.memory = memory_offers(parts.hosts.most_on_one(links.size), true);
  StreamOptions options;
  std::function<void()> elsewhere;
  if (mapper) {
    auto inner = std::make_unique<MemoryTransport>(std::move(mapper), MemoryUse(links.channels, true), soon());
    elsewhere = inner->waker();
    options.said = [memory = inner.get()](int channel) { return stated(*memory->flags(channel, memory->rank())); };
    parts.inner = std::move(inner);
  }
  parts.outer = make_streams(kind, links, std::move(options), std::move(elsewhere));
  return std::make_unique<MixedTransport>(std::move(parts), soon());
}

// The mapper of every rank: one group of threads, or one per host.
std::vector<std::unique_ptr<Mapper>> make_mappers(Kind kind, int ranks) {
  if (kind == Kind::threads) return make_threads_mappers(ranks);
  std::vector<std::unique_ptr<Mapper>> mappers(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto neighbours = neighbours_of(rank, ranks);
    if (rank != neighbours.front() || neighbours.size() == 1) continue;
    auto made = make_threads_mappers(static_cast<int>(neighbours.size()));
    for (std::size_t i = 0; i < made.size(); ++i) {
      mappers[static_cast<std::size_t>(neighbours[i])] = std::move(made[i]);
    }
  }
  return mappers;
}

std::vector<std::string> run_threads(Kind kind, int ranks, int channels, int per_channel, const OwningBody& body) {
  auto mappers = make_mappers(kind, ranks);
  auto links = make_links(kind, ranks, channels, per_channel);
  std::vector<std::string> words(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        std::unique_ptr<Transport> transport;
        if (kind == Kind::threads) {
          transport = std::make_unique<MemoryTransport>(std::move(mappers[rank]), channels, soon());
        } else if (is_mixed(kind)) {
          transport = make_mixed(kind, links[rank], std::move(mappers[rank]));
        } else {
          transport = make_streams(kind, links[rank]);
        }
        body(std::move(transport));
      } catch (const std::exception& error) {
        words[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return words;
}

std::unique_ptr<Transport> make_in_process(Kind kind, int rank, int size, HostLinks host, RankLinks links) {
  if (kind == Kind::shm) {
    ShmLinks shm{rank, size, std::move(host.sockets), std::move(host.life), {}};
    return std::make_unique<MemoryTransport>(make_shm_mapper(std::move(shm), soon()), links.channels, soon());
  }
  if (!is_mixed(kind)) return make_streams(kind, links);
  const auto neighbours = neighbours_of(rank, size);
  if (neighbours.size() == 1) return make_mixed(kind, links, nullptr);
  ShmLinks shm;
  shm.known_as = neighbours;
  shm.size = static_cast<int>(neighbours.size());
  shm.sockets = std::move(links.memory_sockets);
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    if (neighbours[i] == rank) shm.rank = static_cast<int>(i);
    shm.life.push_back(std::move(host.life[static_cast<std::size_t>(neighbours[i])]));
  }
  return make_mixed(kind, links, make_shm_mapper(std::move(shm), soon()));
}

std::vector<std::string> run_processes(Kind kind, int ranks, int channels, int per_channel, const OwningBody& body) {
  std::vector<RankLinks> links = make_links(kind, ranks, channels, per_channel);
  auto wiring = std::make_unique<Wiring>(ranks);
  rendezvous::ForkedGroup group(ranks, [&](int rank) {
    HostLinks host = wiring->take(rank);
    const FileDescriptor life = std::move(host.own_life);
    RankLinks mine = std::move(links[static_cast<std::size_t>(rank)]);
    links.clear();  // a peer's connections must end with the peer
    body(make_in_process(kind, rank, ranks, std::move(host), std::move(mine)));
  });
  links.clear();
  wiring.reset();
  std::vector<std::string> words;
  for (const rendezvous::ChildEnd& end : group.wait()) {
    words.push_back(end.signal != 0 ? "signal " + std::to_string(end.signal) : end.message);
  }
  return words;
}

}  // namespace

std::string why_missing(Kind kind) {
  const Carrying& fabric = fabric_of(kind);
  if (fabric.family == AF_INET6 && !connect_loopback(AF_INET6).first.valid()) return "no IPv6 here";
  try {
    if (fabric.require != nullptr) fabric.require();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> run_transport(Kind kind, int ranks, int channels, const OwningBody& body, int per_channel) {
  return has_processes(kind) ? run_processes(kind, ranks, channels, per_channel, body)
                             : run_threads(kind, ranks, channels, per_channel, body);
}

std::vector<std::string> run_transport(Kind kind, int ranks, const Body& body) {
  return run_transport(kind, ranks, kChannels, [&](std::unique_ptr<Transport> transport) { body(*transport); });
}

std::pair<FileDescriptor, FileDescriptor> connect_loopback(int family) {
  const FileDescriptor listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  FileDescriptor one(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t length = sizeof(sockaddr_in);
  if (family == AF_INET6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    v6->sin6_addr = in6addr_loopback;
    length = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  address.ss_family = static_cast<sa_family_t>(family);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  if (!listener.valid() || ::bind(listener.get(), name, length) != 0) return {};
  if (::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), name, &length) != 0) throw_errno("listen");
  if (::connect(one.get(), name, length) != 0) throw_errno("connect");
  FileDescriptor other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!other.valid()) throw_errno("accept");
  return {std::move(one), std::move(other)};
}

}  // namespace tutti::testing
