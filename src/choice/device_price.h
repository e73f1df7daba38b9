// What calls on the memory of a device take, from the rates of the group's device: those that one rank launches for
// all, and those whose buffers are staged in host memory. Pure.
#pragma once

#include <cstdint>

#include "topology/device_rates.h"
#include "tutti/types.h"

namespace tutti::choice {

// What a launch for all ranks reads and writes: of each source and destination the chunk, or the whole, that the verb
// has in its place.
std::uint64_t bytes_touched(Verb verb, std::uint64_t chunk_bytes, std::uint64_t whole_bytes, std::uint64_t sources,
                            std::uint64_t destinations);
// The same of a call whose ranks all have the buffers that the verb gives them; in place a copy leaves out what is
// where it is to be.
std::uint64_t bytes_touched(Verb verb, int ranks, std::uint64_t whole_bytes, bool in_place);

// Of rates that launch.
inline double price_of_launch(const topology::DeviceRates& rates, std::uint64_t touched) {
  return rates.launch_s + static_cast<double>(touched) / rates.touch_bytes_per_s;
}

// What a rank's buffers hold that is on a device.
struct StagedBytes {
  std::uint64_t input = 0, output = 0;

  bool operator==(const StagedBytes&) const = default;
};

// More of a call than in host memory; of rates that are known.
double price_of_staging(const topology::DeviceRates& rates, const StagedBytes& staged);

// Whether a call that one launch could do for all takes less by staging, where all ranks have their buffers on the
// device and it takes so long in host memory. Of rates that launch.
bool is_quicker_staged(const topology::DeviceRates& rates, Verb verb, int ranks, std::uint64_t whole_bytes,
                       double in_host_s);

}  // namespace tutti::choice
