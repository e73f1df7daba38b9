// How fast the adapters of this machine are, as the system says it in files.
#pragma once

#include <string>

namespace tutti::topology {

// In bytes per second; 0 where the system does not say or the link is down. `classes` is the folder of the files.
double speed_of_nic(const std::string& name, const std::string& classes = "/sys/class");

}  // namespace tutti::topology
