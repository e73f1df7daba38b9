// The ways between ranks, by topology.h's rule, for those who ask for many: what it takes to find one is kept between
// calls. Links may have failed; a way leads around them where one is left. Not for several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "topology/parts.h"
#include "topology/topology.h"

namespace tutti::topology {

class Router {
 public:
  // `failed`: directed links that carry nothing. The topology must outlive the router.
  explicit Router(const Topology& topology, std::span<const std::int64_t> failed = {});

  // Throws Error(invalid_argument) where a rank is none, or there is no way.
  Route route(int from, int to);

 private:
  enum class Direction : std::uint8_t { up, down };  // of what travels there

  // A vertex that a climb has reached, and the best way there.
  struct Reached {
    Vertex vertex;
    double latency = 0;
    int links = 0;
    std::size_t below = 0;  // where the one before lies in the climb
    std::int64_t link = -1;
  };
  using Ascent = std::vector<Reached>;  // in the order of parts, then as found; the device first

  // Where two climbs meet: at one vertex, or at the two ends of a link of a mesh.
  struct Crest {
    double latency = 0;
    int links = 0;                    // of the whole way
    std::size_t left = 0, right = 0;  // in the climbs
    std::int64_t link = -1;
  };

  // What makes a choice among equals, for the way under search.
  struct Ends {
    std::uint64_t salt = 0;     // of the two
    std::int64_t receiver = 0;  // its host's number and its own there, together: neighbours of both kinds differ
  };

  void climb(int rank, Direction direction, const Ends& ends, Ascent& ascent) const;
  void climb_from(std::size_t from, const LinkKind& kind, std::int64_t first, Direction direction, const Ends& ends,
                  Ascent& ascent) const;
  bool best_crest(const Ends& ends, Crest& best) const;
  // How far a vertex is from the one whose turn it is, for this receiver.
  std::int64_t turns_to(const Vertex& vertex, const Ends& ends) const;
  // Which of equals wins: the least.
  std::uint64_t lot_of_way(const Reached& reached, const Ascent& ascent, const Ends& ends) const;
  std::uint64_t lot_of_crest(const Crest& crest, const Ends& ends) const;
  bool works(std::int64_t link) const { return failed_.empty() || !failed_.contains(link); }

  const Topology& topology_;
  std::unordered_set<std::int64_t> failed_;
  std::vector<std::int64_t> firsts_;  // by kind of links: the number of its first one
  std::vector<std::int64_t> turns_;   // by part: how many hosts have the same turn there, one after the other
  Ascent left_, right_;               // from the sender up, and from the receiver
};

}  // namespace tutti::topology
