#include "schedule/algorithms/lower_row.h"

#include "schedule/verbs.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// What was lent and is not reduced the system copies quickest in long stretches.
constexpr std::uint64_t kLentSegmentBytes = 1 << 20;

}  // namespace

Offers offers_for(const Algorithm& row, const Offers& offers) {
  if (!row.lent) return offers;
  Offers lent = lending(offers);
  if (lent.segment_bytes != 0 && !facts_of(row.verb).reduces) lent.segment_bytes = kLentSegmentBytes;
  return lent;
}

std::string why_not(const Algorithm& row, const Shape& shape, const Offers& offers) {
  if (row.lent && !offers.lends) return "needs ranks that may read each other's memory";
  return why_not(row.generate(shape), offers_for(row, offers));
}

Lowered lower(const Algorithm& row, const Shape& shape, const Offers& offers) {
  if (row.lent && !offers.lends) {
    throw Error(ErrorCode::unsupported,
                std::string(name_of(row.verb)) + " by '" + std::string(row.name) + "' " + why_not(row, shape, offers));
  }
  return lower(row.generate(shape), offers_for(row, offers));
}

std::vector<Lowered> lower_all(const Algorithm& row, int ranks, const Offers& offers, int root) {
  std::vector<Lowered> programs;
  for (int rank = 0; rank < ranks; ++rank) programs.push_back(lower(row, {ranks, rank, root}, offers));
  return programs;
}

}  // namespace tutti::schedule
