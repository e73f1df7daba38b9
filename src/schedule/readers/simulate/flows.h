// Flows of bytes over links that they share: at every moment each has its max-min fair rate, so that no link carries
// more than it can, and no flow could have more without another that has no more having less.
//
// Rates change only when a flow begins or ends, and only among those that share links with it, directly or by others.
// Changes of one moment are made together, by settle().
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti::schedule {

class Flows {
 public:
  using Id = std::uint32_t;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // `capacity_of(link)`: bytes per second, asked once for each link.
  template <class CapacityOf>
  Id begin(double now, std::span<const std::int64_t> links, double bytes, double most, CapacityOf&& capacity_of) {
    std::vector<std::uint32_t> numbers;
    for (const std::int64_t link : links) {
      const auto [entry, is_new] = numbers_.emplace(link, static_cast<std::uint32_t>(links_.size()));
      if (is_new) links_.push_back({capacity_of(link), link});
      numbers.push_back(entry->second);
    }
    return add(now, std::move(numbers), bytes, most);
  }
  // Gives all flows whose neighbours have changed their rates. To be called before next_end(), at the same moment.
  void settle(double now);
  // When the next flow ends; kNever where there is none.
  double next_end();
  // One that has ended by now; false where there is none left.
  bool take_ended(double now, Id* ended);

  double rate_of(Id flow) const { return flows_[flow].rate; }
  std::uint64_t rate_changes() const { return rate_changes_; }

  struct LinkUse {
    std::int64_t link = 0;
    double capacity = 0;
    double bytes = 0;  // carried so far, by flows that have ended
    double load = 0;   // now, in bytes per second
  };
  std::vector<LinkUse> uses() const;

 private:
  struct Flow {
    std::vector<std::uint32_t> links;
    double left = 0;  // bytes, when it was last looked at
    double looked = 0;
    double rate = 0;
    double most = kNever;  // bytes per second, whatever the links have
    double bytes = 0;
    std::uint32_t version = 0;
    std::uint64_t visit = 0, shared = 0;  // when it was last gathered, and given a rate
  };
  struct SharedLink {
    double capacity = 0;
    std::int64_t link = 0;
    std::vector<Id> flows = {};
    double bytes = 0;
    std::uint64_t visit = 0;
    // While rates are worked out:
    double left = 0;
    std::uint32_t open = 0;
  };
  struct End {
    double at = 0;
    Id flow = 0;
    std::uint32_t version = 0;

    bool operator>(const End& other) const { return at != other.at ? at > other.at : flow > other.flow; }
  };

  Id add(double now, std::vector<std::uint32_t> links, double bytes, double most);
  void remove(Id flow);
  void touch(const Flow& flow);
  void gather_component(std::uint32_t from, std::vector<Id>& flows, std::vector<std::uint32_t>& links);
  void share_out(double now, std::vector<Id>& flows, const std::vector<std::uint32_t>& links);
  void set_rate(double now, Id flow, double rate);

  std::unordered_map<std::int64_t, std::uint32_t> numbers_;  // of links that were ever used
  std::vector<SharedLink> links_;
  std::vector<Flow> flows_;
  std::vector<Id> free_;
  std::vector<std::uint32_t> changed_;  // links whose flows have
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::uint64_t visits_ = 0, shares_ = 0;
  std::uint64_t rate_changes_ = 0;
};

}  // namespace tutti::schedule
