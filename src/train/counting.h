// Counters of several communicators as those of one.
#pragma once

#include <cstddef>

#include "tutti/counters.h"

namespace tutti::train {

inline void add_counters(Counters& sum, const Counters& more) {
  for (std::size_t verb = 0; verb < kVerbs; ++verb) {
    sum.verbs[verb].calls += more.verbs[verb].calls;
    sum.verbs[verb].bytes += more.verbs[verb].bytes;
    sum.verbs[verb].waited += more.verbs[verb].waited;
  }
}

}  // namespace tutti::train
