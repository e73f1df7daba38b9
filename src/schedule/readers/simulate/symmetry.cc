#include "schedule/readers/simulate/symmetry.h"
namespace tutti::schedule {
std::vector<std::uint32_t> fold_scene(Scene&, const RankTraits&) { return {}; }
}  // namespace tutti::schedule
