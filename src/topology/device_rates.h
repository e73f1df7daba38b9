// What calls on the memory of a device take beside those in host memory: seconds, and bytes a second. A value with a
// text form, which surveys hold where `tutti tune` found a device (rates.h).
#pragma once

#include <string>

namespace tutti::topology {

// X(member, meaning). Of a group: its ranks launch and stage at the same time, and share what they share.
#define TUTTI_DEVICE_RATES(X)                                                                             \
  X(launch_s, "a call that one rank launches for all, whatever its size, until all know that it is done") \
  X(touch_bytes_per_s, "what its kernel reads and writes, all ranks' memory together")                    \
  X(to_host_s, "to stage an input in host memory, whatever its size")                                     \
  X(to_host_bytes_per_s, "what comes over then, to each rank")                                            \
  X(to_device_s, "to bring a staged output back, whatever its size")                                      \
  X(to_device_bytes_per_s, "what goes back then, from each rank")                                         \
  X(copy_bytes_per_s, "what a copy within the device copies: each byte is read and written")

struct DeviceRates {
#define X(member, meaning) double member = 0;
  TUTTI_DEVICE_RATES(X)
#undef X

  // Whether anything was measured.
  bool known() const { return to_host_bytes_per_s > 0; }
  // Whether calls are done by one launch. Where the ranks share no memory, or no device, they are not: both rates of a
  // launch are zero then.
  bool launches() const { return launch_s > 0; }

  bool operator==(const DeviceRates&) const = default;
};

// A JSON object on one line, keys as above. Throws Error(invalid_argument) that says what is wrong with the text.
std::string to_text(const DeviceRates& rates);
DeviceRates device_rates_from_text(const std::string& text);

}  // namespace tutti::topology
