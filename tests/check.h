// Checks that work inside a rank, be it a thread or a forked process: they throw, and the rank's end carries the words.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tutti/local.h"

namespace tutti::testing {

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("check failed: " + what);
}

inline void expect_all_ok(const std::vector<RankEnd>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_TRUE(ends[rank].ok()) << "rank " << rank << ": exit " << ends[rank].exit_code << ", signal "
                                 << ends[rank].signal << ", " << ends[rank].message;
  }
}

enum class Ranks { threads, processes };
inline constexpr Ranks kAllRanks[] = {Ranks::threads, Ranks::processes};

inline std::vector<RankEnd> run_ranks(Ranks kind, int ranks, const RankFunction& function,
                                      const Options& options = {}) {
  return kind == Ranks::threads ? run_threads(ranks, function, options) : run_processes(ranks, function, options);
}

inline std::string name_of(Ranks kind) { return kind == Ranks::threads ? "threads" : "processes"; }
inline void PrintTo(Ranks kind, std::ostream* out) { *out << name_of(kind); }

}  // namespace tutti::testing
