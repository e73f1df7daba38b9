#include "engine/prices.h"

#include <algorithm>
#include <bit>
#include <string>

namespace tutti::engine {
namespace {

std::size_t number_of(const schedule::Algorithm& row) {
  return static_cast<std::size_t>(&row - schedule::algorithms().data());
}

Prices prices_of(const topology::CostTable& table, bool memory, int ranks) {
  const topology::Survey* const survey = topology::nearest_survey(table, memory, ranks);
  if (survey == nullptr) return memory ? table.memory : table.streams;
  Prices prices(survey->rates);
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

// Between the sizes of a survey in equal steps of the exponent: only what every machine computes to the same bits.
double Prices::factor(const schedule::Algorithm& row, std::uint64_t bytes) const {
  const float* const known = factors[number_of(row)];
  constexpr int kFirst = std::bit_width(topology::kSurveyBytes[0]) - 1, kStep = 3;
  constexpr int kLast = kFirst + kStep * (static_cast<int>(topology::kSurveySizes) - 1);
  const int power = std::clamp(static_cast<int>(std::bit_width(bytes)) - 1, kFirst, kLast) - kFirst;
  const double here = known[power / kStep], next = known[std::min(power / kStep + 1, (kLast - kFirst) / kStep)];
  return (here * (kStep - power % kStep) + next * (power % kStep)) / kStep;
}

AgreedCosts agreed_costs(const topology::CostTable& table, int ranks) {
  return {prices_of(table, true, ranks), prices_of(table, false, ranks)};
}

std::string survey_name(const schedule::Algorithm& row) {
  return std::string(name_of(row.verb)) + "/" + std::string(row.name);
}

}  // namespace tutti::engine
