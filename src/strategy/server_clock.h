// Who may go on at a parameter server: the clocks of its workers, and how far the quickest may be ahead of the slowest.
//
// A worker works in clocks, numbered from 0, and says when it has ended one. It begins clock c once every worker that
// takes part has ended c - bound clocks at least: with a bound of 0 all work in the same clock (synchronous), without
// one nobody waits (asynchronous). So what a worker reads in clock c lacks nothing of the clocks before c - bound.
//
//   bound 1        clocks
//   worker 0       0  1  2  .        waits before clock 2 until worker 1 has ended its first
//   worker 1       0------  1        the slowest never waits
//
// Who leaves, or is dropped, is waited for no more. A pure state machine: a server feeds it with what it hears, and
// tests with schedules of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::strategy {

class ServerClock {
 public:
  // Workers are numbered from 0. No bound: asynchronous.
  ServerClock(std::size_t workers, std::optional<std::int64_t> bound) : bound_(bound), workers_(workers) {}

  // The worker has ended its clock, and waits. Returns who may begin the next one now, in the order of workers: it may
  // be among them.
  std::vector<std::size_t> end(std::size_t worker);
  // It takes part no more. Returns who need not wait any longer for that.
  std::vector<std::size_t> leave(std::size_t worker);

  // Clocks that a worker has ended.
  std::int64_t ended(std::size_t worker) const { return workers_[worker].ended; }
  bool takes_part(std::size_t worker) const { return workers_[worker].takes_part; }
  bool waits(std::size_t worker) const { return workers_[worker].waits; }
  std::size_t present() const;
  // Clocks that all who take part have ended; nothing where nobody does.
  std::optional<std::int64_t> slowest() const;
  std::optional<std::int64_t> bound() const { return bound_; }

 private:
  struct Place {
    std::int64_t ended = 0;
    bool waits = false, takes_part = true;
  };

  bool may_begin(const Place& worker, std::int64_t slowest) const {
    return !bound_ || worker.ended - *bound_ <= slowest;
  }
  std::vector<std::size_t> let_go();

  std::optional<std::int64_t> bound_;
  std::vector<Place> workers_;
};

}  // namespace tutti::strategy
