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

enum class Kind {
  threads,        // memory, ranks are threads
  shm,            // memory, ranks are processes
  tcp_threads,    // connections over the loopback
  tcp,            // ... between processes
  tcp_v6,         // ... over IPv6
  mixed_threads,  // two hosts with memory inside, connections across; even and odd ranks
  mixed,          // ... as processes
};
std::string name_of(Kind kind);
inline void PrintTo(Kind kind, std::ostream* out) { *out << name_of(kind); }

inline bool has_processes(Kind kind) {
  return kind == Kind::shm || kind == Kind::tcp || kind == Kind::tcp_v6 || kind == Kind::mixed;
}

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
