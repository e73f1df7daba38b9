#include "schedule/readers/simulate/symmetry.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <utility>

namespace tutti::schedule {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

using Colour = std::uint64_t;

// Every bit of the result depends on every bit of both: equal colours are taken for equal histories.
constexpr Colour blend(Colour a, Colour b) {
  Colour x = a * 0x9e3779b97f4a7c15u + std::rotl(b, 31) + 0x2545f4914f6cdd1du;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27) ^ b) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
Colour colour_of(double value) { return std::bit_cast<Colour>(value); }

std::size_t count_different(std::vector<Colour> colours) {
  std::sort(colours.begin(), colours.end());
  return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
}

// Classes by refinement: at first by what ranks and links are, then by what the classes of those around them are, until
// that tells nobody apart any more.
class Refinement {
 public:
  Refinement(const Scene& scene, const RankTraits& traits)
      : scene_(scene), edges_(scene.edges.size()), in_numbers_(scene.edges.size(), kNone) {
    for (const SceneRank& rank : scene.ranks) {
      const auto place = static_cast<std::size_t>(rank.rank);
      ranks_.push_back(blend(blend(rank.text, colour_of(traits.factors[place])), colour_of(traits.starts[place])));
      for (std::uint32_t i = 0; i < rank.ins; ++i) in_numbers_[scene.ins[rank.first_in + i]] = i;
    }
    for (const double capacity : scene.capacities) links_.push_back(colour_of(capacity));
  }

  // False where more than `most` classes of ranks would be needed, or it takes too long to tell.
  bool refine(std::size_t most) {
    constexpr int kMostRounds = 64;
    std::size_t known = 0;
    for (int round = 0; round < kMostRounds; ++round) {
      colour_edges();
      const std::size_t classes = count_different(ranks_);
      if (classes > most) return false;
      const std::size_t all = classes + count_different(links_);
      if (all == known) return true;
      known = all;
      colour_links();
      colour_ranks();
    }
    return false;
  }

  const std::vector<Colour>& ranks() const { return ranks_; }
  const std::vector<Colour>& links() const { return links_; }

 private:
  void colour_edges() {
    for (std::size_t number = 0; number < edges_.size(); ++number) {
      const SceneEdge& edge = scene_.edges[number];
      Colour colour = blend(ranks_[edge.from], number - scene_.ranks[edge.from].first_edge);
      colour = blend(blend(colour, ranks_[edge.to]), in_numbers_[number]);
      colour = blend(blend(colour, ranks_[static_cast<std::size_t>(edge.peer)]), edge.credits);
      colour = blend(colour, colour_of(edge.latency_s));
      for (const Flows::Share& share : scene_.way(edge)) colour = blend(colour, links_[share.link]);
      edges_[number] = colour;
    }
  }
  void colour_links() {
    std::vector<Colour> crossed(links_.size(), 0);  // sums, since links know no order
    for (std::size_t number = 0; number < edges_.size(); ++number) {
      Colour hop = 0;
      for (const Flows::Share& share : scene_.way(scene_.edges[number]))
        crossed[share.link] += blend(edges_[number], ++hop);
    }
    for (std::size_t link = 0; link < links_.size(); ++link) links_[link] = blend(links_[link], crossed[link]);
  }
  void colour_ranks() {
    std::vector<Colour> next;
    next.reserve(ranks_.size());
    for (const SceneRank& rank : scene_.ranks) {
      Colour colour = ranks_[next.size()];
      for (std::uint32_t i = 0; i < rank.edges; ++i) colour = blend(colour, edges_[rank.first_edge + i]);
      for (std::uint32_t i = 0; i < rank.ins; ++i) colour = blend(colour, edges_[scene_.ins[rank.first_in + i]]);
      for (std::uint32_t i = 0; i < rank.peers; ++i) colour = blend(colour, ranks_[scene_.peers[rank.first_peer + i]]);
      next.push_back(colour);
    }
    ranks_ = std::move(next);
  }

  const Scene& scene_;
  std::vector<Colour> ranks_, edges_, links_;
  std::vector<std::uint32_t> in_numbers_;  // by edge: its number at the receiver
};

// Classes numbered in the order of their first members.
struct Classes {
  std::vector<std::uint32_t> of;       // by member
  std::vector<std::uint32_t> first;    // by class: its first member
  std::vector<std::uint32_t> members;  // by class: how many

