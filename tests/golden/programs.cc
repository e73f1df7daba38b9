#include "golden/programs.h"

#include "schedule/algorithms/lower_row.h"

namespace tutti::schedule {

Offers offers_everything() {
  Offers offers;
  offers.windows_to_scratch = true;
  offers.windows_to_user = true;
  offers.operands_in_slots = true;
  offers.lends = true;
  offers.credits = 2;
  return offers;
}

Offers offers_streams() {
  Offers offers;
  offers.credits = 3;
  offers.channels = 2;
  offers.slot_bytes = 1 << 16;
  offers.scratch_bytes = 1 << 26;
  offers.segment_bytes = 1 << 18;
  return offers;
}

bool takes(const Algorithm& algorithm, int ranks) { return algorithm.verb != Verb::send_recv || ranks == 2; }

std::vector<Lowered> programs_of(const Algorithm& algorithm, int ranks, const Offers& offers, int root) {
  return lower_all(algorithm, ranks, offers, root);
}

}  // namespace tutti::schedule
