// docs/algorithms.md is made from the table of algorithms, their programs, and what their files say of the cost.
//
// After a change: TUTTI_UPDATE_GOLDEN=1 build/bin/golden_test --gtest_filter='AlgorithmsDocument*', then read the diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "schedule/algorithms/table.h"
#include "schedule/readers/traffic.h"

namespace tutti::schedule {
namespace {

using std::filesystem::path;

constexpr int kRanks = 8;
const path kRoot = TUTTI_SOURCE_DIRECTORY;

constexpr const char* kBegin = R"(# The algorithms
One section for each verb, made from the code by a test (`tests/golden/document_test.cc`), so it says what runs. The
file of an algorithm has its picture: `src/schedule/algorithms/VERB/NAME.cc`. `tutti show VERB -a NAME -n 4` draws it
with any number of ranks, `tutti verify` proves it, `tutti list -n N` counts for N ranks, and
`TUTTI_ALGORITHM=VERB=NAME` has it run.

- **steps**, **moves**: of the busiest of 8 ranks, for one segment; moved are bytes sent or received, whichever are
  more, loaded and stored through windows, in vectors of n bytes, or n bytes of all chunks together.
- **cost**: α for a message, β for a byte of it, γ for a byte that is reduced; p ranks, lg is log2, and f = (p − 1) / p.
- **scratch**: memory of the operation, in segments, beside what lands there where edges are byte streams.
- **order**: canonical ones give the same bits whatever the algorithm; one with its own order repeats only its own.
- **needs**: messages run everywhere; shared scratch and readable peers inside a host, symmetric buffers where the
  caller has those.
)";

std::string contents_of(const path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

path file_of(const Algorithm& row) {
  const path folder = kRoot / "src/schedule/algorithms";
  if (row.name == "single_copy") return folder / "single_copy.cc";
  const std::string verb(row.verb == Verb::exclusive_scan ? name_of(Verb::scan) : name_of(row.verb));
  return folder / verb / (std::string(row.name) + ".cc");
}

// What the heading of its file says behind "Cost:", to the end of the sentence.
std::string cost_of(const Algorithm& row) {
  std::istringstream lines(contents_of(file_of(row)));
  std::string cost, line;
  bool within = false;
  while (std::getline(lines, line) && line.starts_with("//")) {
    if (const std::size_t begin = line.find("Cost:"); begin != std::string::npos) {
      within = true;
      line = "//" + line.substr(begin + 5);
    } else if (line == "//") {
      within = false;
    }
    if (within) cost += " " + line.substr(2);
  }
  cost = std::regex_replace(cost, std::regex(" +"), " ");
  cost = cost.substr(0, std::min(cost.find(". "), cost.size()));
  for (const auto& [word, letter] : {std::pair("alpha", "α"), std::pair("beta", "β"), std::pair("gamma", "γ")})
    cost = std::regex_replace(cost, std::regex(word), letter);
  const std::size_t begin = cost.find_first_not_of(' ');
  const std::size_t end = cost.find_last_not_of(" .");
  return begin == std::string::npos ? "" : cost.substr(begin, end - begin + 1);
}

std::string text_of(const Algorithm& row) {
  const int ranks = row.verb == Verb::send_recv ? 2 : kRanks;
  const BusiestRank busiest = busiest_of(row, ranks);
  char number[32];
  std::snprintf(number, sizeof number, "%.4g", busiest.moved);
  return "| `" + std::string(row.name) + "` | " + std::to_string(busiest.steps) + " | " + number + " n | " +
         cost_of(row) + " | " + std::to_string(busiest.scratch) + " | " + (row.canonical() ? "canonical" : "its own") +
         " | " + std::string(needs_of(row)) + " | " + std::string(row.good_at) + " |\n";
}

std::string document() {
  std::string text = kBegin;
  for (const VerbFacts& facts : kVerbTable) {
    char least[32];
    std::snprintf(least, sizeof least, "%.4g", least_moved(facts.verb, facts.verb == Verb::send_recv ? 2 : kRanks));
    text += "\n## " + std::string(name_of(facts.verb)) + "\n";
    if (facts.passes > 0) text += "Whatever the algorithm, the busiest rank moves " + std::string(least) + " n.\n\n";
    text +=
        "| algorithm | steps | moves | cost | scratch | order | needs | good at |\n|---|---|---|---|---|---|---|---|\n";
    for (const Algorithm& row : algorithms()) {
      if (row.verb == facts.verb) text += text_of(row);
    }
  }
  return text;
}

TEST(AlgorithmsDocument, SaysWhatTheCodeDoes) {
  const path file = kRoot / "docs/algorithms.md";
  const std::string text = document();
  if (std::getenv("TUTTI_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << text;
  EXPECT_TRUE(contents_of(file) == text)
      << "docs/algorithms.md is not what the code says; run: TUTTI_UPDATE_GOLDEN=1 build/bin/golden_test "
         "--gtest_filter='AlgorithmsDocument*'";
}

TEST(AlgorithmsDocument, EveryAlgorithmHasACost) {
  for (const Algorithm& row : algorithms()) EXPECT_NE(cost_of(row), "") << file_of(row);
}

}  // namespace
}  // namespace tutti::schedule
