// What the writer and the reader of the JSON form share; the form itself is told in json.h.
#pragma once

#include <nlohmann/json.hpp>

#include "schedule/lower.h"

namespace tutti::schedule {

using Json = nlohmann::ordered_json;  // keys stay in the order they are written

// X(member): every number and switch of what an edge offers, written and read under its own name.
#define TUTTI_EDGE_OFFERS(X) \
  X(windows_to_scratch)      \
  X(windows_to_user)         \
  X(operands_in_slots)       \
  X(single_copy)             \
  X(credits)                 \
  X(slot_bytes)

}  // namespace tutti::schedule