  explicit Classes(const std::vector<Colour>& colours) {
    std::unordered_map<Colour, std::uint32_t> numbers;
    for (const Colour colour : colours) {
      const auto [entry, is_new] = numbers.emplace(colour, static_cast<std::uint32_t>(first.size()));
      if (is_new) {
        first.push_back(static_cast<std::uint32_t>(of.size()));
        members.push_back(0);
      }
      ++members[entry->second];
      of.push_back(entry->second);
    }
  }
};

// The scene with one rank for each class, and one link.
class Folding {
 public:
  Folding(const Scene& scene, const Classes& ranks, const Classes& links)
      : scene_(scene), ranks_(ranks), links_(links) {}

  // False where the classes turn out not to be even, which leaves `folded` unfit.
  bool fold(Scene& folded) {
    folded.texts = scene_.texts;
    folded.layout = scene_.layout;
    folded.blocks_alike = scene_.blocks_alike;
    folded.links_alike = links_.members;
    for (const std::uint32_t link : links_.first) {
      folded.links.push_back(scene_.links[link]);
      folded.capacities.push_back(scene_.capacities[link]);
    }
    for (std::uint32_t number = 0; number < ranks_.first.size(); ++number) {
      if (!add_rank(number, folded)) return false;
    }
    return join(folded);
  }

 private:
  bool add_rank(std::uint32_t number, Scene& folded) {
    const SceneRank& one = scene_.ranks[ranks_.first[number]];
    SceneRank place = one;
    place.stands_for = ranks_.members[number];
    place.first_edge = static_cast<std::uint32_t>(folded.edges.size());
    place.first_in = static_cast<std::uint32_t>(folded.ins.size());
    place.first_peer = static_cast<std::uint32_t>(folded.peers.size());
    for (std::uint32_t i = 0; i < one.edges; ++i) {
      SceneEdge edge = scene_.edges[one.first_edge + i];
      const std::span<const Flows::Share> way = scene_.way(edge);
      edge.from = number;
      edge.to = ranks_.of[edge.to];
      edge.first_share = static_cast<std::uint32_t>(folded.shares.size());
      std::map<std::uint32_t, std::uint64_t> crossed;  // by class of links: by all ranks of the class together
      for (const Flows::Share& share : way) crossed[links_.of[share.link]] += place.stands_for;
      for (const auto& [link, times] : crossed) {
        if (times % links_.members[link] != 0) return false;
        folded.shares.push_back({link, static_cast<std::uint32_t>(times / links_.members[link])});
      }
      edge.shares = static_cast<std::uint32_t>(crossed.size());
      folded.edges.push_back(edge);
    }
    for (std::uint32_t i = 0; i < one.ins; ++i) {
      folded.ins.push_back(scene_.ins[one.first_in + i]);  // as it was before, for now
      folded.senders.push_back(scene_.senders[one.first_in + i]);
    }
    for (std::uint32_t i = 0; i < one.peers; ++i) {
      folded.peers.push_back(ranks_.of[scene_.peers[one.first_peer + i]]);
      folded.awaited.push_back(scene_.awaited[one.first_peer + i]);
    }
    folded.ranks.push_back(place);
    return true;
  }

  bool join(Scene& folded) const {
    for (std::uint32_t& in : folded.ins) {
      const std::uint32_t sender = scene_.edges[in].from;
      const std::uint32_t number = in - scene_.ranks[sender].first_edge;
      if (number >= scene_.ranks[sender].edges) return false;  // nobody ever sends there
      in = folded.ranks[ranks_.of[sender]].first_edge + number;
    }
    return true;
  }

  const Scene& scene_;
  const Classes& ranks_;
  const Classes& links_;
};

}  // namespace

std::vector<std::uint32_t> fold_scene(Scene& scene, const RankTraits& traits) {
  // Where blocks differ in size, so do equal texts.
  if (!scene.blocks_alike || scene.ranks.size() < 2) return {};
  Refinement refinement(scene, traits);
  if (!refinement.refine(scene.ranks.size() / 2)) return {};
  const Classes ranks(refinement.ranks()), links(refinement.links());
  Scene folded;
  if (!Folding(scene, ranks, links).fold(folded)) return {};
  scene = std::move(folded);
  return ranks.of;
}

}  // namespace tutti::schedule
