// The units of stage 3 that this rank holds whole: memory for as many as the limit, and the gathering of them, ahead
// where the order of use is known.
//
// Has a communicator to itself, in whose symmetric memory the shards are, because units are gathered by whoever
// computes, while gradients are submitted when they are ready: two orders. Thread rule: its own mutex, which is not
// held while anything else is waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "strategy/buckets.h"
#include "strategy/units.h"
#include "train/bucket_memory.h"
#include "train/call_times.h"
#include "tutti/communicator.h"

namespace tutti::train {

class GatheredUnits {
 public:
  // `communicator`: for this alone. `buckets_of` has the buckets of each unit. Collective.
  GatheredUnits(Communicator& communicator, const strategy::BucketLayout& layout, const BucketMemory& shards,
                std::vector<std::vector<std::size_t>> buckets_of, std::size_t limit);
  GatheredUnits(const GatheredUnits&) = delete;
  GatheredUnits& operator=(const GatheredUnits&) = delete;
  ~GatheredUnits();

  std::size_t size() const { return buckets_of_.size(); }
  // Collective in effect: all ranks use units in the same order.
  void gather(std::size_t unit);
  void release(std::size_t unit);
  // As UnitWindow::begin_pass().
  void begin_pass();
  // Whether a unit was used in this pass.
  bool is_begun() const;
  // Uses units as the last step did, for the other ranks' sake.
  void repeat_pass();
  // The first unit that is in use; size() where none is.
  std::size_t first_in_use() const;
  // What is held is no longer what the shards say.
  void forget();
  // The same, and what was used is the order of the next step.
  void end_step();
  // The others' calls fail, and so do later ones of this rank.
  void leave();

  // Whole values of a bucket whose unit is in use; nullptr otherwise.
  std::byte* values(std::size_t bucket) const;
  // How often each bucket is gathered in a step like the last one.
  std::vector<std::size_t> gathers() const;
  // That all units which may be held take; what was really allocated for them.
  std::size_t bytes() const { return bytes_; }
  std::size_t allocated_bytes() const { return allocated_bytes_; }
  struct Times {
    std::vector<TimeSpan> waits;
    std::vector<ValuesGather> gathers;  // of the pass
  };
  // Since this was last asked. What was gathered has ended.
  Times take_times();
  Counters counters() const { return comm_.counters(); }

 private:
  struct UnitHeld {
    std::shared_ptr<void> memory;
    std::vector<ValuesGather> gathers;  // under way
  };
  void start(std::size_t unit);
  void await(std::size_t unit);
  void drop(std::size_t unit);

  Communicator& comm_;
  const strategy::BucketLayout& layout_;
  const BucketMemory& shards_;
  std::vector<std::vector<std::size_t>> buckets_of_;
  std::vector<std::size_t> unit_of_, offsets_;  // by bucket: its unit, and bytes before it in the unit's memory
  std::size_t limit_, bytes_ = 0, allocated_bytes_ = 0;
  std::vector<std::shared_ptr<void>> buffers_;  // free where nobody else holds one

  mutable std::mutex mutex_;
  strategy::UnitWindow window_;
  std::vector<UnitHeld> held_;
  std::vector<std::size_t> last_gathers_;  // by unit
  std::vector<strategy::UnitEvent> last_events_;
  Times times_;
};

}  // namespace tutti::train
