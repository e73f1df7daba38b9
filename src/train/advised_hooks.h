// The compressions that advise() compares, from what changes nothing to what changes most.
#pragma once

namespace tutti::train {

// How much a hook changes what is learned. Of two that change as much, the quicker one is taken.
enum class Change { nothing, rounding, codes, coarse_codes, directions, other_steps, refused };

struct AdvisedName {
  const char* name;  // as compression_named() takes it
  Change change;
  bool whole_states = false;  // not with ZeRO, which cuts what it needs
};
inline constexpr AdvisedName kAdvisedNames[] = {{"none", Change::nothing},      {"bf16", Change::rounding},
                                                {"int8", Change::codes},        {"e4m3", Change::codes},
                                                {"int4", Change::coarse_codes}, {"power_sgd", Change::directions},
                                                {"topk", Change::directions},   {"one_bit", Change::directions, true}};

}  // namespace tutti::train
