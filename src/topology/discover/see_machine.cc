#include "topology/discover/see_machine.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "topology/discover/nic_speed.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Seen = std::unique_ptr<hwloc_topology, Destroy>;

Seen new_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw Error(ErrorCode::unsupported, "hwloc could not be started");
  Seen seen(topology);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  return seen;
}

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? "" : value;
}

// The tree of hwloc as ours: bridges are left out, a PCIe device and what the system calls it become one part.
class MachineReader {
 public:
  explicit MachineReader(hwloc_topology_t topology) : here_(hwloc_topology_is_thissystem(topology) != 0) {}

  MachinePart read(hwloc_obj_t root) const {
    MachinePart machine;
    machine.name = info_of(root, "HostName");
    machine.bytes = root->total_memory;
    add_below(root, machine);
    return machine;
  }

 private:
  void add_below(hwloc_obj_t object, MachinePart& part) const {
    for (hwloc_obj_t below = object->memory_first_child; below != nullptr; below = below->next_sibling)
      add(below, part);
    for (hwloc_obj_t below = object->first_child; below != nullptr; below = below->next_sibling) add(below, part);
    for (hwloc_obj_t below = object->io_first_child; below != nullptr; below = below->next_sibling) add(below, part);
  }

  void add(hwloc_obj_t object, MachinePart& to) const {
    if (object->type == HWLOC_OBJ_BRIDGE || object->type == HWLOC_OBJ_MEMCACHE) return add_below(object, to);
    if (object->type == HWLOC_OBJ_OS_DEVICE) return add_os_device(object, to);
    MachinePart part;
    if (object->type == HWLOC_OBJ_PCI_DEVICE) {
      part = pci_device(object);
    } else {
      part = processor_part(object);
    }
    add_below(object, part);
    to.parts.push_back(std::move(part));
  }

  static MachinePart processor_part(hwloc_obj_t object) {
    MachinePart part;
    part.number = object->os_index == HWLOC_UNKNOWN_INDEX ? -1 : static_cast<int>(object->os_index);
    switch (object->type) {
      case HWLOC_OBJ_PACKAGE:
        part.kind = MachineKind::package;
        part.model = info_of(object, "CPUModel");
        break;
      case HWLOC_OBJ_DIE: part.kind = MachineKind::die; break;
      case HWLOC_OBJ_NUMANODE:
        part.kind = MachineKind::numa;
        part.bytes = object->attr->numanode.local_memory;
        break;
      case HWLOC_OBJ_CORE: part.kind = MachineKind::core; break;
      case HWLOC_OBJ_PU: part.kind = MachineKind::thread; break;
      default: part.kind = MachineKind::group;
    }
    if (hwloc_obj_type_is_cache(object->type) != 0) {
      part.kind = MachineKind::cache;
      part.number = -1;
      part.name = "L" + std::to_string(object->attr->cache.depth);
      part.bytes = object->attr->cache.size;
    }
    return part;
  }

  static MachinePart pci_device(hwloc_obj_t object) {
    const auto& pci = object->attr->pcidev;
    MachinePart part;
    const int base_class = pci.class_id >> 8;
    part.kind = base_class == 0x03   ? MachineKind::gpu
                : base_class == 0x02 ? MachineKind::nic
                : base_class == 0x01 ? MachineKind::disk
                                     : MachineKind::device;
    char bus[32];
    std::snprintf(bus, sizeof bus, "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain), pci.bus, pci.dev, pci.func);
    part.bus = bus;
    part.bus_bytes_per_s = static_cast<double>(pci.linkspeed) * 1e9;
    const std::string vendor = info_of(object, "PCIVendor"), model = info_of(object, "PCIDevice");
    part.model = vendor + (vendor.empty() || model.empty() ? "" : " ") + model;
    return part;
  }

  // Tells more of the PCIe device that it belongs to; what stands alone is a part of its own.
  void add_os_device(hwloc_obj_t object, MachinePart& to) const {
    const hwloc_obj_osdev_type_t type = object->attr->osdev.type;
    if (type == HWLOC_OBJ_OSDEV_DMA) return;
    MachinePart alone;
    MachinePart& part = to.bus.empty() ? alone : to;
    const std::string name = object->name == nullptr ? "" : object->name;
    part.name += (part.name.empty() ? "" : " ") + name;
    if (type == HWLOC_OBJ_OSDEV_GPU || type == HWLOC_OBJ_OSDEV_COPROC) {
      part.kind = MachineKind::gpu;
      if (const std::string model = info_of(object, "GPUModel"); !model.empty()) part.model = model;
    } else if (type == HWLOC_OBJ_OSDEV_NETWORK || type == HWLOC_OBJ_OSDEV_OPENFABRICS) {
      part.kind = MachineKind::nic;
      if (here_) part.link_bytes_per_s = std::max(part.link_bytes_per_s, speed_of_nic(name));
    } else if (type == HWLOC_OBJ_OSDEV_BLOCK) {
      part.kind = MachineKind::disk;
    }
    if (&part == &alone) to.parts.push_back(std::move(alone));
  }

  bool here_;  // and not another machine, which has files of its own
};

MachinePart load(const Seen& seen, const std::string& what) {
  if (hwloc_topology_load(seen.get()) != 0)
    throw Error(ErrorCode::invalid_argument, what + " is no machine that hwloc can read");
  return MachineReader(seen.get()).read(hwloc_get_root_obj(seen.get()));
}

}  // namespace

MachinePart see_this_machine() { return load(new_topology(), "this machine"); }

MachinePart see_machine_in_file(const std::string& path) {
  const Seen seen = new_topology();
  if (hwloc_topology_set_xml(seen.get(), path.c_str()) != 0)
    throw Error(ErrorCode::invalid_argument, path + " is no machine that hwloc can read");
  return load(seen, path);
}

MachinePart see_machine_of_words(const std::string& words) {
  const Seen seen = new_topology();
  if (hwloc_topology_set_synthetic(seen.get(), words.c_str()) != 0)
    throw Error(ErrorCode::invalid_argument, "'" + words + "' is no machine that hwloc can read");
  return load(seen, "'" + words + "'");
}

}  // namespace tutti::topology
