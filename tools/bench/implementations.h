// The implementations that are measured: which of them are here, and how each one's ranks are started.
//
// All of them run one process per rank on this host, or in network namespaces of it, pinned alike (the drivers pin
// themselves before their library starts), with the settings their users would choose for speed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/group.h"
#include "tools/bench/namespaces.h"
#include "tutti/types.h"

namespace tutti::bench {

inline constexpr const char* kOurs = "tutti";
inline constexpr const char* kBrought = "tutti-file";  // the same, with a schedule from a file
inline constexpr const char* kTuned = "tutti-tuned";   // the same, with costs that were measured here
inline constexpr const char* kFlat = "tutti-flat";     // the same, told that every rank is a host of its own
inline constexpr const char* kLimit = "limit";

struct StartFacts {
  int ranks = 2;
  std::string transport = "auto";       // a word of kTransportWords
  bool on_device = false;               // buffers lie on the first GPU
  bool own_devices = false;             // or on those of the host, dealt out among its ranks
  std::uint64_t bytes = 0;              // the most memory that a rank will need
  std::vector<int> processors;          // rank r on the r-th (mod their number); none: not pinned
  std::size_t cores = 1;                // that this process may use
  std::vector<NetworkNamespace> hosts;  // where the ranks run; empty: here
  bool round_hosts = false;             // neighbouring ranks on different ones
  std::string schedule;                 // verb=file that our ranks run; empty: none
  std::string costs;                    // what our ranks choose by: a file, or built-in; empty: as they find
};

// Whether the ranks of a host reach each other's memory over it.
inline bool shares_memory(const std::string& transport) {
  return host_memory_of(transport_named(transport).value()) == HostMemory::always;
}

// Names of all that can be asked for, besides programs of the user's own (names with a slash).
std::vector<std::string> known_peers();

// Why it cannot run here over this transport, on one host or several, on memory of a GPU, with the remedy; nothing
// where it can.
std::optional<std::string> why_missing(const std::string& name, const std::string& transport, bool several_hosts,
                                       bool on_device = false);

// Starts its ranks; throws Dropped.
void start_ranks(Group& group, const StartFacts& facts);

}  // namespace tutti::bench
