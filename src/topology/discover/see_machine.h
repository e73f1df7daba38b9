// What hwloc sees of a machine: this one, one that it has written to a file (lstopo node.xml), or one in its words.
// A build without hwloc sees none, and says so.
#pragma once

#include <string>

#include "topology/machine.h"

namespace tutti::topology {

// hwloc's own variables hold (HWLOC_XMLFILE, HWLOC_SYNTHETIC). All of them throw Error(unsupported) without hwloc.
MachinePart see_this_machine();
// Throws Error(invalid_argument) where the file holds no machine.
MachinePart see_machine_in_file(const std::string& path);
// "pack:2 numa:1 l3:1 core:4 pu:2". Throws Error(invalid_argument).
MachinePart see_machine_of_words(const std::string& words);

}  // namespace tutti::topology
