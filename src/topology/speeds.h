// Speeds: a few numbers about a machine that are measured in a moment. They carry rates that were found on one machine,
// by hours of timing, over to another. A value; pure.
#pragma once

#include "topology/rates.h"

namespace tutti::topology {

// `rates`, which hold on a machine of speeds `from`, for one of speeds `to`; between ranks that share memory, or over
// streams. What either of the two does not know stays as it is, and so does what differs by less than one machine does
// from one moment to the next: by a factor of two. From there on they follow.
Rates carried_over(Rates rates, bool memory, const Speeds& from, const Speeds& to);

bool all_known(const Speeds& speeds);

// How unlike two machines are: the mean ratio of their speeds, as a logarithm; 0 where nothing is known.
double distance(const Speeds& one, const Speeds& other);

}  // namespace tutti::topology
