#include "choice/size_table.h"

#include <algorithm>

#include "choice/device_price.h"
#include "choice/pricer.h"

namespace tutti::choice {
namespace {

using schedule::Algorithm;

constexpr int kSmallestPower = 2, kLargestPower = 30;
// Of calls that may be in place, this many are taken to be: nobody knows whether others' are, and all choose alike.
constexpr double kInPlace = 0.25;

// What a call in place pays beside the price of its algorithm, which is that of a call that is not.
double in_place_price(const Algorithm& row, std::uint64_t bytes, const topology::Rates& rates) {
  if (!row.single_copy || schedule::runs_in_place(row)) return 0;
  const auto copied = static_cast<double>(bytes);
  return copied * rates.copy * (copied > rates.cache_bytes ? rates.far : 1);
}

}  // namespace

SizeTable size_table(std::span<const Algorithm* const> rows, const Algorithm* direct, int ranks, const Offers& offers,
                     const Prices& prices) {
  if (ranks == 1 || (rows.size() == 1 && direct == nullptr)) return {{{kAnyBytes, rows.front()}}};
  std::vector<Pricer> pricers;
  for (const Algorithm* row : rows) pricers.push_back(Pricer::compared(*row, ranks, offers));
  if (direct != nullptr) pricers.emplace_back(*direct, ranks, offers);
  std::vector<PriceLine> lines;
  for (const Pricer& pricer : pricers) lines.emplace_back(pricer, prices);
  SizeTable found;
  std::vector<SizeRow>& chosen = found.rows;
  double gained = 0, most_gained = 0;
  if (direct != nullptr) found.enter_bytes = 0;
  for (int power = kSmallestPower; power <= kLargestPower; ++power) {
    const std::uint64_t bytes = std::uint64_t{1} << power;
    const std::uint64_t below = bytes - bytes / 4;  // between two powers a border lies in their middle
    const auto price_of = [&](std::size_t i) {
      return lines[i].at(bytes) + kInPlace * in_place_price(*rows[i], bytes, prices.rates.inside);
    };
    std::size_t best = 0;
    double least = price_of(0);
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const double price = price_of(i);
      if (price >= least) continue;
      best = i;
      least = price;
    }
    if (chosen.empty() || chosen.back().algorithm != rows[best]) {
      if (!chosen.empty()) chosen.back().bytes = below;
      chosen.push_back({kAnyBytes, rows[best]});
    }
    if (prices.device.launches() && is_quicker_staged(prices.device, rows[0]->verb, ranks, bytes, least))
      found.staged_sizes |= bytes;
    if (direct == nullptr) continue;
    // One border: sizes up to it gain the most, taken together, by not entering. A single odd price does not move it.
    gained += (lines.back().at(bytes) - least) / least;
    if (gained > most_gained) {
      most_gained = gained;
      found.enter_bytes = power == kLargestPower ? kAnyBytes : bytes + bytes / 2;
    }
  }
  return found;
}

SizeTable SizeTables::get(std::span<const Algorithm* const> rows, const Algorithm* direct, int ranks,
                          const Offers& offers, const Prices& prices) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    return known.ranks == ranks && known.direct == direct && known.offers == offers &&
           std::equal(rows.begin(), rows.end(), known.rows.begin(), known.rows.end());
  });
  if (found != known_.end()) return found->table;
  known_.push_back(
      {{rows.begin(), rows.end()}, direct, ranks, offers, size_table(rows, direct, ranks, offers, prices)});
  return known_.back().table;
}

}  // namespace tutti::choice
