// A schedule that the caller brings for a verb: programs of all ranks, lowered to what the group's transport offers and
// verified, under a row of their own that is not in the table.
#pragma once

#include <string>
#include <vector>

#include "base/offers.h"
#include "schedule/algorithms/table.h"
#include "schedule/lower.h"

namespace tutti::choice {

struct Given {
  std::string name;         // of the algorithm, as the schedule says; row.name is this
  schedule::Algorithm row;  // generates nothing
  int root = 0;             // of the calls that it is for, where the verb has one
  std::vector<schedule::Lowered> programs;
};

// Whether `row` is of a schedule that was given.
inline bool is_given(const schedule::Algorithm& row) { return row.generate == nullptr; }

}  // namespace tutti::choice
