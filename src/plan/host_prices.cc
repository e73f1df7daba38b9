#include "plan/host_prices.h"

#include <numeric>

#include "plan/training.h"
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

// What a bucket, or a unit, says in a step of so many, one call after the other.
double HostPrices::bucket_seconds(int stage, int ranks, double bytes, int buckets) {
  if (stage == 0) return price(Verb::all_reduce, ranks, bytes).seconds;
  double gathers = 1;
  if (stage == 3) {
    const auto units = static_cast<std::size_t>(buckets);
    const std::vector<std::size_t> times = gathers_of(passes_over(units), units, TrainingShape().gathered_units);
    gathers = static_cast<double>(std::accumulate(times.begin(), times.end(), std::size_t{0})) / buckets;
  }
  return price(Verb::reduce_scatter, ranks, bytes).seconds + gathers * price(Verb::all_gather, ranks, bytes).seconds;
}

double HostPrices::factor_in_step(int stage, int ranks, double bytes, double whole) {
  const auto [found, is_new] = steps_.try_emplace(ranks);
  if (is_new) {
    const std::optional<topology::Survey> survey = survey_of_steps_for(costs_.table, ranks);
    if (survey) found->second = Steps{survey->ranks, StepPrices(survey->steps)};
  }
  const std::optional<Steps>& steps = found->second;
  if (!steps || !steps->prices.knows(stage)) return 1;
  return steps->prices.seconds(stage, bytes, whole) /
         bucket_seconds(stage, steps->ranks, bytes, steps->prices.buckets(stage));
}

}  // namespace tutti::plan
