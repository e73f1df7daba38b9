// Ranks that fare alike, simulated once.
//
// Ranks, edges and links are put into classes such that members of a class cannot be told apart: ranks of a class have
// one text, speed and start, and edges of the same classes by the same numbers; edges of a class have ends and links of
// the same classes; and over each link of a class go as many edges of each class. Then, as long as all members of a
// class have done the same, they go on doing the same at the same times: each link of a class carries the same flows, so
// that fair sharing gives the flows of a class one rate. No such classes, no folding: what makes ranks differ is in them.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/readers/simulate/scene.h"

namespace tutti::schedule {

// What ranks differ in besides their programs, by rank.
struct RankTraits {
  std::vector<double> factors;  // as long as for others it takes what they compute and send
  std::vector<double> starts;   // seconds
};

// Leaves one rank of each class in the scene, and says which class each rank was in, by its place there; leaves the
// scene alone and says nothing where there is too little to win.
std::vector<std::uint32_t> fold_scene(Scene& scene, const RankTraits& traits);

}  // namespace tutti::schedule
