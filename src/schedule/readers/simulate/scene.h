// What is simulated, laid out flat: the programs of all ranks with their peers looked up, and the ways of all messages.
//
// A *text* is a program in which peers are numbered in the order of their first mention, so that ranks that do the same
// with different peers share one. A rank has a text, and its peers by those numbers. An *edge* belongs to the rank that
// sends over it, or that reaches through a window; slots that a step takes from name edges of others.
//
// A rank of a scene may stand for many that fare alike (symmetry.h): then its flows have weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "schedule/layout.h"
#include "schedule/program.h"
#include "schedule/readers/simulate/flows.h"
#include "schedule/readers/simulate/simulate.h"
#include "topology/router.h"
#include "topology/topology.h"

namespace tutti::schedule {

// As firing.h wants a step: of its operands, slots only.
struct SceneSlot {
  std::uint32_t number = 0;  // among the edges of the rank, or among those that it takes from

  bool operator==(const SceneSlot&) const = default;
};
inline bool is_slot(const SceneSlot&) { return true; }

struct SceneWait {
  std::uint32_t peer = 0;  // among those that the rank waits for
  std::int32_t lane = 0, step = 0, segments_back = 0;

  bool operator==(const SceneWait&) const = default;
};

struct SceneStep {
  std::vector<SceneWait> waits;
  std::vector<SceneSlot> sources, destinations;
  std::vector<SceneSlot> windows;  // edges: what goes through them
  std::uint32_t reduced = 0;       // operands beyond the first
  bool copies = false;             // within the rank's own memory
  bool writes_user_memory = false;
  BlockSet blocks;  // only their count, where all blocks are of one size

  bool operator==(const SceneStep&) const = default;
};
inline bool writes_user(const SceneStep& step) { return step.writes_user_memory; }

struct SceneText {
  std::vector<std::vector<SceneStep>> lanes;
  bool hears_first = false;

  bool operator==(const SceneText&) const = default;
};

struct SceneRank {
  std::uint32_t text = 0;
  std::uint32_t first_edge = 0, edges = 0;  // in Scene::edges
  std::uint32_t first_in = 0, ins = 0;      // in Scene::ins
  std::uint32_t first_peer = 0, peers = 0;  // in Scene::peers
  int rank = 0;                             // as the caller numbers them
  std::uint32_t stands_for = 1;
};

struct SceneEdge {
  std::uint32_t from = 0, to = 0;  // in Scene::ranks
  int channel = 0;
  int peer = 0;                               // its far end, as the caller numbers ranks
  std::uint32_t first_share = 0, shares = 0;  // of its way, in Scene::shares
  double latency_s = 0;
  std::uint32_t credits = 1;
};

struct Scene {
  std::vector<SceneText> texts;
  std::vector<SceneRank> ranks;
  std::vector<SceneEdge> edges;
  std::vector<std::uint32_t> ins;    // edges that ranks take from
  std::vector<int> senders;          // of those, as the caller numbers them
  std::vector<std::uint32_t> peers;  // ranks that ranks wait for
  std::vector<int> awaited;          // the same, as the caller numbers them
  std::vector<Flows::Share> shares;
  std::vector<std::int64_t> links;         // as the topology numbers them
  std::vector<double> capacities;          // of the links
  std::vector<std::uint32_t> links_alike;  // how many each link stands for; empty: for itself
  Layout layout;
  bool blocks_alike = false;  // in every segment

  const SceneText& text_of(std::uint32_t rank) const { return texts[ranks[rank].text]; }
  std::span<const Flows::Share> way(const SceneEdge& edge) const {
    return std::span(shares).subspan(edge.first_share, edge.shares);
  }
  std::uint32_t in_edge(std::uint32_t rank, const SceneSlot& source) const {
    return ins[ranks[rank].first_in + source.number];
  }
  std::uint32_t out_edge(std::uint32_t rank, const SceneSlot& destination) const {
    return ranks[rank].first_edge + destination.number;
  }
  std::uint32_t peer_of(std::uint32_t rank, const SceneWait& wait) const {
    return peers[ranks[rank].first_peer + wait.peer];
  }
  // Bytes per second, where nobody else is on the way.
  double peak_of(std::span<const Flows::Share> way) const;
  double bytes_of(std::uint32_t rank, const SceneStep& step, std::uint64_t segment) const;
};

// What ranks differ in besides their programs, by rank.
struct RankTraits {
  std::vector<double> factors;  // as long as for others it takes what they compute and send
  std::vector<double> starts;   // seconds
};

// Speeds and ways of a topology with what is wrong with it.
class SceneLinks {
 public:
  SceneLinks(const topology::Topology& topology, std::span<const SimulateOptions::SlowLink> slow,
             std::span<const std::int64_t> failed);

  // Appends the links of the way, and says its latency. Links not seen before are added to `scene`.
  double route(int from, int to, Scene& scene, std::vector<Flows::Share>& shares);

 private:
  std::uint32_t number_of(std::int64_t link, Scene& scene);

  const topology::Topology& topology_;
  topology::Router router_;
  std::unordered_map<std::int64_t, double> slow_;            // factors
  std::unordered_map<std::int64_t, std::uint32_t> numbers_;  // of links that were ever used
};

// Throws Error(invalid_argument) where programs do not belong together, or a message has no way.
Scene make_scene(const ProgramSource& programs, std::uint64_t count, std::uint32_t element_bytes, SceneLinks& links);

}  // namespace tutti::schedule
