// What rows say when held against each other: our time against the best peer's, against the limit, and against the best
// of our own algorithms. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/row.h"

namespace tutti::bench {

// Of one cell of ours.
struct Ratio {
  const Row* ours = nullptr;
  const Row* other = nullptr;
  double value = 0;
};

// The best peer's median / ours, for every row of ours that a peer ran, too; `limit` and algorithms asked for by name
// do not count. Peers have ordinary buffers only, and are held against either kind of ours.
std::vector<Ratio> ratios_to_peers(const std::vector<Row>& rows);
// Ours / the limit, with the same kind of buffers.
std::vector<Ratio> ratios_to_limit(const std::vector<Row>& rows);
// Ours by built-in costs / ours by costs that were measured here, with the same kind of buffers: 1 loses nothing.
std::vector<Ratio> ratios_to_tuned(const std::vector<Row>& rows);
// Ours as chosen / the best of what was chosen and all that was asked for by name: 1 is a perfect choice.
std::vector<Ratio> regrets(const std::vector<Row>& rows);

// Predicted / measured, for every row of ours that says what it expected, asked for by name or not.
std::vector<Ratio> predictions(const std::vector<Row>& rows);

// 1 where there are none.
double geometric_mean(const std::vector<Ratio>& ratios);
// nullptr where there are none.
const Ratio* lowest(const std::vector<Ratio>& ratios);
const Ratio* highest(const std::vector<Ratio>& ratios);

// "all_reduce 4 KB, 2 ranks, shm, ordinary, in place".
std::string text_of_cell(const Row& row);

// Everything that there is to say about these rows, as comment lines.
std::string summary_of(const std::vector<Row>& rows);

}  // namespace tutti::bench
