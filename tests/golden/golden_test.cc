// The text and the picture of every algorithm, against files that people read and review.
//
// After a change on purpose: TUTTI_UPDATE_GOLDEN=1 build/bin/golden_test --gtest_filter='*Golden*', then read the diff.
//
// The last line of a file is a hash of the row's programs for a few sizes of groups, and since which version of the
// protocol they are so. A row that is new may come with the version at hand: the ranks' tables differ, and they say so
// when they meet. Where the programs of a row change, ranks of this build and of the one before would run different
// ones by the same name: the version has to be raised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <set>
#include <sstream>

#include "base/mix.h"
#include "golden/programs.h"
#include "rendezvous/handshake.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/json.h"
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

// Of the programs of a row, as shared memory, streams and two hosts run them, and hierarchical ones four.
std::uint64_t hash_of_programs(const Algorithm& row) {
  Offers memory;
  memory.inside = {true, true, true, true, 4, 0};
  memory.channels = 2;
  Offers streams;
  streams.channels = 2;
  std::uint64_t hash = 0;
  for (const int ranks : {2, 3, 4, 7, 8}) {
    if (!takes(row, ranks) || (ranks == 8 && !row.hierarchical)) continue;
    const bool windows = row.user_windows || row.scratch_windows;
    const auto add = [&](const Offers& offers) {
      for (const char letter : to_json(lower_all(row, ranks, offers, ranks / 2)))
        hash = mix(hash, static_cast<unsigned char>(letter));
    };
    add(memory);
    if (!windows && !row.single_copy) add(streams);
    if (windows) continue;
    Offers mixed = memory;
    mixed.inside.windows_to_user = false;
    mixed.hosts = Hosts::in_blocks(std::vector{(ranks + 1) / 2, ranks / 2});
    add(mixed);
    if (!row.hierarchical || ranks < 7) continue;
    std::vector<int> round_four;
    for (int rank = 0; rank < ranks; ++rank) round_four.push_back(rank % 4);
    mixed.hosts = Hosts(round_four);
    add(mixed);
  }
  return hash;
}

// The last line of a golden file.
struct Since {
  std::uint64_t programs = 0;
  std::uint32_t version = 0;

  std::string line() const {
    std::ostringstream text;
    text << "programs " << std::hex << programs << std::dec << ", since version " << version << " of the protocol\n";
    return text.str();
  }
  // 0 where there is none.
  static Since read_from(const std::string& text) {
    Since since;
    const std::size_t begin = text.rfind("programs ");
    std::istringstream in(begin == std::string::npos ? "" : text.substr(begin));
    std::string word;
    in >> word >> std::hex >> since.programs >> word >> word >> word >> std::dec >> since.version;
    return since;
  }
};

class Golden : public testing::TestWithParam<Algorithm> {};

TEST_P(Golden, TextAndPictureAreAsReviewed) {
  const Algorithm& algorithm = GetParam();
  const std::vector<Lowered> programs = programs_of(
      algorithm, ranks_of(algorithm), algorithm.hierarchical ? offers_on_two_hosts(4) : offers_everything());
  const Since before = Since::read_from(contents_of(file_of(algorithm)));
  Since now{hash_of_programs(algorithm), before.version};
  if (now.programs != before.programs) {
    ASSERT_NE(before.version, rendezvous::kProtocolVersion)
        << "the programs of " << algorithm.name
        << " changed, and ranks of the build before must not meet those of this "
        << "one: set kProtocolVersion in src/rendezvous/handshake.h to " << before.version + 1;
    now.version = rendezvous::kProtocolVersion;
  }
  const std::string text = describe(programs) + "\n" + draw(programs) + "\n" + now.line();
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
