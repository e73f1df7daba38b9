// The text and the picture of every algorithm, against files that people read and review.
//
// After a change on purpose: TUTTI_UPDATE_GOLDEN=1 build/bin/golden_test --gtest_filter='*Golden*', then read the diff.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <set>
#include <sstream>

#include "golden/programs.h"
#include "schedule/readers/describe.h"
#include "schedule/readers/draw.h"

namespace tutti::schedule {

// For the names of the tests.
void PrintTo(const Algorithm& algorithm, std::ostream* out) { *out << algorithm.name; }

namespace {

using std::filesystem::path;

const path kDirectory = TUTTI_GOLDEN_DIRECTORY;

int ranks_of(const Algorithm& algorithm) { return algorithm.verb == Verb::send_recv ? 2 : 4; }

path file_of(const Algorithm& algorithm) {
  return kDirectory / (std::string(name_of(algorithm.verb)) + "." + std::string(algorithm.name) + "." +
                       std::to_string(ranks_of(algorithm)) + ".txt");
}

std::string contents_of(const path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Empty where the texts are equal, else the first line that differs.
std::string difference(const std::string& reviewed, const std::string& now) {
  std::istringstream before(reviewed);
  std::istringstream after(now);
  for (int number = 1;; ++number) {
    std::string expected;
    std::string got;
    const bool more_before = static_cast<bool>(std::getline(before, expected));
    const bool more_after = static_cast<bool>(std::getline(after, got));
    if (!more_before && !more_after) return {};
    if (expected != got || more_before != more_after) {
      return "line " + std::to_string(number) + "\n  reviewed: " + expected + "\n  now:      " + got;
    }
  }
}

class Golden : public testing::TestWithParam<Algorithm> {};

TEST_P(Golden, TextAndPictureAreAsReviewed) {
  const Algorithm& algorithm = GetParam();
  const std::vector<Lowered> programs = programs_of(algorithm, ranks_of(algorithm), offers_everything());
  const std::string text = describe(programs) + "\n" + draw(programs);
  if (std::getenv("TUTTI_UPDATE_GOLDEN") != nullptr) std::ofstream(file_of(algorithm)) << text;
  EXPECT_EQ(difference(contents_of(file_of(algorithm)), text), "")
      << file_of(algorithm)
      << "\nif the change is meant, run: TUTTI_UPDATE_GOLDEN=1 build/bin/golden_test --gtest_filter='*Golden*'";
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Golden, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& row) {
                           return std::string(name_of(row.param.verb)) + "_" + std::string(row.param.name);
                         });

TEST(GoldenFiles, BelongToAnAlgorithm) {
  std::set<path> known;
  for (const Algorithm& algorithm : algorithms()) known.insert(file_of(algorithm));
  for (const auto& entry : std::filesystem::directory_iterator(kDirectory)) {
    if (entry.path().extension() == ".txt" && entry.path().filename() != "CMakeLists.txt") {
      EXPECT_TRUE(known.contains(entry.path())) << entry.path() << " belongs to no row of the algorithm table";
    }
  }
}

}  // namespace
}  // namespace tutti::schedule
