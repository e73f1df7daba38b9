#include "topology/router.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/mix.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

std::uint64_t draw(std::uint64_t salt, std::int64_t number) { return mix(salt, static_cast<std::uint64_t>(number)); }

}  // namespace

Router::Router(const Topology& topology, std::span<const std::int64_t> failed)
    : topology_(topology), failed_(failed.begin(), failed.end()) {
  std::int64_t first = 0;
  for (const LinkKind& kind : topology.links) {
    firsts_.push_back(first);
    first += instances_of(topology, kind);
  }
  // Each choice on the way up goes by another digit of the receiver's number, so that choices are independent.
  std::int64_t turns = 1;
  for (int part = 0; part < static_cast<int>(topology.parts.size()); ++part) {
    turns_.push_back(turns);
    const bool chosen = std::any_of(topology.links.begin(), topology.links.end(), [&](const LinkKind& kind) {
      return kind.upper == part && kind.pattern == Pattern::all;
    });
    if (chosen && !part_of(topology, part).in_host() && turns < topology.hosts) turns *= part_of(topology, part).count;
  }
}

Route Router::route(int from, int to) {
  for (const int rank : {from, to}) {
    if (rank < 0 || rank >= topology_.ranks())
      throw Error(ErrorCode::invalid_argument, std::to_string(rank) + " is no rank of " + topology_.name +
                                                   ", which has " + std::to_string(topology_.ranks()));
  }
  if (from == to) return {};
  const Ends ends{mix(static_cast<std::uint64_t>(from) + 1, static_cast<std::uint64_t>(to) + 1),
                  topology_.host_of(to) + to - topology_.first_rank(topology_.host_of(to))};
  climb(from, Direction::up, ends, left_);
  climb(to, Direction::down, ends, right_);
  Crest best;
  if (!best_crest(ends, best)) {
    throw Error(ErrorCode::invalid_argument, topology_.name + ": no way leads from " +
                                                 words_of(topology_, device_of(topology_, from)) + " to " +
                                                 words_of(topology_, device_of(topology_, to)) +
                                                 (failed_.empty() ? "" : " without the links that have failed"));
  }
  Route route{{}, best.latency};
  for (std::size_t at = best.left; left_[at].link >= 0; at = left_[at].below) route.links.push_back(left_[at].link);
  std::reverse(route.links.begin(), route.links.end());
  if (best.link >= 0) route.links.push_back(best.link);
  for (std::size_t at = best.right; right_[at].link >= 0; at = right_[at].below) route.links.push_back(right_[at].link);
  return route;
}

void Router::climb(int rank, Direction direction, const Ends& ends, Ascent& ascent) const {
  ascent.clear();
  ascent.push_back({device_of(topology_, rank)});
  // Links lead to parts with higher numbers, so a part is complete once those before it have been climbed from.
  for (int part = 0; part < static_cast<int>(topology_.parts.size()); ++part) {
    const std::size_t known = ascent.size();
    for (std::size_t from = 0; from < known; ++from) {
      if (ascent[from].vertex.part != part) continue;
      for (std::size_t number = 0; number < topology_.links.size(); ++number) {
        const LinkKind& kind = topology_.links[number];
        if (kind.lower == part && kind.pattern != Pattern::mesh)
          climb_from(from, kind, firsts_[number], direction, ends, ascent);
      }
    }
  }
}

std::int64_t Router::turns_to(const Vertex& vertex, const Ends& ends) const {
  const std::int64_t count = part_of(topology_, vertex.part).count;
  const std::int64_t turn = ends.receiver / turns_[static_cast<std::size_t>(vertex.part)] % count;
  return (vertex.number % count - turn + count) % count;
}

std::uint64_t Router::lot_of_way(const Reached& reached, const Ascent& ascent, const Ends& ends) const {
  if (topology_.routing == Routing::ecmp) return draw(ends.salt, reached.link);
  return static_cast<std::uint64_t>(turns_to(ascent[reached.below].vertex, ends));
}

std::uint64_t Router::lot_of_crest(const Crest& crest, const Ends& ends) const {
  const Vertex &left = left_[crest.left].vertex, &right = right_[crest.right].vertex;
  if (topology_.routing == Routing::ecmp) return draw(draw(ends.salt, left.number), right.number);
  constexpr std::int64_t kMostTurns = std::int64_t{kMostOfAPart} + 1;
  return static_cast<std::uint64_t>(turns_to(left, ends) * kMostTurns + turns_to(right, ends));
}

// Of the ways to a vertex the quickest stays, then the shortest, and among equals the one that routing picks.
void Router::climb_from(std::size_t from, const LinkKind& kind, std::int64_t first, Direction direction,
                        const Ends& ends, Ascent& ascent) const {
  const bool up = direction == Direction::up;
  const double latency = ascent[from].latency + speed_of(topology_, kind, ascent[from].vertex.number, up).latency_s;
  for_each_upper(topology_, kind, ascent[from].vertex.number, [&](std::int64_t upper, std::int64_t instance) {
    const std::int64_t link = (first + instance) * 2 + (up ? 0 : 1);
    if (!works(link)) return;
    const Reached found{{kind.upper, upper}, latency, ascent[from].links + 1, from, link};
    const auto known = std::find_if(ascent.begin(), ascent.end(),
                                    [&](const Reached& reached) { return reached.vertex == found.vertex; });
    if (known == ascent.end()) {
      ascent.push_back(found);
      return;
    }
    const auto before = std::pair(known->latency, known->links), now = std::pair(found.latency, found.links);
    if (now < before || (now == before && lot_of_way(found, ascent, ends) < lot_of_way(*known, ascent, ends)))
      *known = found;
  });
}

bool Router::best_crest(const Ends& ends, Crest& best) const {
  bool found = false;
  const auto offer = [&](const Crest& crest) {
    const auto before = std::pair(best.latency, best.links), now = std::pair(crest.latency, crest.links);
    if (found && (now > before || (now == before && lot_of_crest(crest, ends) >= lot_of_crest(best, ends)))) return;
    best = crest;
    found = true;
  };
  for (std::size_t a = 0; a < left_.size(); ++a) {
    for (std::size_t b = 0; b < right_.size(); ++b) {
      if (left_[a].vertex == right_[b].vertex)
        offer({left_[a].latency + right_[b].latency, left_[a].links + right_[b].links, a, b, -1});
    }
  }
  for (std::size_t number = 0; number < topology_.links.size(); ++number) {
    const LinkKind& kind = topology_.links[number];
    if (kind.pattern != Pattern::mesh) continue;
    const std::int64_t count = topology_.numbers(part_of(topology_, kind.lower));
    for (std::size_t a = 0; a < left_.size(); ++a) {
      for (std::size_t b = 0; b < right_.size(); ++b) {
        const Vertex &left = left_[a].vertex, &right = right_[b].vertex;
        if (left.part != kind.lower || right.part != kind.lower || left == right) continue;
        const std::int64_t link = (firsts_[number] + left.number * count + right.number) * 2;
        if (works(link))
          offer({left_[a].latency + kind.up.latency_s + right_[b].latency, left_[a].links + 1 + right_[b].links, a, b,
                 link});
      }
    }
  }
  return found;
}

}  // namespace tutti::topology
