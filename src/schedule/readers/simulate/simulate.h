// The simulator: the programs of all ranks on a cluster, as a sequence of events.
//
// A step fires by the one rule of firing.h. It computes first, on the one processor that its rank has, then its
// messages leave, one after the other; what goes through windows moves at once. A message is a flow over the links of
// its route, which shares them fairly with all others (flows.h), and comes a latency after its last byte has left.
// Credits come back at once. Ranks may start late, or be slower than the others; links may be slow or have failed, and
// others may use them, too. Ranks that fare alike by symmetry are simulated once (symmetry.h), to the same result.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/lower.h"
#include "topology/topology.h"

namespace tutti::schedule {

// The programs of all ranks, made one by one. `alike`: all ranks have the same text, so that one says it for all.
struct ProgramSource {
  int ranks = 1;
  std::function<Lowered(int rank)> of;
  bool alike = false;
};

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
  struct LateStart {
    int rank = 0;
    double seconds = 0;  // later than the others, besides the skew
  };
  std::vector<LateStart> late_starts = {};
  struct SlowLink {
    std::int64_t link = 0;  // as topology::Topology numbers them
    double factor = 1;      // as long as usual it takes to carry anything
  };
  std::vector<SlowLink> slow_links = {};
  std::vector<std::int64_t> failed_links = {};  // ways lead around them
  // So many flows of others are always under way, between ranks of the topology that are drawn by lot.
  struct Background {
    int flows = 0;
    double bytes = 1 << 20;  // of each
  };
  Background background = {};
  bool fold = true;      // ranks that fare alike are simulated once
  bool history = false;  // to keep the critical path, and what the first ranks did
};

struct Simulated {
  double seconds = 0;        // from the first start to the last end
  std::vector<double> ends;  // by rank
  int simulated_ranks = 0;   // less than there are where ranks were folded

  struct Link {
    std::int64_t link = 0;  // as topology::Topology numbers them
    double bytes = 0;
    double utilisation = 0;   // of what it could carry in all that time
    std::uint32_t alike = 1;  // so many links fare like it, itself among them
  };
  std::vector<Link> links;  // the busiest first

  enum class Cause : std::uint8_t { message, credit, progress };
  struct Wait {
    int rank = 0, peer = 0;
    double seconds = 0;  // in which the rank had nothing to do but to wait for the peer
    Cause cause = Cause::message;
    std::uint32_t alike = 1;  // ranks that wait like it, itself among them
  };
  std::vector<Wait> waits;  // the longest first

  // What goes on, in seconds: computing, waiting for one's own rank to be free, sending as fast as the way allows, more
  // slowly than that because others share it or the rank is slow, and travelling.
  struct Spent {
    double computing_s = 0, queueing_s = 0, sending_s = 0, sharing_s = 0, latency_s = 0;

    double sum() const { return computing_s + queueing_s + sending_s + sharing_s + latency_s; }
  };
  // The critical path: what led to the end. Each step fired when the one before it had let it.
  struct Hop {
    int rank = 0;
    std::uint32_t lane = 0, step = 0, segment = 0;
    double fired_s = 0;
    Spent spent;  // since the hop before it fired
  };
  struct Path {
    std::vector<Hop> hops;  // the last ones, oldest first; the very last is the end, at the rank that ended last
    std::uint64_t steps = 0;
    double begin_s = 0;  // when its first step fired
    Spent spent;         // since then
    bool whole = true;   // false: of a long run only the last steps are known
  };
  Path path;

  struct Activity {
    enum class Kind : std::uint8_t { computing, sending };
    int rank = 0;
    Kind kind = Kind::computing;
    int peer = -1;
    double begin_s = 0, end_s = 0;
    std::uint32_t lane = 0, step = 0, segment = 0;  // whose part it is
  };
  std::vector<Activity> activities;  // of the first ranks, as they ended

  std::uint64_t events = 0;
  std::uint64_t rate_changes = 0;
};

std::string_view name_of(Simulated::Cause cause);

// Activities are kept of ranks below this one.
inline constexpr int kActiveRanks = 64;

// Throws Error(invalid_argument) where the topology has fewer ranks, a straggler or a link is none, a message has no
// way, or the programs wait for each other for ever.
Simulated simulate(const ProgramSource& programs, const topology::Topology& topology, const SimulateOptions& options);
Simulated simulate(std::span<const Lowered> programs, const topology::Topology& topology,
                   const SimulateOptions& options);

}  // namespace tutti::schedule
