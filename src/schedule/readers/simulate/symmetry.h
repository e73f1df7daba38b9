// Ranks that fare alike, simulated once.
//
// Ranks, edges and links are put into classes such that members of a class cannot be told apart: ranks of a class have
// one text, speed and start, and edges of the same classes by the same numbers; edges of a class have ends and links of
// the same classes; and over each link of a class go as many edges of each class. Then, as long as all members of a
// class have done the same, they go on doing the same at the same times: each link of a class carries the same flows,
// so that fair sharing gives the flows of a class one rate. What makes ranks differ is in their classes, so that it is
// never folded away.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/readers/simulate/scene.h"

namespace tutti::schedule {

// Leaves one rank of each class in the scene, and says which class each rank was in, by its place there; leaves the
// scene alone and says nothing where there is too little to win.
std::vector<std::uint32_t> fold_scene(Scene& scene, const RankTraits& traits);

}  // namespace tutti::schedule
