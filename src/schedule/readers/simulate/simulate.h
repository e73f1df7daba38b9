// The simulator: the programs of all ranks on a cluster, as a sequence of events.
//
// A step fires by the one rule of firing.h. It computes first, on the one processor that its rank has, then its
// messages leave, one after the other; what goes through windows moves at once. A message is a flow over the links of
// its route, which shares them fairly with all others (flows.h), and comes a latency after its last byte has left.
// Credits come back at once. Ranks may start late, or be slower than the others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/lower.h"
#include "topology/topology.h"

namespace tutti::schedule {

struct SimulateOptions {
  std::uint64_t count = 0;  // elements of the vector, or of each chunk
  std::uint32_t element_bytes = 4;
  double reduced_bytes_per_s = 0;  // by one rank; 0: at once
  double copied_bytes_per_s = 0;   // within its memory; 0: at once
  double step_s = 0;               // that every step takes
  double skew_s = 0;               // ranks start so much later at most, by lot
  std::uint64_t seed = 1;
  struct Straggler {
    int rank = 0;
    double factor = 1;  // as long as for others it takes all that it computes and sends
  };
  std::vector<Straggler> stragglers = {};
};

struct Simulated {
  double seconds = 0;        // from the first start to the last end
  std::vector<double> ends;  // by rank

  struct Link {
    std::int64_t link = 0;  // as topology::Topology numbers them
    double bytes = 0;
    double utilisation = 0;  // of what it could carry in all that time
  };
  std::vector<Link> links;  // the busiest first

  struct Wait {
    int rank = 0, peer = 0;
    double seconds = 0;  // in which the rank had nothing to do but to wait for a message of the peer
  };
  std::vector<Wait> waits;  // the longest first

  std::uint64_t events = 0;
  std::uint64_t rate_changes = 0;
};

// Throws Error(invalid_argument) where the topology has fewer ranks, a straggler is none, or the programs wait for each
// other for ever.
Simulated simulate(std::span<const Lowered> programs, const topology::Topology& topology,
                   const SimulateOptions& options);

}  // namespace tutti::schedule
