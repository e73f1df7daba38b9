// Rows as a picture: one panel per verb, one line per implementation and kind of buffers, both axes logarithmic. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/row.h"

namespace tutti::bench {

// SVG. Microseconds against bytes; where there are several numbers of ranks, bus bandwidth of the largest size against
// ranks instead. Algorithms asked for by name are lines of their own.
std::string plot_of(const std::vector<Row>& rows);

}  // namespace tutti::bench
