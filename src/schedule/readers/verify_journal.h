// What every step of a run made, and of what: kept only in a second run, when there is a finding to be told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/readers/verify_clock.h"
#include "schedule/readers/verify_expression.h"

namespace tutti::schedule::verification {

// A value as some step made it: result `index` of the step at `by`. At time 0 it is what memory held before the call.
struct Provenance {
  Epoch by;
  std::size_t index = 0;
  Value value = kPoison;
};

struct Made {
  std::vector<Value> values;        // one per block of the step
  std::vector<Provenance> origins;  // the same for each of its sources, one source after the other
  std::uint64_t order = 0;          // among all steps of the run
};

class Journal {
 public:
  explicit Journal(std::size_t lanes) : by_lane_(lanes) {}

  void add(std::size_t lane, std::vector<Value> values, std::vector<Provenance> origins) {
    by_lane_[lane].push_back({std::move(values), std::move(origins), ++steps_});
  }
  const Made& at(Epoch epoch) const { return by_lane_[epoch.component][epoch.time - 1]; }
  const std::vector<std::vector<Made>>& by_lane() const { return by_lane_; }

 private:
  std::vector<std::vector<Made>> by_lane_;  // in the order of steps, segment after segment
  std::uint64_t steps_ = 0;
};

}  // namespace tutti::schedule::verification
