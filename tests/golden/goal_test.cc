// The GOAL text of every algorithm of messages: read back by what the format says, matched, and played to its end.
#include "schedule/readers/goal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <map>
#include <regex>
#include <sstream>
#include <tuple>

#include "golden/programs.h"
#include "schedule/algorithms/table.h"
#include "schedule/readers/verify.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

using ::testing::HasSubstr;

struct Operation {
  std::string verb;
  std::uint64_t size = 0;
  int peer = -1, tag = -1;
  std::vector<int> behind;  // by number of the rank's operations
  bool done = false;
};

using Graph = std::vector<std::vector<Operation>>;  // by rank

Graph read(const std::string& text) {
  static const std::regex kOperation(R"(l(\d+): (calc|send|recv) (\d+)b?(?: (?:to|from) (\d+) tag (\d+))?)");
  static const std::regex kDependency(R"(l(\d+) requires l(\d+))");
  Graph graph;
  std::istringstream lines(text);
  std::string line;
  for (std::smatch match; std::getline(lines, line);) {
    if (line.starts_with("rank ")) {
      EXPECT_EQ(line, "rank " + std::to_string(graph.size()) + " {");
      graph.emplace_back();
    } else if (std::regex_match(line, match, kOperation)) {
      EXPECT_EQ(std::stoul(match[1]), graph.back().size() + 1);
      const bool calc = match[2] == "calc";
      EXPECT_EQ(calc, !match[4].matched);
      graph.back().push_back(
          {match[2], std::stoull(match[3]), calc ? -1 : std::stoi(match[4]), calc ? -1 : std::stoi(match[5]), {}});
    } else if (std::regex_match(line, match, kDependency)) {
      graph.back().at(std::stoul(match[1]) - 1).behind.push_back(std::stoi(match[2]) - 1);
    } else {
      EXPECT_TRUE(line.empty() || line == "}" || line == "num_ranks " + std::to_string(graph.size()) ||
                  line.starts_with("num_ranks"))
          << line;
    }
  }
  return graph;
}

// Plays all that can be, in rounds; returns how many operations are left. Adds up what each edge carries.
int play(Graph& graph, std::map<std::pair<int, int>, std::uint64_t>& edges) {
  std::map<std::tuple<int, int, int>, std::deque<std::uint64_t>> under_way;  // from, to, tag
  int left = 0;
  for (const auto& operations : graph) left += static_cast<int>(operations.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < graph.size(); ++rank) {
      for (Operation& operation : graph[rank]) {
        const auto is_done = [&](int number) { return graph[rank].at(static_cast<std::size_t>(number)).done; };
        if (operation.done || !std::all_of(operation.behind.begin(), operation.behind.end(), is_done)) continue;
        const int me = static_cast<int>(rank);
        if (operation.verb == "send") {
          under_way[{me, operation.peer, operation.tag}].push_back(operation.size);
          edges[{me, operation.peer}] += operation.size;
        } else if (operation.verb == "recv") {
          auto& messages = under_way[{operation.peer, me, operation.tag}];
          if (messages.empty()) continue;
          EXPECT_EQ(messages.front(), operation.size);
          messages.pop_front();
        }
        operation.done = moved = true;
        --left;
      }
    }
  }
  for (const auto& [edge, messages] : under_way) EXPECT_TRUE(messages.empty());
  return left;
}

TEST(Goal, EveryAlgorithmOfMessagesComesToItsEnd) {
  for (const Algorithm& row : algorithms()) {
    if (row.user_windows || row.scratch_windows || row.verb == Verb::barrier) continue;
    for (const int ranks : {2, 3, 8}) {
      if (!takes(row, ranks)) continue;
      for (const std::uint64_t count : {0, 1, 100'003}) {
        SCOPED_TRACE(std::string(name_of(row.verb)) + " by " + std::string(row.name) + ", " + std::to_string(ranks) +
                     " ranks, " + std::to_string(count) + " elements");
        Offers offers = offers_everything();
        offers.segment_bytes = 64 << 10;  // several segments
        const auto programs = programs_of(row, ranks, offers, ranks / 2);
        Graph graph = read(to_goal(programs, {count}));
        std::map<std::pair<int, int>, std::uint64_t> edges;
        EXPECT_EQ(graph.size(), programs.size());
        EXPECT_EQ(play(graph, edges), 0);
        if (row.single_copy) continue;
        for (const auto& [edge, bytes] : verify(programs, {.count = count}).edge_bytes) EXPECT_EQ(edges[edge], bytes);
      }
    }
  }
}

TEST(Goal, IsWhatTheFormatSays) {
  const auto programs = programs_of(*find_algorithm(Verb::all_reduce, "exchange"), 2, offers_everything());
  EXPECT_EQ(to_goal(programs, {100, 4, 0.5}),
            "num_ranks 2\n\n"
            "rank 0 {\nl1: send 400b to 1 tag 0\nl2: recv 400b from 1 tag 0\nl3: calc 800\n"
            "l2 requires l1\nl3 requires l2\n}\n\n"
            "rank 1 {\nl1: send 400b to 0 tag 0\nl2: recv 400b from 0 tag 0\nl3: calc 800\n"
            "l2 requires l1\nl3 requires l2\n}\n");
}

TEST(Goal, RefusesTimesThatHaveNoNumber) {
  const auto programs = programs_of(*find_algorithm(Verb::all_reduce, "exchange"), 2, offers_everything());
  EXPECT_THROW(to_goal(programs, {100, 4, 1e-300}), Error);
  EXPECT_THROW(to_goal(programs, {100, 4, std::numeric_limits<double>::quiet_NaN()}), Error);
}

TEST(Goal, RefusesWhatReachesIntoOthersMemory) {
  const auto programs = programs_of(*find_algorithm(Verb::all_reduce, "staged"), 3, offers_everything());
  try {
    to_goal(programs, {100});
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("all_reduce by 'staged' reaches into others' memory"));
  }
}

}  // namespace
}  // namespace tutti::schedule
