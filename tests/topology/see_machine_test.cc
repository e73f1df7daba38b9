// What hwloc sees: machines in its words and in its files, never the one that the test runs on.
#include "topology/discover/see_machine.h"

#include <gtest/gtest.h>

#include "tutti/error.h"

namespace tutti::topology {
namespace {

TEST(SeeMachine, InWords) {
  const MachinePart machine = see_machine_of_words("pack:2 [numa] l3:1 core:4 pu:2");
  EXPECT_EQ(machine.count(MachineKind::package), 2);
  EXPECT_EQ(machine.count(MachineKind::numa), 2);
  EXPECT_EQ(machine.count(MachineKind::cache), 2);
  EXPECT_EQ(machine.count(MachineKind::core), 8);
  EXPECT_EQ(machine.count(MachineKind::thread), 16);
  EXPECT_THROW(see_machine_of_words("pack:two"), Error);
}

TEST(SeeMachine, InAFileWithItsDevices) {
  EXPECT_EQ(to_tree(see_machine_in_file(TUTTI_MACHINES "/two-packages.xml")),
            "node7: 2 packages, 2 NUMA nodes, 4 cores, 8 threads, 1 GPU, 1 NIC, 2 GB\n"
            "├─ package 0\n"
            "│  ├─ NUMA node 0, 1 GB\n"
            "│  ├─ L3 cache, 32 MB\n"
            "│  │  └─ 2 x L2 cache, 1 MB\n"
            "│  │     └─ core\n"
            "│  │        └─ 2 x thread\n"
            "│  ├─ GPU nvml0 cuda0, NVIDIA H100, PCIe 0000:18:00.0 of 63.02 GB/s\n"
            "│  └─ NIC ib0 mlx5_0, Mellanox Technologies MT2910 Family [ConnectX-7], PCIe 0000:19:00.0 of 63.02 GB/s\n"
            "└─ package 1\n"
            "   ├─ NUMA node 1, 1 GB\n"
            "   └─ L3 cache, 32 MB\n"
            "      └─ 2 x L2 cache, 1 MB\n"
            "         └─ core\n"
            "            └─ 2 x thread\n");
  EXPECT_THROW(see_machine_in_file(TUTTI_MACHINES "/none.xml"), Error);
}

}  // namespace
}  // namespace tutti::topology
