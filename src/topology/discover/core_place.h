// Where the cores of a process lie, so that ranks can tell who shares what.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::topology {

// Numbers that are equal for processes of one host which share it; -1 where the cores are in several, or the system
// does not say.
struct CorePlace {
  int package = -1;
  int cache = -1;  // of the last level

  bool operator==(const CorePlace&) const = default;
};

// `cores`: a bit each. `folder` is where the system describes them.
CorePlace place_of_cores(const std::vector<std::uint64_t>& cores,
                         const std::string& folder = "/sys/devices/system/cpu");

}  // namespace tutti::topology
