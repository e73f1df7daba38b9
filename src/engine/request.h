// From what a caller asks for to a call: every check that needs no other rank, and everything the executor wants to
// know, in one place. Throws Error before anything moves.
#pragma once

#include <string_view>

#include "engine/call.h"
#include "tutti/request.h"

namespace tutti::engine {

// The kernels of all built-in reductions, by type and operator; nullptr where there is none.
using Reduces = kernels::ReduceFunction[kDTypes][kReduceOps];
const Reduces& all_reduces();

// The group as requests are checked against it.
struct GroupView {
  int rank = 0;
  int size = 1;
  std::size_t most_own_bytes = 0;  // of an element that an operator of the caller's reduces out of messages
  std::string_view name = {};      // what errors call a request, where that is not its verb
};

// `chunks` holds the counts of a v-verb afterwards, and must outlive the call. The request must do so if it has an
// operator of the caller's.
Call call_of(const Request& request, const GroupView& group, UnevenChunks& chunks);

}  // namespace tutti::engine
