#include "choice/prices.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "choice/given.h"

namespace tutti::choice {
namespace {

std::size_t number_of(const schedule::Algorithm& row) {
  return static_cast<std::size_t>(&row - schedule::algorithms().data());
}

bool needs_alike(const schedule::Algorithm& a, const schedule::Algorithm& b) {
  return a.verb == b.verb && a.user_windows == b.user_windows && a.scratch_windows == b.scratch_windows &&
         a.single_copy == b.single_copy;
}

// A row that the survey lacks, because it is newer, is taken to be further off than the worst of its kind: it is to be
// chosen where the rates leave no doubt, not where they are off the most.
constexpr float kDoubt = 2, kMuchDoubt = 8;

void price_untimed(const std::vector<const schedule::Algorithm*>& timed, const schedule::Algorithm& row,
                   Prices& prices) {
  for (const schedule::Algorithm* const other : timed) {
    if (!needs_alike(row, *other)) continue;
    for (std::size_t size = 0; size < topology::kSurveySizes; ++size) {
      float& factor = prices.factors[number_of(row)][size];
      factor = std::max(factor, (row.untimed ? kMuchDoubt : kDoubt) * prices.factors[number_of(*other)][size]);
    }
  }
}

// How many times as long calls between hosts take as the rates say, of what these do not know, where nobody has timed
// them. Found on four hosts of two ranks on 1 Gbit/s.
struct Unrated {
  Verb verb;
  std::string_view algorithm;
  float times;
  std::uint64_t from_bytes, to_bytes;
};
constexpr std::uint64_t kSmallBytes = 16 << 10, kLargeBytes = 2 << 20;
constexpr Unrated kUnrated[] = {
    // A rank that waits for one of its own host looks at its streams as well, by a system call each time: by columns
    // ranks wait for both by turns, 1.65 to 2 times as long. Other verbs took no longer, nor did leaders.
    {Verb::all_gather, "hierarchical", 1.75F, 0, kSmallBytes},
    // Messages to all at once fill the queue of a narrow wire: 1.15 to 1.45 times as long.
    {Verb::all_to_all, "spread_out", 1.25F, kLargeBytes, ~std::uint64_t{0}},
    {Verb::all_to_all, "single_copy", 1.25F, kLargeBytes, ~std::uint64_t{0}}};

void price_unrated(Prices& prices) {
  for (const Unrated& unrated : kUnrated) {
    const schedule::Algorithm& row = *schedule::find_algorithm(unrated.verb, unrated.algorithm);
    for (std::size_t size = 0; size < topology::kSurveySizes; ++size) {
      const std::uint64_t bytes = topology::kSurveyBytes[size];
      if (bytes >= unrated.from_bytes && bytes <= unrated.to_bytes)
        prices.factors[number_of(row)][size] = unrated.times;
    }
  }
}

// What was found on one host says nothing about algorithms where a byte costs most on the way: there the rates, which
// know of it, go alone.
Prices surveyed(const topology::CostTable& table, bool memory, int ranks, int hosts) {
  const std::optional<topology::Survey> survey = topology::survey_for(table, memory, ranks, hosts);
  if (!survey) return memory ? table.memory : table.streams;
  Prices prices(survey->rates);
  prices.rates.inside.cores = prices.rates.across.cores = (memory ? table.memory : table.streams).cores;
  if (!memory && hosts > 1 && survey->hosts == 1) {
    price_unrated(prices);
    return prices;
  }
  std::vector<const schedule::Algorithm*> timed, untimed;
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    const auto found = survey->factors.find(survey_name(row));
    (found == survey->factors.end() ? untimed : timed).push_back(&row);
    if (found == survey->factors.end()) continue;
    std::transform(found->second.begin(), found->second.end(), prices.factors[number_of(row)],
                   [](double factor) { return static_cast<float>(factor); });
  }
  for (const schedule::Algorithm* const row : untimed) price_untimed(timed, *row, prices);
  return prices;
}

}  // namespace

Prices::Prices(const topology::Rates& machine) : rates(machine) {
  for (auto& row : factors) std::fill(std::begin(row), std::end(row), 1.0f);
}

double Prices::factor(const schedule::Algorithm& row, std::size_t size) const {
  return is_given(row) ? 1.0 : static_cast<double>(factors[number_of(row)][size]);  // nobody has timed it
}

AgreedCosts agreed_costs(const topology::CostTable& table, int ranks, int hosts, bool tuned) {
  const std::optional<topology::Survey> across = topology::survey_for(table, false, ranks, hosts);
  AgreedCosts costs{surveyed(table, true, ranks, 1), surveyed(table, false, ranks, hosts), tuned,
                    across && across->hosts > 1};
  costs.memory.device = topology::device_rates_for(table, true, ranks, 1).value_or(topology::DeviceRates());
  costs.streams.device = topology::device_rates_for(table, false, ranks, hosts).value_or(topology::DeviceRates());
  return costs;
}

void put_wire(AgreedCosts& costs, const Wire& wire) {
  topology::LinkRates& rates = costs.streams.rates;
  // A rank that sends and receives has a system call for both.
  constexpr double kClearly = 1.5;
  const bool is_narrow = wire.seconds_per_byte > kClearly * 2 * rates.across.stream;
  rates.across.wire = is_narrow ? wire.seconds_per_byte : std::min(rates.across.wire, wire.seconds_per_byte);
  rates.inside.wire = rates.across.wire;
  const double ends = 2 * (rates.across.step + rates.across.call);
  rates.across.message = std::max(rates.across.message, wire.message - ends);
  costs.wired = true;
}

Prices prices_of(const AgreedCosts& costs, const Offers& offers) {
  if (offers.every(&EdgeOffers::windows_to_scratch)) return costs.memory;
  Prices prices = costs.streams;
  if (offers.hosts.several() && offers.inside.windows_to_scratch) prices.rates.inside = costs.memory.rates.inside;
  return prices;
}

std::string survey_name(const schedule::Algorithm& row) {
  return std::string(name_of(row.verb)) + "/" + std::string(row.name);
}

}  // namespace tutti::choice
