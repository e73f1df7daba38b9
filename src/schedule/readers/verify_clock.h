// Vector clocks and cells: which accesses are ordered in every timing.
//
// One component per lane of every rank (its time is the number of steps it has begun) and one per rank for its entry.
// A step happens before another exactly when the other's clock has reached its epoch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/readers/verify_expression.h"

namespace tutti::schedule::verification {

using Clock = std::vector<std::uint32_t>;

struct Epoch {
  std::uint32_t component = 0;
  std::uint32_t time = 0;  // 0: before everything

  bool before(std::span<const std::uint32_t> clock) const { return clock[component] >= time; }
};

inline void acquire(std::span<std::uint32_t> clock, std::span<const std::uint32_t> other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

// One block of one segment in one buffer of one rank: its value, its last write and the reads since then.
class Cell {
 public:
  Value value = kPoison;

  Epoch writer() const { return writer_; }

  // Calls conflict(epoch, whether it wrote) for every earlier access that this one at `now` is not ordered after.
  template <class Conflict>
  void read(Epoch now, std::span<const std::uint32_t> clock, Conflict&& conflict) {
    if (!writer_.before(clock)) conflict(writer_, true);
    // A later write ordered after this read is ordered after these, too.
    std::erase_if(readers_, [&](const Epoch& reader) { return reader.before(clock); });
    readers_.push_back(now);
  }

  template <class Conflict>
  void write(Epoch now, std::span<const std::uint32_t> clock, Conflict&& conflict) {
    if (!writer_.before(clock)) conflict(writer_, true);
    for (const Epoch& reader : readers_) {
      if (!reader.before(clock)) conflict(reader, false);
    }
    readers_.clear();
    writer_ = now;
  }

 private:
  Epoch writer_;
  std::vector<Epoch> readers_;
};

}  // namespace tutti::schedule::verification
