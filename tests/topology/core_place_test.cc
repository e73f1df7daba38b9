// Where cores lie, read from folders like those of the system.
#include "topology/discover/core_place.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tutti::topology {
namespace {

namespace fs = std::filesystem;

// Cores 0 to 7: four to a package, two to a cache of the third level, and one to each below.
class CorePlaces : public ::testing::Test {
 protected:
  CorePlaces() {
    for (int core = 0; core < 8; ++core) {
      const fs::path of = folder_ / ("cpu" + std::to_string(core));
      write(of / "topology/physical_package_id", core / 4);
      write(of / "cache/index0/level", 1);
      write(of / "cache/index0/shared_cpu_list", core);
      write(of / "cache/index1/level", 3);
      write(of / "cache/index1/shared_cpu_list", core / 2 * 2);
      write(of / "cache/index2/level", 2);
      write(of / "cache/index2/shared_cpu_list", core);
    }
  }
  ~CorePlaces() override { fs::remove_all(folder_); }

  static void write(const fs::path& path, int number) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << number << "\n";
  }
  CorePlace of(std::uint64_t cores) const { return place_of_cores({cores}, folder_); }

  fs::path folder_ = fs::temp_directory_path() / ("tutti-core-place-test-" + std::to_string(::getpid()));
};

TEST_F(CorePlaces, AreKnownWhereOneHoldsAll) {
  EXPECT_EQ(of(0b0000'0001), (CorePlace{0, 0}));
  EXPECT_EQ(of(0b0000'1100), (CorePlace{0, 2}));
  EXPECT_EQ(of(0b1100'0000), (CorePlace{1, 6}));
}

TEST_F(CorePlaces, AreNoneWhereCoresAreInSeveral) {
  EXPECT_EQ(of(0b0000'1111), (CorePlace{0, -1}));
  EXPECT_EQ(of(0b1111'1111), (CorePlace{-1, -1}));
  EXPECT_EQ(of(0), CorePlace());
}

TEST_F(CorePlaces, AreNoneWhereTheSystemDoesNotSay) {
  EXPECT_EQ(place_of_cores({0, 1}, folder_), CorePlace()) << "there is no core 64";
  fs::remove(folder_ / "cpu1/topology/physical_package_id");
  EXPECT_EQ(of(0b11), (CorePlace{-1, 0}));
}

}  // namespace
}  // namespace tutti::topology
