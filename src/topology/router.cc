#include "topology/router.h"

#include <algorithm>
#include <string>

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
}

Route Router::route(int from, int to) {
  for (const int rank : {from, to}) {
    if (rank < 0 || rank >= topology_.ranks())
      throw Error(ErrorCode::invalid_argument, std::to_string(rank) + " is no rank of " + topology_.name +
                                                   ", which has " + std::to_string(topology_.ranks()));
  }
  if (from == to) return {};
  const std::uint64_t salt = mix(static_cast<std::uint64_t>(from) + 1, static_cast<std::uint64_t>(to) + 1);
  climb(from, Direction::up, salt, left_);
  climb(to, Direction::down, salt, right_);
  Crest best;
  if (!best_crest(salt, best)) {
    throw Error(ErrorCode::invalid_argument, topology_.name + ": no way leads from " + words_of(topology_, {0, from}) +
                                                 " to " + words_of(topology_, {0, to}) +
                                                 (failed_.empty() ? "" : " without the links that have failed"));
  }
  Route route{{}, best.latency};
  for (std::size_t at = best.left; left_[at].link >= 0; at = left_[at].below) route.links.push_back(left_[at].link);
  std::reverse(route.links.begin(), route.links.end());
  if (best.link >= 0) route.links.push_back(best.link);
  for (std::size_t at = best.right; right_[at].link >= 0; at = right_[at].below) route.links.push_back(right_[at].link);
  return route;
}

void Router::climb(int rank, Direction direction, std::uint64_t salt, Ascent& ascent) const {
  ascent.clear();
  ascent.push_back({{0, rank}});
  // Links lead to parts with higher numbers, so a part is complete once those before it have been climbed from.
  for (int part = 0; part < static_cast<int>(topology_.parts.size()); ++part) {
    const std::size_t known = ascent.size();
    for (std::size_t from = 0; from < known; ++from) {
      if (ascent[from].vertex.part != part) continue;
      for (std::size_t number = 0; number < topology_.links.size(); ++number) {
        const LinkKind& kind = topology_.links[number];
        if (kind.lower == part && kind.pattern != Pattern::mesh)
          climb_from(from, kind, firsts_[number], direction, salt, ascent);
      }
    }
  }
}

// Of the ways to a vertex the quickest stays, and among equals one that depends on the two ends, so that load spreads.
void Router::climb_from(std::size_t from, const LinkKind& kind, std::int64_t first, Direction direction,
                        std::uint64_t salt, Ascent& ascent) const {
  const bool up = direction == Direction::up;
  const double latency = ascent[from].latency + (up ? kind.up : kind.down).latency_s;
  for_each_upper(topology_, kind, ascent[from].vertex.number, [&](std::int64_t upper, std::int64_t instance) {
    const std::int64_t link = (first + instance) * 2 + (up ? 0 : 1);
    if (!works(link)) return;
    const Vertex vertex{kind.upper, upper};
    const auto known =
        std::find_if(ascent.begin(), ascent.end(), [&](const Reached& reached) { return reached.vertex == vertex; });
    if (known == ascent.end()) {
      ascent.push_back({vertex, latency, from, link});
    } else if (latency < known->latency || (latency == known->latency && draw(salt, link) < draw(salt, known->link))) {
      *known = {vertex, latency, from, link};
    }
  });
}

bool Router::best_crest(std::uint64_t salt, Crest& best) const {
  bool found = false;
  const auto lot_of = [&](const Crest& crest) {
    return draw(draw(salt, left_[crest.left].vertex.number), right_[crest.right].vertex.number);
  };
  const auto offer = [&](const Crest& crest) {
    if (found && (crest.latency > best.latency || (crest.latency == best.latency && lot_of(crest) >= lot_of(best))))
      return;
    best = crest;
    found = true;
  };
  for (std::size_t a = 0; a < left_.size(); ++a) {
    for (std::size_t b = 0; b < right_.size(); ++b) {
      if (left_[a].vertex == right_[b].vertex) offer({left_[a].latency + right_[b].latency, a, b, -1});
    }
  }
  for (std::size_t number = 0; number < topology_.links.size(); ++number) {
    const LinkKind& kind = topology_.links[number];
    if (kind.pattern != Pattern::mesh) continue;
    const std::int64_t count = topology_.total(part_of(topology_, kind.lower));
    for (std::size_t a = 0; a < left_.size(); ++a) {
      for (std::size_t b = 0; b < right_.size(); ++b) {
        const Vertex &left = left_[a].vertex, &right = right_[b].vertex;
        if (left.part != kind.lower || right.part != kind.lower || left == right) continue;
        const std::int64_t link = (firsts_[number] + left.number * count + right.number) * 2;
        if (works(link)) offer({left_[a].latency + kind.up.latency_s + right_[b].latency, a, b, link});
      }
    }
  }
  return found;
}

}  // namespace tutti::topology
