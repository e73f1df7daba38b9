// Algorithms that come in a radix: a binomial tree is a k-nomial one of radix 2, and recursive doubling is recursive
// multiplying by 2. Each is written once, in the file of the larger radix, for the rows of both.
#pragma once

#include <string>

#include "schedule/algorithms/build.h"

namespace tutti::schedule {

// Of rows that have one. More would be fewer rounds, of which each has more messages at once.
inline constexpr int kRadix = 4;

// `name`: of the row.
Program broadcast_tree(std::string name, const Placement& placement, int radix);
Program reduce_tree(std::string name, const Placement& placement, int radix);
Program gather_tree(std::string name, const Placement& placement, int radix);
Program scatter_tree(std::string name, const Placement& placement, int radix);
// Receives the chunks of this rank's subtree from its parent and sends its children theirs, out of `held`.
void add_scatter(Lane& lane, const TreePlace& place, Buffer held);
Program all_gather_in_rounds(std::string name, const Placement& placement, int radix);
Program all_reduce_in_rounds(std::string name, const Placement& placement, int radix);

}  // namespace tutti::schedule
