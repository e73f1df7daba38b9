#include "schedule/readers/simulate/flows.h"

#include <algorithm>
#include <utility>

namespace tutti::schedule {
namespace {

// Bytes that rounding may leave of a flow that has ended.
constexpr double kNothing = 1e-6;

}  // namespace

Flows::Id Flows::add(double now, std::vector<std::uint32_t> links, double bytes, double most) {
  Id id = static_cast<Id>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[id];
  flow.links = std::move(links);
  flow.left = flow.bytes = bytes;
  flow.looked = now;
  flow.rate = 0;
  flow.most = most;
  ++flow.version;
  for (const std::uint32_t link : flow.links) links_[link].flows.push_back(id);
  if (flow.links.empty()) {
    set_rate(now, id, most);
  } else {
    touch(flow);
  }
  return id;
}

void Flows::touch(const Flow& flow) { changed_.insert(changed_.end(), flow.links.begin(), flow.links.end()); }

void Flows::remove(Id id) {
  Flow& flow = flows_[id];
  for (const std::uint32_t link : flow.links) {
    std::vector<Id>& flows = links_[link].flows;
    flows.erase(std::find(flows.begin(), flows.end(), id));
    links_[link].bytes += flow.bytes;
  }
  touch(flow);
  flow.links.clear();
  ++flow.version;
  free_.push_back(id);
}

void Flows::settle(double now) {
  ++visits_;
  std::vector<Id> flows;
  std::vector<std::uint32_t> links;
  for (const std::uint32_t link : std::exchange(changed_, {})) {
    if (links_[link].visit == visits_) continue;
    flows.clear();
    links.clear();
    gather_component(link, flows, links);
    share_out(now, flows, links);
  }
}

void Flows::gather_component(std::uint32_t from, std::vector<Id>& flows, std::vector<std::uint32_t>& links) {
  links_[from].visit = visits_;
  links.push_back(from);
  for (std::size_t next = 0; next < links.size(); ++next) {
    for (const Id id : links_[links[next]].flows) {
      Flow& flow = flows_[id];
      if (flow.visit == visits_) continue;
      flow.visit = visits_;
      flows.push_back(id);
      for (const std::uint32_t link : flow.links) {
        if (links_[link].visit == visits_) continue;
        links_[link].visit = visits_;
        links.push_back(link);
      }
    }
  }
}

// Fills all flows alike until a link is full, or a flow has all it can take; those stay so, and the rest goes on.
void Flows::share_out(double now, std::vector<Id>& flows, const std::vector<std::uint32_t>& links) {
  struct Bound {
    double level = 0;
    std::uint32_t link = 0;

    bool operator>(const Bound& other) const { return level != other.level ? level > other.level : link > other.link; }
  };
  std::priority_queue<Bound, std::vector<Bound>, std::greater<>> bounds;
  const auto bound_of = [&](std::uint32_t number) { return Bound{links_[number].left / links_[number].open, number}; };
  for (const std::uint32_t number : links) {
    SharedLink& link = links_[number];
    link.left = link.capacity;
    link.open = static_cast<std::uint32_t>(link.flows.size());
    if (link.open > 0) bounds.push(bound_of(number));
  }
  std::sort(flows.begin(), flows.end(),
            [&](Id a, Id b) { return flows_[a].most != flows_[b].most ? flows_[a].most < flows_[b].most : a < b; });
  ++shares_;
  const auto has_rate = [&](Id id) { return flows_[id].shared == shares_; };
  const auto give = [&](Id id, double rate) {
    flows_[id].shared = shares_;
    set_rate(now, id, rate);
    for (const std::uint32_t number : flows_[id].links) {
      SharedLink& link = links_[number];
      link.left = std::max(0.0, link.left - rate);
      if (--link.open > 0) bounds.push(bound_of(number));
    }
  };
  std::size_t capped = 0;
  while (!bounds.empty()) {
    const Bound bound = bounds.top();
    const SharedLink& link = links_[bound.link];
    if (link.open == 0 || bound.level != link.left / link.open) {
      bounds.pop();
      continue;
    }
    while (capped < flows.size() && has_rate(flows[capped])) ++capped;
    if (capped < flows.size() && flows_[flows[capped]].most <= bound.level) {
      give(flows[capped], flows_[flows[capped]].most);
      continue;
    }
    bounds.pop();
    const std::vector<Id> there = link.flows;
    for (const Id id : there) {
      if (!has_rate(id)) give(id, bound.level);
    }
  }
}

void Flows::set_rate(double now, Id id, double rate) {
  Flow& flow = flows_[id];
  if (flow.rate == rate && rate != 0) return;
  flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.looked));
  flow.looked = now;
  flow.rate = rate;
  ++flow.version;
  ++rate_changes_;
  const double end = flow.left <= kNothing ? now : now + flow.left / rate;
  ends_.push({end, id, flow.version});
}

double Flows::next_end() {
  while (!ends_.empty()) {
    const End& end = ends_.top();
    if (flows_[end.flow].version == end.version) return end.at;
    ends_.pop();
  }
  return kNever;
}

bool Flows::take_ended(double now, Id* ended) {
  if (next_end() > now) return false;
  *ended = ends_.top().flow;
  ends_.pop();
  remove(*ended);
  return true;
}

std::vector<Flows::LinkUse> Flows::uses() const {
  std::vector<LinkUse> uses;
  for (const SharedLink& link : links_) {
    LinkUse use{link.link, link.capacity, link.bytes, 0};
    for (const Id id : link.flows) use.load += flows_[id].rate;
    uses.push_back(use);
  }
  return uses;
}

}  // namespace tutti::schedule
