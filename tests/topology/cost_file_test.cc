// Where costs come from: a file that was named, one of the cache folder, or the built-in ones.
#include "topology/discover/cost_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "topology/discover/probe.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class CostFile : public ::testing::Test {
 protected:
  Environment environment(std::map<std::string, std::string, std::less<>> more = {}) const {
    more["XDG_CACHE_HOME"] = cache_;
    return Environment(std::move(more));
  }
  FoundCosts found(const std::map<std::string, std::string, std::less<>>& more = {}) const {
    return find_costs(environment(more), {"here"}, Log());
  }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  std::vector<std::string> kept() const {
    std::vector<std::string> names;
    if (!fs::exists(cache_ + "/tutti")) return names;
    for (const auto& entry : fs::directory_iterator(cache_ + "/tutti")) names.push_back(entry.path());
    return names;
  }

  static std::string made() {
    std::string path = ::testing::TempDir() + "/costs-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    return path;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string folder_ = made();
  std::string cache_ = folder_ + "/cache";
};

TEST_F(CostFile, WithoutOneTheBuiltInCostsHold) {
  const FoundCosts costs = found();
  EXPECT_FALSE(costs.tuned);
  EXPECT_FALSE(costs.table.surveys.empty());
}

TEST_F(CostFile, SpeedsAreMeasuredOnceAndKept) {
  FoundCosts first = found();
  // On a busy machine a thread may get no core in time; then nothing is kept, and the next job tries again.
  for (int tries = 0; tries < 200 && kept().empty(); ++tries) first = found();
  ASSERT_EQ(kept().size(), 1U) << "and nothing beside it";
  EXPECT_GT(speeds_from_text(content_of(kept()[0])).copy, 0);
  Speeds other = first.table.speeds;
  other.line = 123;
  write(kept()[0], to_text(other));
  EXPECT_EQ(found().table.speeds.line, 123) << "what was kept is believed";
  write(kept()[0], "{");
  EXPECT_LT(found().table.speeds.line, 1) << "unless it cannot be read";
}

TEST_F(CostFile, WhereNothingCanBeKeptNothingIsMeasured) {
  write(cache_, "a file where the folder should be");
  const FoundCosts costs = found();
  EXPECT_EQ(costs.table.speeds, Speeds());
  EXPECT_FALSE(costs.table.surveys.empty());
  EXPECT_EQ(find_costs(Environment(), {"here"}, Log()).table.speeds, Speeds()) << "no home";
}

TEST_F(CostFile, AFileOfTheCacheHolds) {
  CostTable costs = usual_costs(2);
  costs.memory.step = 4.5e-8;
  write(cost_file(environment(), {"here"}), to_text(costs));
  EXPECT_TRUE(found().tuned);
  EXPECT_EQ(found().table.memory.step, 4.5e-8);
  EXPECT_FALSE(found({{"TUTTI_COSTS", kBuiltIn}}).tuned) << "unless the built-in ones are asked for by name";
  write(cost_file(environment(), {"here"}), "{");
  EXPECT_FALSE(found().tuned) << "one that is broken is as good as none";
}

TEST_F(CostFile, AFileThatWasNamedMustBeThere) {
  try {
    static_cast<void>(found({{"TUTTI_COSTS", folder_ + "/none"}}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("TUTTI_COSTS is '" + folder_ + "/none" + "'"));
  }
}

TEST(Probe, KnowsThisMachine) {
  const Speeds speeds = measure_speeds();
  for (const double each : {speeds.work, speeds.copy, speeds.far_copy, speeds.turn}) EXPECT_GT(each, 0);
  for (const double each : {speeds.work, speeds.copy, speeds.far_copy}) EXPECT_LT(each, 1e-6);
}

}  // namespace
}  // namespace tutti::topology
