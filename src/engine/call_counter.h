// What Counters are read from. One thread counts, any may read.
#pragma once

#include <atomic>

#include "tutti/counters.h"

namespace tutti::engine {

class CallCounter {
 public:
  void count(Verb verb, std::uint64_t bytes) {
    Row& row = rows_[static_cast<std::size_t>(verb)];
    add(row.calls, 1);
    add(row.bytes, bytes);
  }
  void add_wait(Verb verb, std::chrono::nanoseconds time) {
    if (time.count() != 0)
      add(rows_[static_cast<std::size_t>(verb)].waited_ns, static_cast<std::uint64_t>(time.count()));
  }

  // What came since is not to count.
  void put_back(Verb verb, const VerbCounters& before) {
    Row& row = rows_[static_cast<std::size_t>(verb)];
    row.calls.store(before.calls, std::memory_order_relaxed);
    row.bytes.store(before.bytes, std::memory_order_relaxed);
    row.waited_ns.store(static_cast<std::uint64_t>(before.waited.count()), std::memory_order_relaxed);
  }

  Counters read() const {
    Counters counters;
    for (std::size_t i = 0; i < kVerbs; ++i) {
      counters.verbs[i].calls = rows_[i].calls.load(std::memory_order_relaxed);
      counters.verbs[i].bytes = rows_[i].bytes.load(std::memory_order_relaxed);
      counters.verbs[i].waited = std::chrono::nanoseconds(rows_[i].waited_ns.load(std::memory_order_relaxed));
    }
    return counters;
  }

 private:
  struct Row {
    std::atomic<std::uint64_t> calls{0}, bytes{0}, waited_ns{0};
  };

  // No other thread writes: a load and a store take a tenth of an atomic addition.
  static void add(std::atomic<std::uint64_t>& sum, std::uint64_t amount) {
    sum.store(sum.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  std::array<Row, kVerbs> rows_;
};

}  // namespace tutti::engine
