#include "plan/host_prices.h"

#include "schedule/verbs.h"

namespace tutti::plan {

choice::Chooser& HostPrices::chooser(int ranks) {
  std::unique_ptr<choice::Chooser>& found = choosers_[ranks];
  if (!found) {
    Offers offers = memory_offers(ranks);
    offers.inside.single_copy = true;
    found = std::make_unique<choice::Chooser>(ranks, offers, choice::Forced{}, false);
    found->set_costs(choice::agreed_costs(costs_.table, ranks, 1, costs_.tuned));
  }
  return *found;
}

HostPrice HostPrices::price(Verb verb, int ranks, double bytes) {
  const choice::Chooser& among = chooser(ranks);
  const choice::Question call{.verb = verb,
                              .bytes = static_cast<std::uint64_t>(bytes),
                              .symmetric_memory_exists = schedule::facts_of(verb).reduces};
  const schedule::Algorithm* row = among.choose(call);
  if (row == nullptr) row = among.choose_entered(call, true);
  const double seconds =
      verb == Verb::send_recv ? among.price_of_exchange(*row, call.bytes, false) : among.price_of(*row, call.bytes);
  return {seconds, row->name};
}

}  // namespace tutti::plan
