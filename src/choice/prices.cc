#include "choice/prices.h"

#include <algorithm>
#include <string>

namespace tutti::choice {
namespace {

std::size_t number_of(const schedule::Algorithm& row) {
  return static_cast<std::size_t>(&row - schedule::algorithms().data());
}

Prices surveyed(const topology::CostTable& table, bool memory, int ranks) {
  const topology::Survey* const survey = topology::nearest_survey(table, memory, ranks);
  if (survey == nullptr) return memory ? table.memory : table.streams;
  Prices prices(survey->rates);
  prices.rates.inside.cores = prices.rates.across.cores = (memory ? table.memory : table.streams).cores;
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    const auto found = survey->factors.find(survey_name(row));
    if (found == survey->factors.end()) continue;
    std::transform(found->second.begin(), found->second.end(), prices.factors[number_of(row)],
                   [](double factor) { return static_cast<float>(factor); });
  }
  return prices;
}

}  // namespace

Prices::Prices(const topology::Rates& machine) : rates(machine) {
  for (auto& row : factors) std::fill(std::begin(row), std::end(row), 1.0f);
}

double Prices::factor(const schedule::Algorithm& row, std::size_t size) const { return factors[number_of(row)][size]; }

AgreedCosts agreed_costs(const topology::CostTable& table, int ranks, bool tuned) {
  return {surveyed(table, true, ranks), surveyed(table, false, ranks), tuned};
}

Prices prices_of(const AgreedCosts& costs, const Offers& offers) {
  if (offers.every(&EdgeOffers::windows_to_scratch)) return costs.memory;
  Prices prices = costs.streams;
  if (offers.hosts.several()) prices.rates.inside = costs.memory.rates.inside;
  return prices;
}

std::string survey_name(const schedule::Algorithm& row) {
  return std::string(name_of(row.verb)) + "/" + std::string(row.name);
}

}  // namespace tutti::choice
