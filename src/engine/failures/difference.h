// Who called what: the first difference between the ranks' statements, in words.
#pragma once

#include <functional>
#include <string>

#include "base/statement.h"

namespace tutti::engine {

// What `rank` says of its call on `channel`; sequence 0 where it says nothing.
using Stated = std::function<Statement(int channel, int rank)>;

struct Difference {
  std::string words;        // who called what; empty where no two ranks are known to differ
  int silent = 0;           // ranks that have not said whether they made the call in question
  int odd = -1;             // the one rank that differs from all others, or -1
  bool of_message = false;  // between its two ends
};

// The two ends of a message that both call.
Difference difference_between(const Statement& sender, const Statement& receiver);
// A message, and the collective that its receiver is in instead.
Difference crossing(const Statement& message, const Statement& collective);

// Channels below `collectives` hold calls of the whole group, and channel `collectives` what ranks say of a message
// whose two ends differ or cross a collective. There a rank that waits in a collective, and can receive no message
// meanwhile, says which one. Where no two ranks are known to differ, those are silent that have said nothing of the
// collective with the sequence number `about`, nor of a later one.
Difference find_difference(int ranks, int collectives, const Stated& stated, std::uint64_t about = 0);

}  // namespace tutti::engine
