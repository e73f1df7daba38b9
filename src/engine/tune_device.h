// What calls of this group on the memory of a device take: part of tune().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "choice/device_price.h"
#include "schedule/algorithms/table.h"
#include "topology/device_rates.h"
#include "tutti/communicator.h"

namespace tutti::engine {

class Engine;

// A call that was timed beside the rates, so that what they predict of it can be held against it.
struct TimedOnDevice {
  Verb verb;
  const schedule::Algorithm* row = nullptr;  // nullptr: one launch did it for all ranks
  std::uint64_t bytes = 0;                   // of the vector, or of all chunks together
  std::uint64_t touched = 0;                 // by the launch
  choice::StagedBytes staged;                // of the rank that has the most
  double seconds = 0;
};

struct TunedDevice {
  topology::DeviceRates rates;
  std::vector<TimedOnDevice> calls;
  std::string why_not;  // where ranks have a device, but not all of them get memory; the rest does not count then
};

// Collective, on the first device of each rank, which are to do nothing else. Loads the driver; nothing where no rank
// has a device. `quick`: short calls, few times.
std::optional<TunedDevice> tune_device(Engine& engine, Communicator& comm, bool quick);

}  // namespace tutti::engine
