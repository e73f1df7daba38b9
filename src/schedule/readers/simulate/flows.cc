#include "schedule/readers/simulate/flows.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// What rounding may do to a rate or a time.
constexpr double kRounding = 1e-12;
// And to the load of a link, which is a sum of many.
constexpr double kLoadRounding = 1e-9;

}  // namespace

void Flows::add_links(std::span<const double> capacities) {
  for (std::size_t link = links_.size(); link < capacities.size(); ++link) links_.push_back({capacities[link]});
}

Flows::Id Flows::begin(double now, std::span<const Share> way, double bytes, double most) {
  Id id = static_cast<Id>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
    paces_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[id];
  flow.way = way;
  flow.left = flow.bytes = bytes;
  flow.looked = now;
  paces_[id].rate = 0;
  paces_[id].limit = kNoLink;
  flow.peak = most;
  for (const Share& share : way) flow.peak = std::min(flow.peak, links_[share.link].capacity / share.weight);
  flow.places.clear();
  for (std::uint32_t hop = 0; hop < way.size(); ++hop) {
    SharedLink& link = links_[way[hop].link];
    flow.places.push_back(static_cast<std::uint32_t>(link.members.size()));
    link.members.push_back({id, hop, way[hop].weight});
    link.demand += flow.peak * way[hop].weight;
    touch(way[hop].link);
  }
  fresh_.push_back(id);
  return id;
}

void Flows::touch(std::uint32_t number) {
  SharedLink& link = links_[number];
  link.tight = link.demand > link.capacity * (1 + kRounding);
  if (std::exchange(link.touched, true)) return;
  touched_.push_back(number);
}

void Flows::remove(Id id) {
  Flow& flow = flows_[id];
  for (std::uint32_t hop = 0; hop < flow.way.size(); ++hop) {
    const Share& share = flow.way[hop];
    SharedLink& link = links_[share.link];
    const Member last = link.members.back();
    link.members[flow.places[hop]] = last;
    flows_[last.flow].places[last.hop] = flow.places[hop];
    link.members.pop_back();
    link.bytes += flow.bytes * share.weight;
    // Nothing is left of what rounding has left.
    link.demand = link.members.empty() ? 0 : link.demand - flow.peak * share.weight;
    touch(share.link);
  }
  free_.push_back(id);
}

void Flows::settle(double now) {
  if (fresh_.empty() && touched_.empty()) return;
  ++settles_;
  chosen_.clear();
  for (const Id flow : fresh_) choose(flow);
  for (const std::uint32_t number : touched_) {
    SharedLink& link = links_[number];
    if (link.was_tight || link.tight) {
      for (const Member& member : link.members) {
        if (paces_[member.flow].limit == number) choose(member.flow);
      }
    }
    link.touched = false;
    link.was_tight = link.tight;
  }
  touched_.clear();
  fresh_.clear();
  do {
    share_out();
  } while (widen());
  require_within_capacity();
  for (const Id flow : chosen_) set_rate(now, flow, paces_[flow].next);
}

void Flows::choose(Id id) {
  if (is_chosen(id)) return;
  paces_[id].chosen = settles_;
  chosen_.push_back(id);
}

// What is left of a link to those who are chosen.
void Flows::open(std::uint32_t number) {
  SharedLink& link = links_[number];
  if (link.filling == fillings_) return;
  link.filling = fillings_;
  link.left = link.capacity;
  link.open = 0;
  link.level = kNever;
  for (const Member& member : link.members) {
    const Pace& pace = paces_[member.flow];
    if (pace.chosen == settles_) {
      link.open += member.weight;
    } else {
      link.left -= pace.rate * member.weight;
    }
  }
  levels_.push_back({std::max(0.0, link.left) / link.open, number});
  opened_.push_back(number);
}

// Peaks that no tight link enforces: few different ones, since links are of few kinds.
void Flows::cap(Id id) {
  const double peak = flows_[id].peak;
  std::size_t at = 0;
  while (at < caps_ && capped_[at].peak != peak) ++at;
  if (at == caps_) {
    if (capped_.size() == caps_) capped_.emplace_back();
    capped_[caps_].peak = peak;
    capped_[caps_++].flows.clear();
  }
  capped_[at].flows.push_back(id);
}

