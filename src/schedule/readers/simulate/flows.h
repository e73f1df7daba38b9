// Flows of bytes over links that they share: at every moment each has its max-min fair rate, so that no link carries
// more than it can, and no flow could have more without another that has no more having less.
//
// Rates change only when a flow begins or ends. Changes of one moment are made together, by settle(): it works out the
// rates of those who are limited where something has changed, as if all others stayed as they are, and widens the
// choice until everybody is limited by a link that is full and gives nobody more, or has all it can take. A link that
// could carry all its flows at their peaks limits nobody. A flow may stand for many that are alike: then it has a
// weight on each link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedule/readers/simulate/deadline_heap.h"

namespace tutti::schedule {

class Flows {
 public:
  using Id = std::uint32_t;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // A link that a flow takes, and how many of those it stands for take the same one.
  struct Share {
    std::uint32_t link = 0;
    std::uint32_t weight = 1;
  };

  // `capacities`: of the links, in bytes per second.
  explicit Flows(std::span<const double> capacities) { add_links(capacities); }
  // The links there are now, those from before among them.
  void add_links(std::span<const double> capacities);

  // `way` must stay as it is while the flow is there. `most`: bytes per second, whatever the links have.
  Id begin(double now, std::span<const Share> way, double bytes, double most = kNever);
  // Gives all flows whose neighbours have changed their rates. To be called before next_end(), at the same moment.
  void settle(double now);
  // When the next flow ends; kNever where there is none.
  double next_end() const { return ends_.empty() ? kNever : ends_.first(); }
  // One that has ended by now; false where there is none left.
  bool take_ended(double now, Id* ended);

  double rate_of(Id flow) const { return paces_[flow].rate; }
  std::uint64_t rate_changes() const { return rate_changes_; }

  struct LinkUse {
    double capacity = 0;
    double bytes = 0;  // carried so far
    double load = 0;   // now, in bytes per second
  };
  std::vector<LinkUse> uses(double now) const;

 private:
  struct Flow {
    std::span<const Share> way;
    std::vector<std::uint32_t> places;  // of the flow in the lists of its links
    double left = 0;                    // bytes, when it was last looked at
    double looked = 0;
    double peak = 0;  // it never has more
    double bytes = 0;
  };
  // What is looked at over and over while rates are worked out, close together.
  struct Pace {
    double rate = 0;
    double next = 0;           // the rate that is being worked out
    std::uint64_t chosen = 0;  // when it last was
    std::uint32_t limit = 0;   // the link that it has no more for, on which nobody has more; kNoLink: its peak
    bool open = false;         // it has no next rate yet
  };
  struct Member {
    Id flow = 0;
    std::uint32_t hop = 0;  // which of the flow's links it is
    std::uint32_t weight = 1;
  };
  struct SharedLink {
    double capacity = 0;
    std::vector<Member> members = {};
    double demand = 0;  // of all members at their peaks
    double bytes = 0;
    bool touched = false;
    bool was_tight = false;  // when rates were last shared out
    bool tight = false;      // now: its members could want more than it has
    // While rates are worked out:
    std::uint64_t filling = 0;  // when it last was opened
    double left = 0;
    double open = 0;   // flows without a rate, by weight
    double level = 0;  // of those whom it limits
  };
  // At which rate of all its open flows a link is full; or what it was when last looked at, which is never more.
  struct Level {
    double rate = 0;
    std::uint32_t link = 0;
  };
  // Flows that may all have the same at most.
  struct Capped {
    double peak = 0;
    std::vector<Id> flows = {};
  };

  static constexpr std::uint32_t kNoLink = ~std::uint32_t{0};

  void remove(Id flow);
  void touch(std::uint32_t link);
  void choose(Id flow);
  bool is_chosen(Id flow) const { return paces_[flow].chosen == settles_; }
  void share_out();
  void open(std::uint32_t link);
  void cap(Id flow);
  void freeze(Id flow, double rate, std::uint32_t limit);
  bool widen();
  void set_rate(double now, Id flow, double rate);
  void require_within_capacity() const;

  std::vector<SharedLink> links_;
  std::vector<Flow> flows_;
  std::vector<Pace> paces_;  // by flow
  std::vector<Id> free_;
  std::vector<Id> fresh_;               // flows without a rate yet
  std::vector<std::uint32_t> touched_;  // links whose flows have changed
  DeadlineHeap ends_;
  std::uint64_t rate_changes_ = 0;
  // While rates are worked out:
  std::uint64_t settles_ = 0, fillings_ = 0;
  std::vector<Id> chosen_;             // whose rates may change
  std::vector<std::uint32_t> opened_;  // links that may limit them
  std::vector<Level> levels_;          // a heap, the lowest first
  std::vector<Capped> capped_;
  std::size_t caps_ = 0;  // how many of them are in use
};

}  // namespace tutti::schedule
