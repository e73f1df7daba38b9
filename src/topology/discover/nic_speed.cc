#include "topology/discover/nic_speed.h"

#include <fstream>

namespace tutti::topology {

double speed_of_nic(const std::string& name, const std::string& classes) {
  // Ethernet in Mbit/s, -1 where the link is down; InfiniBand as "400 Gb/sec (4X NDR)".
  double speed = 0;
  if (std::ifstream(classes + "/net/" + name + "/speed") >> speed && speed > 0) return speed * 1e6 / 8;
  speed = 0;
  if (std::ifstream(classes + "/infiniband/" + name + "/ports/1/rate") >> speed && speed > 0) return speed * 1e9 / 8;
  return 0;
}

}  // namespace tutti::topology