// Fills those who are chosen alike until a link is full, or a flow has all it can take; those stay so, and the rest
// goes on. What others have stays as it is.
void Flows::share_out() {
  ++fillings_;
  caps_ = 0;
  levels_.clear();
  opened_.clear();
  for (const Id id : chosen_) {
    const Flow& flow = flows_[id];
    paces_[id].open = true;
    double narrowest = kNever;
    for (const Share& share : flow.way) {
      if (!links_[share.link].tight) continue;
      open(share.link);
      narrowest = std::min(narrowest, links_[share.link].capacity / share.weight);
    }
    if (narrowest == kNever) {
      freeze(id, flow.peak, kNoLink);
    } else if (flow.peak < narrowest) {
      cap(id);
    }
  }
  const auto higher = [](const Level& a, const Level& b) {
    return a.rate != b.rate ? a.rate > b.rate : a.link > b.link;
  };
  std::make_heap(levels_.begin(), levels_.end(), higher);
  std::sort(capped_.begin(), capped_.begin() + static_cast<std::ptrdiff_t>(caps_),
            [](const Capped& a, const Capped& b) { return a.peak < b.peak; });
  std::size_t next_cap = 0;
  while (!levels_.empty()) {
    std::pop_heap(levels_.begin(), levels_.end(), higher);
    Level& lowest = levels_.back();
    SharedLink& link = links_[lowest.link];
    const double rate = link.open > 0 ? std::max(0.0, link.left) / link.open : kNever;
    if (rate == kNever) {
      levels_.pop_back();
    } else if (rate > lowest.rate * (1 + kRounding)) {
      lowest.rate = rate;
      std::push_heap(levels_.begin(), levels_.end(), higher);
    } else if (next_cap < caps_ && capped_[next_cap].peak <= rate) {
      for (const Id id : capped_[next_cap].flows) freeze(id, capped_[next_cap].peak, kNoLink);
      ++next_cap;
      std::push_heap(levels_.begin(), levels_.end(), higher);
    } else {
      link.level = rate;
      const std::uint32_t number = lowest.link;
      levels_.pop_back();
      for (const Member& member : link.members) freeze(member.flow, rate, number);
    }
  }
}

void Flows::freeze(Id id, double rate, std::uint32_t limit) {
  Pace& pace = paces_[id];
  if (!pace.open) return;
  pace.open = false;
  pace.next = rate;
  pace.limit = limit;
  for (const Share& share : flows_[id].way) {
    SharedLink& link = links_[share.link];
    link.left -= rate * share.weight;
    link.open -= share.weight;
  }
}

// Chooses more where what others have is no longer fair: on a link that limits somebody they have more than that, or
// the link that limits them is no longer full, or there is somebody with more. False: all is fair.
bool Flows::widen() {
  const std::size_t before = chosen_.size();
  for (const std::uint32_t number : opened_) {
    const SharedLink& link = links_[number];
    const bool full = link.left <= kLoadRounding * link.capacity;
    double highest = 0;
    for (const Member& member : link.members) {
      const Pace& pace = paces_[member.flow];
      highest = std::max(highest, pace.chosen == settles_ ? pace.next : pace.rate);
    }
    for (const Member& member : link.members) {
      const Pace& pace = paces_[member.flow];
      if (pace.chosen == settles_) continue;
      const bool unlimited = pace.limit == number && (!full || pace.rate < highest * (1 - kLoadRounding));
      if (unlimited || pace.rate > link.level * (1 + kLoadRounding)) choose(member.flow);
    }
  }
  return chosen_.size() > before;
}

void Flows::set_rate(double now, Id id, double rate) {
  Flow& flow = flows_[id];
  const double before = std::exchange(paces_[id].rate, rate);
  if (before > 0 && std::abs(before - rate) <= kRounding * before) {
    paces_[id].rate = before;  // what rounding makes of it is no change
    return;
  }
  flow.left = std::max(0.0, flow.left - before * (now - flow.looked));
  flow.looked = now;
  ++rate_changes_;
  ends_.set(id, flow.left == 0 ? now : now + flow.left / rate);
}

void Flows::require_within_capacity() const {
  for (const std::uint32_t number : opened_) {
    const SharedLink& link = links_[number];
    if (link.left < -kLoadRounding * link.capacity)
      throw Error(ErrorCode::system, "the simulator gave link " + std::to_string(number) + " " +
                                         std::to_string(link.capacity - link.left) + " bytes/s to carry, and it has " +
                                         std::to_string(link.capacity));
  }
}

bool Flows::take_ended(double now, Id* ended) {
  // Ends that rounding has set apart are one moment.
  if (ends_.empty() || ends_.first() > now * (1 + kRounding)) return false;
  *ended = ends_.first_number();
  ends_.remove(*ended);
  remove(*ended);
  return true;
}

std::vector<Flows::LinkUse> Flows::uses(double now) const {
  std::vector<LinkUse> uses;
  for (const SharedLink& link : links_) {
    LinkUse use{link.capacity, link.bytes, 0};
    for (const Member& member : link.members) {
      const Flow& flow = flows_[member.flow];
      const double rate = paces_[member.flow].rate;
      use.load += rate * member.weight;
      use.bytes += std::min(flow.bytes, flow.bytes - flow.left + rate * (now - flow.looked)) * member.weight;
    }
    uses.push_back(use);
  }
  return uses;
}

}  // namespace tutti::schedule
