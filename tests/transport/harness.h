// Every transport, brought up for tests: one function per rank over the bare Transport.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "transport/transport.h"

namespace tutti::testing {

inline constexpr int kChannels = 2;

// X(name, what ranks are, which of them share memory, what carries bytes between the others)
#define TUTTI_TRANSPORT_KINDS(X)                   \
  X(threads, threads, all, none)                   \
  X(shm, processes, all, none)                     \
  X(tcp_threads, threads, none, tcp)               \
  X(tcp, processes, none, tcp)                     \
  X(tcp_v6, processes, none, tcp_v6)               \
  X(mixed_threads, threads, of_two_hosts, tcp)     \
  X(mixed, processes, of_two_hosts, tcp)           \
  X(ucx_threads, threads, none, ucx)               \
  X(ucx, processes, none, ucx)                     \
  X(ucx_mixed_threads, threads, of_two_hosts, ucx) \
  X(ucx_mixed, processes, of_two_hosts, ucx)

enum class Kind {
#define X(name, ranks, sharers, carrier) name,
  TUTTI_TRANSPORT_KINDS(X)
#undef X
};
enum class RanksAre { threads, processes };
enum class Sharers { all, none, of_two_hosts };  // even and odd ranks are those of a host
enum class Carrier { none, tcp, tcp_v6, ucx };

struct KindFacts {
  Kind kind;
  const char* name;
  RanksAre ranks;
  Sharers sharers;
  Carrier carrier;
};
inline constexpr KindFacts kKinds[] = {
#define X(name, ranks, sharers, carrier) {Kind::name, #name, RanksAre::ranks, Sharers::sharers, Carrier::carrier},
    TUTTI_TRANSPORT_KINDS(X)
#undef X
};
constexpr const KindFacts& facts_of(Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }
inline std::string name_of(Kind kind) { return facts_of(kind).name; }
inline void PrintTo(Kind kind, std::ostream* out) { *out << name_of(kind); }

inline bool has_processes(Kind kind) { return facts_of(kind).ranks == RanksAre::processes; }
// Why there can be none of the kind here, in words; empty where there can.
std::string why_missing(Kind kind);

using Body = std::function<void(transport::Transport&)>;
using OwningBody = std::function<void(std::unique_ptr<transport::Transport>)>;

// What each rank had to say in the end: nothing, the words of what it threw, or "signal N".
std::vector<std::string> run_transport(Kind kind, int ranks, const Body& body);
// The same with so many channels, for those who need the transport itself.
std::vector<std::string> run_transport(Kind kind, int ranks, int channels, const OwningBody& body, int per_channel = 1);

// A connection over the loopback; both invalid where the system has no such family. Throws Error(system).
std::pair<FileDescriptor, FileDescriptor> connect_loopback(int family);

inline Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

}  // namespace tutti::testing
