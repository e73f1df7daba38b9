// Topologies by name: clusters that people rent or build, as files in presets/, with where their numbers come from.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace tutti::topology {

struct Preset {
  std::string name;
  std::string text;  // as text.h has it; its first line says what it is

  std::string summary() const;
};

const std::vector<Preset>& presets();
// "dgx-h100", or "dgx-h100:32" for so many hosts. Throws Error(invalid_argument), with the nearest names.
Topology find_preset(const std::string& words);

}  // namespace tutti::topology
