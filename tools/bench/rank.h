// One rank of Tutti as `tutti bench` measures it.
#pragma once

namespace tutti::bench {

// The arguments that make the command such a rank; nobody else is to use them.
inline constexpr const char* kRankCommand = "bench-rank";

// Returns the exit code.
int run_rank();

}  // namespace tutti::bench
