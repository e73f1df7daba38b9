// Measures one cell: prepares it everywhere, checks it once, finds out how many calls make a batch, then lets the
// contestants run batches in turn, round by round, so that whatever disturbs the machine disturbs all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/group.h"
#include "tools/bench/row.h"

namespace tutti::bench {

struct Effort {
  int rounds = 11;
  std::uint64_t iterations = 0;  // calls of a batch; 0 = as many as fill `batch_s`
  std::uint64_t warm_up = 1;     // calls before each batch
  double batch_s = 0.003;
  double cell_s = 2;       // rounds are cut short where a contestant takes longer than this for a cell
  double patience_s = 30;  // a rank that does not answer for so long is given up
  bool check = true;
};

// A way to run cells: an implementation with a kind of memory and, where asked for by name, an algorithm.
struct Contestant {
  Group* group = nullptr;
  bool symmetric = false;
  std::string algorithm;
};

// Told what became of a contestant that did not get through: it cannot run the cell, or its group was dropped.
struct Notes {
  std::function<void(const Contestant&, const Cell&, const std::string& why)> cannot;
  std::function<void(const Contestant&, const Cell&, const std::string& why)> dropped;
};

// One row for each contestant that ran it. Throws Interrupted.
std::vector<Row> measure(const Cell& cell, int ranks, const std::string& transport,
                         const std::vector<Contestant>& contestants, const Effort& effort, const Notes& notes);

}  // namespace tutti::bench
