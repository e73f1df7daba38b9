#include "golden/programs.h"

#include "schedule/algorithms/lower_row.h"

namespace tutti::schedule {

Offers offers_everything() {
  Offers offers;
  offers.inside = {true, true, true, true, 2, 0};
  offers.channels = 2;
  return offers;
}

Offers offers_streams() {
  Offers offers;
  offers.inside.credits = 3;
  offers.inside.slot_bytes = 1 << 16;
  offers.scratch_bytes = 1 << 26;
  offers.segment_bytes = 1 << 18;
  offers.channels = 2;
  return offers;
}

Offers offers_on_two_hosts(int ranks) {
  Offers offers = offers_everything();
  offers.inside.windows_to_user = false;
  if (ranks < 2) return offers;
  offers.across = offers_streams().inside;
  offers.hosts = Hosts::in_blocks(std::vector{ranks / 2, ranks - ranks / 2});
  return offers;
}

bool takes(const Algorithm& algorithm, int ranks) {
  return fits(algorithm, ranks) && (algorithm.verb != Verb::send_recv || ranks == 2);
}

std::vector<Lowered> programs_of(const Algorithm& algorithm, int ranks, const Offers& offers, int root) {
  return lower_all(algorithm, ranks, offers, root);
}

}  // namespace tutti::schedule
