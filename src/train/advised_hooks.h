// The compressions that advise() compares, from what changes nothing to what changes most.
#pragma once

namespace tutti::train {

// How much a hook changes what is learned. Of two that change as much, the quicker one is taken.
enum class Change { nothing, rounding, codes, coarse_codes, largest_only, other_steps };

struct AdvisedName {
  const char* name;  // as compression_named() takes it
  Change change;
};
inline constexpr AdvisedName kAdvisedNames[] = {{"none", Change::nothing},      {"bf16", Change::rounding},
                                                {"int8", Change::codes},        {"e4m3", Change::codes},
                                                {"int4", Change::coarse_codes}, {"topk", Change::largest_only}};

}  // namespace tutti::train
