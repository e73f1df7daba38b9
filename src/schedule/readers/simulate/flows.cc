#include "schedule/readers/simulate/flows.h"

#include <algorithm>
#include <cmath>
#include <string>

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
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[id];
  flow.way = way;
  flow.left = flow.bytes = bytes;
  flow.looked = now;
  flow.rate = 0;
  flow.peak = most;
  for (const Share& share : way) flow.peak = std::min(flow.peak, links_[share.link].capacity / share.weight);
  flow.places.clear();
  for (std::uint32_t hop = 0; hop < way.size(); ++hop) {
    SharedLink& link = links_[way[hop].link];
    flow.places.push_back(static_cast<std::uint32_t>(link.members.size()));
    link.members.push_back({id, hop});
    link.demand += flow.peak * way[hop].weight;
    touch(way[hop].link);
  }
  fresh_.push_back(id);
  return id;
}

void Flows::touch(std::uint32_t link) {
  if (links_[link].touched) return;
  links_[link].touched = true;
  touched_.push_back(link);
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
  gather();
  share_out(now);
  for (const std::uint32_t link : touched_) {
    links_[link].touched = false;
    links_[link].was_tight = links_[link].is_tight();
  }
  touched_.clear();
  fresh_.clear();
}

// All flows whose rates may have changed, and the links that may limit them.
void Flows::gather() {
  ++visits_;
  gathered_.clear();
  gathered_links_.clear();
  for (const Id flow : fresh_) gather_flow(flow);
  for (const std::uint32_t link : touched_) {
    if (links_[link].was_tight || links_[link].is_tight()) gather_link(link);
  }
  for (std::size_t next = 0; next < gathered_links_.size(); ++next) {
    for (const Member& member : links_[gathered_links_[next]].members) gather_flow(member.flow);
  }
}

void Flows::gather_flow(Id id) {
  Flow& flow = flows_[id];
  if (flow.visit == visits_) return;
  flow.visit = visits_;
  flow.open = true;
  gathered_.push_back(id);
  for (const Share& share : flow.way) {
    if (links_[share.link].is_tight()) gather_link(share.link);
  }
}

void Flows::gather_link(std::uint32_t number) {
  SharedLink& link = links_[number];
  if (link.visit == visits_) return;
  link.visit = visits_;
  link.left = link.capacity;
  link.open = 0;
  gathered_links_.push_back(number);
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

// Fills all flows alike until a link is full, or a flow has all it can take; those stay so, and the rest goes on.
void Flows::share_out(double now) {
  caps_ = 0;
  for (const Id id : gathered_) {
    const Flow& flow = flows_[id];
    double narrowest = kNever;
    for (const Share& share : flow.way) {
      SharedLink& link = links_[share.link];
      if (link.visit != visits_ || !link.is_tight()) continue;
      link.open += share.weight;
      narrowest = std::min(narrowest, link.capacity / share.weight);
    }
    if (narrowest == kNever) {
      freeze(now, id, flow.peak);
    } else if (flow.peak < narrowest) {
      cap(id);
    }
  }
  const auto higher = [](const Level& a, const Level& b) {
    return a.rate != b.rate ? a.rate > b.rate : a.link > b.link;
  };
  levels_.clear();
  for (const std::uint32_t number : gathered_links_) {
    const SharedLink& link = links_[number];
    if (link.open > 0) levels_.push_back({link.left / link.open, number});
  }
  std::make_heap(levels_.begin(), levels_.end(), higher);
  std::sort(capped_.begin(), capped_.begin() + static_cast<std::ptrdiff_t>(caps_),
            [](const Capped& a, const Capped& b) { return a.peak < b.peak; });
  std::size_t next_cap = 0;
  while (!levels_.empty()) {
    std::pop_heap(levels_.begin(), levels_.end(), higher);
    Level& lowest = levels_.back();
    const SharedLink& link = links_[lowest.link];
    const double rate = link.open > 0 ? std::max(0.0, link.left) / link.open : kNever;
    if (rate == kNever) {
      levels_.pop_back();
    } else if (rate > lowest.rate * (1 + kRounding)) {
      lowest.rate = rate;
      std::push_heap(levels_.begin(), levels_.end(), higher);
    } else if (next_cap < caps_ && capped_[next_cap].peak <= rate) {
      for (const Id id : capped_[next_cap].flows) freeze(now, id, capped_[next_cap].peak);
      ++next_cap;
      std::push_heap(levels_.begin(), levels_.end(), higher);
    } else {
      levels_.pop_back();
      for (const Member& member : link.members) freeze(now, member.flow, rate);
    }
  }
  require_within_capacity();
}

void Flows::freeze(double now, Id id, double rate) {
  Flow& flow = flows_[id];
  if (!flow.open) return;
  flow.open = false;
  for (const Share& share : flow.way) {
    SharedLink& link = links_[share.link];
    link.left -= rate * share.weight;
    link.open -= share.weight;
  }
  set_rate(now, id, rate);
}

void Flows::set_rate(double now, Id id, double rate) {
  Flow& flow = flows_[id];
  if (flow.rate > 0 && std::abs(flow.rate - rate) <= kRounding * flow.rate) return;
  flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.looked));
  flow.looked = now;
  flow.rate = rate;
  ++rate_changes_;
  ends_.set(id, flow.left == 0 ? now : now + flow.left / rate);
}

void Flows::require_within_capacity() const {
  for (const std::uint32_t number : gathered_links_) {
    const SharedLink& link = links_[number];
    if (link.is_tight() && link.left < -kLoadRounding * link.capacity)
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

std::vector<Flows::LinkUse> Flows::uses() const {
  std::vector<LinkUse> uses;
  for (const SharedLink& link : links_) {
    LinkUse use{link.capacity, link.bytes, 0};
    for (const Member& member : link.members)
      use.load += flows_[member.flow].rate * flows_[member.flow].way[member.hop].weight;
    uses.push_back(use);
  }
  return uses;
}

}  // namespace tutti::schedule
