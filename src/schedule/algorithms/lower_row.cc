#include "schedule/algorithms/lower_row.h"

#include "schedule/verbs.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// What is copied once and not reduced the system copies quickest in long stretches.
constexpr std::uint64_t kSingleCopySegmentBytes = 1 << 20;

}  // namespace

Offers offers_for(const Algorithm& row, const Offers& offers) {
  if (!row.single_copy) return offers;
  Offers once = single_copy_offers(offers);
  if (once.segment_bytes != 0 && !facts_of(row.verb).reduces) once.segment_bytes = kSingleCopySegmentBytes;
  return once;
}

bool has_credits_for(const Algorithm& row, const Offers& offers) {
  const auto enough = [&](const EdgeOffers& edge) { return !edge.operands_in_slots || edge.credits >= row.credits; };
  return enough(offers.inside) && (!offers.hosts.several() || enough(offers.across));
}

std::string why_not(const Algorithm& row, const Placement& placement, const Offers& offers) {
  if (row.single_copy && !offers.inside.single_copy) return "needs ranks that may read each other's memory";
  if (!has_credits_for(row, offers)) {
    return "needs " + std::to_string(row.credits) + " messages under way on each edge, and there may be " +
           std::to_string(offers.inside.credits);
  }
  if (!fits(row, placement.ranks))
    return "needs ranks in rows and columns (" + std::to_string(placement.ranks) + " is prime)";
  return why_not(row.generate(placement), offers_for(row, offers));
}

Lowered lower(const Algorithm& row, const Placement& placement, const Offers& offers) {
  if ((row.single_copy && !offers.inside.single_copy) || !fits(row, placement.ranks)) {
    throw Error(ErrorCode::unsupported, std::string(name_of(row.verb)) + " by '" + std::string(row.name) + "' " +
                                            why_not(row, placement, offers));
  }
  return lower(row.generate(placement), offers_for(row, offers));
}

std::vector<Lowered> lower_all(const Algorithm& row, int ranks, const Offers& offers, int root) {
  std::vector<Lowered> programs;
  for (int rank = 0; rank < ranks; ++rank) programs.push_back(lower(row, {ranks, rank, root, offers.hosts}, offers));
  return programs;
}

}  // namespace tutti::schedule
