// Machines as values: their tree and their JSON; and what adapters say of their speed.
#include "topology/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "topology/discover/nic_speed.h"

namespace tutti::topology {
namespace {

MachinePart part(MachineKind kind, int number, std::vector<MachinePart> parts = {}) {
  MachinePart made;
  made.kind = kind;
  made.number = number;
  made.parts = std::move(parts);
  return made;
}

MachinePart two_cores_and_a_nic() {
  MachinePart numa = part(MachineKind::numa, 0);
  numa.bytes = std::uint64_t{3} << 29;
  MachinePart cache = part(MachineKind::cache, -1, {part(MachineKind::core, 4), part(MachineKind::core, 5)});
  cache.name = "L3";
  cache.bytes = 48 << 10;
  MachinePart nic = part(MachineKind::nic, -1);
  nic.name = "eth0";
  nic.bus = "0000:00:03.0";
  nic.bus_bytes_per_s = 8e9;
  nic.link_bytes_per_s = 12.5e9;
  return part(MachineKind::machine, -1, {part(MachineKind::package, 0, {numa, cache}), nic});
}

TEST(Machine, IsDrawnAsATree) {
  EXPECT_EQ(to_tree(two_cores_and_a_nic()),
            "machine: 1 package, 1 NUMA node, 2 cores, 1 NIC\n"
            "├─ package 0\n"
            "│  ├─ NUMA node 0, 1.5 GB\n"
            "│  └─ L3 cache, 48 KB\n"
            "│     └─ 2 x core 4-5\n"
            "└─ NIC eth0, 100 Gbit/s, PCIe 0000:00:03.0 of 8 GB/s\n");
}

TEST(Machine, ShowsAloneWhatIsUnlikeItsNeighbours) {
  MachinePart machine = two_cores_and_a_nic();
  machine.parts.pop_back();
  MachinePart cores = part(MachineKind::package, 0, {part(MachineKind::core, 0), part(MachineKind::core, 1)});
  cores.parts[1].parts = {part(MachineKind::thread, 7), part(MachineKind::thread, 9)};
  machine.parts = {cores};
  EXPECT_EQ(to_tree(machine),
            "machine: 1 package, 2 cores, 2 threads\n"
            "└─ package 0\n"
            "   ├─ core 0\n"
            "   └─ core 1\n"
            "      └─ 2 x thread 7-9\n");
}

TEST(Machine, IsJsonForScripts) {
  const nlohmann::json machine = nlohmann::json::parse(to_json(two_cores_and_a_nic()));
  EXPECT_EQ(machine["parts"][0]["parts"][1]["name"], "L3");
  EXPECT_EQ(machine["parts"][0]["parts"][1]["parts"].size(), 2u);
  EXPECT_EQ(machine["parts"][1]["kind"], "nic");
  EXPECT_EQ(machine["parts"][1]["link_bytes_per_s"], 12.5e9);
  EXPECT_FALSE(machine["parts"][0].contains("bytes"));
}

TEST(NicSpeed, IsReadWhereTheSystemSaysIt) {
  const std::filesystem::path classes =
      std::filesystem::temp_directory_path() / ("tutti-machine-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(classes / "net/eth0");
  std::filesystem::create_directories(classes / "net/eth1");
  std::filesystem::create_directories(classes / "infiniband/mlx5_0/ports/1");
  std::ofstream(classes / "net/eth0/speed") << "25000\n";
  std::ofstream(classes / "net/eth1/speed") << "-1\n";
  std::ofstream(classes / "infiniband/mlx5_0/ports/1/rate") << "400 Gb/sec (4X NDR)\n";
  EXPECT_DOUBLE_EQ(speed_of_nic("eth0", classes), 25e9 / 8);
  EXPECT_DOUBLE_EQ(speed_of_nic("eth1", classes), 0);
  EXPECT_DOUBLE_EQ(speed_of_nic("mlx5_0", classes), 50e9);
  EXPECT_DOUBLE_EQ(speed_of_nic("eth2", classes), 0);
  std::filesystem::remove_all(classes);
}

}  // namespace
}  // namespace tutti::topology
