// What scans share in which every rank computes its share of everybody's result, the same elements of all: a column.
//
// Totals of blocks of powers of two are kept while inputs are added one after the other, as the digits of a binary
// counter; the result at an input is these digits, folded in the order of prefixes (base/canonical.h).
#pragma once

#include <optional>
#include <vector>

#include "schedule/algorithms/build.h"

namespace tutti::schedule {

struct Columns {
  std::vector<Step> steps;
  int planes = 0;  // of scratch that they leave behind them, the first ones included
};

// Adds inputs[0], inputs[1], ..., and leaves in results[i] what comes of inputs[0] to inputs[i], if anywhere. Only the
// first, which is inputs[0] itself, may go nowhere. results[i] may be the
// memory of inputs[i], of no other. The scratch that is used is that of the blocks `mine`, from `first_plane` on.
Columns columns(const std::vector<Operand>& inputs, const std::vector<std::optional<Operand>>& results,
                const BlockSet& mine, int first_plane = 0);

}  // namespace tutti::schedule
