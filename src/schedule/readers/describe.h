// Describe: the programs of a collective as text a person can read, and what they cost in steps, messages and bytes.
//
//   ranks 0-3, each:
//     lane ring
//       0  copy    →rank+1                  <-  input[rank]
//       1  reduce  →rank+1                  <+  ←rank-1, input[rank-1]
//
// The words are those of phrases.h. Ranks that do the same are told once; ranks that differ in few steps are told
// together, with one line per variant of such a step.
#pragma once

#include <span>
#include <string>

#include "schedule/lower.h"

namespace tutti::schedule {

std::string describe(std::span<const Lowered> programs);

}  // namespace tutti::schedule
