// Steers Highway's dispatch; see targets.h.
#include "kernels/targets.h"

#include <vector>

#include "hwy/highway.h"

namespace tutti::kernels {

namespace {

std::vector<std::int64_t> detect_targets() {
  std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  // Highway's library may have been built with another fallback than ours; ours is always callable.
  if (targets.empty() || targets.back() < HWY_STATIC_TARGET) targets.push_back(HWY_STATIC_TARGET);
  return targets;
}

const std::vector<std::int64_t>& known_targets() {
  static const std::vector<std::int64_t> targets = detect_targets();
  return targets;
}

}  // namespace

std::size_t target_count() { return known_targets().size(); }

std::string target_name(std::size_t index) { return hwy::TargetName(known_targets().at(index)); }

void use_target(std::size_t index) {
  hwy::SetSupportedTargetsForTest(index == 0 ? 0 : known_targets().at(index));
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace tutti::kernels
