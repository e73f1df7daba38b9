// What one machine is made of, as a tree: packages, memory, caches, cores, and the devices behind its PCIe. A value;
// topology/discover/see_machine.h looks at a real one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::topology {

// X(name, words): `words` is how people are told of it.
#define TUTTI_MACHINE_KINDS(X) \
  X(machine, "machine")        \
  X(group, "group")            \
  X(package, "package")        \
  X(die, "die")                \
  X(numa, "NUMA node")         \
  X(cache, "cache")            \
  X(core, "core")              \
  X(thread, "thread")          \
  X(gpu, "GPU")                \
  X(nic, "NIC")                \
  X(disk, "disk")              \
  X(device, "device")

enum class MachineKind : std::uint8_t {
#define X(name, words) name,
  TUTTI_MACHINE_KINDS(X)
#undef X
};

std::string_view name_of(MachineKind kind);
std::string_view words_of(MachineKind kind);

struct MachinePart {
  MachineKind kind = MachineKind::machine;
  int number = -1;              // as the system counts them; -1 where it does not
  std::string name;             // "L2", "eth0"; often empty
  std::string model;            // "Intel(R) Xeon(R) ..."
  std::string bus;              // "0000:17:00.0", of what is on PCIe
  std::uint64_t bytes = 0;      // of a cache, a NUMA node, a machine; 0 where it is unknown or means nothing
  double bus_bytes_per_s = 0;   // of its PCIe link as it runs; 0 where it is unknown
  double link_bytes_per_s = 0;  // of a NIC to the outside; 0 where it is unknown or down
  std::vector<MachinePart> parts;

  bool operator==(const MachinePart&) const = default;
  // Of the tree.
  int count(MachineKind of) const;
};

// "node7: 2 packages, 8 cores, 64 GB", and of a part "NIC eth0, 100 Gbit/s, PCIe 0000:00:03.0 of 8 GB/s".
std::string summary_of(const MachinePart& machine);
std::string title_of(const MachinePart& part);
// A tree for people, neighbours that are alike on one line:
//   machine: 1 package, 2 cores, 2 threads, 23.1 GB
//   └─ package 0
//      ├─ NUMA node 0, 23.1 GB
std::string to_tree(const MachinePart& machine);
std::string to_json(const MachinePart& machine);

}  // namespace tutti::topology
