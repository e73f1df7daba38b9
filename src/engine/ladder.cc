#include "engine/ladder.h"

#include <algorithm>
#include <optional>

#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/cost.h"
#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

using schedule::Algorithm;

constexpr std::uint32_t kElementBytes = 4;
constexpr int kMostPlayed = 8;  // ranks
constexpr int kSmallestPower = 2, kLargestPower = 30;

// Of calls that may be in place, this many are taken to be: nobody knows whether others' are, and all choose alike.
constexpr double kInPlace = 0.25;

// What a call in place pays beside the price of its algorithm, which is that of a call that is not.
double in_place_price(const Algorithm& row, std::uint64_t bytes, const topology::Rates& rates) {
  if (!row.lent || schedule::runs_in_place(row)) return 0;
  const auto copied = static_cast<double>(bytes);
  return copied * rates.copy * (copied > rates.cache_bytes ? rates.far : 1);
}

// As many ranks to a core as in the whole group.
topology::Rates shared_by(topology::Rates rates, std::size_t ranks, int whole) {
  const auto played = static_cast<std::int64_t>(ranks);
  rates.cores = static_cast<int>(std::max<std::int64_t>(1, (2 * rates.cores * played + whole) / (2 * whole)));
  return rates;
}

}  // namespace

Pricer::Pricer(const Algorithm& row, int ranks, const Offers& offers)
    : row_(&row),
      verb_(row.verb),
      ranks_(row.verb == Verb::send_recv ? std::min(ranks, 2) : ranks),
      whole_(schedule::lower_all(row, std::min(ranks_, kMostPlayed), offers)) {
  if (ranks_ > kMostPlayed) half_ = schedule::lower_all(row, kMostPlayed / 2, offers);
}

Pricer Pricer::both_ways(const Algorithm& row, const Offers& offers) {
  Pricer pricer(row, 2, offers);
  schedule::Lowered both = pricer.whole_[0];
  const auto& receiving = pricer.whole_[1].program.lanes;
  both.program.lanes.insert(both.program.lanes.end(), receiving.begin(), receiving.end());
  for (schedule::Lowered& each : pricer.whole_) {
    both.program.rank = each.program.rank;  // ranks are written relative: either of the two may be the sender
    each = both;
  }
  return pricer;
}

double Pricer::at(std::uint64_t bytes, const Prices& prices) const { return PriceLine(*this, prices).at(bytes); }

double PriceLine::known(std::size_t size) {
  std::optional<double>& price = known_[size];
  if (!price) price = pricer_->at(topology::kSurveyBytes[size], prices_->rates) * prices_->factor(pricer_->row(), size);
  return *price;
}

// Only what every machine computes to the same bits: ranks that choose differently would not notice.
double PriceLine::at(std::uint64_t bytes) {
  constexpr auto& kSizes = topology::kSurveyBytes;
  const auto above = static_cast<std::size_t>(std::upper_bound(std::begin(kSizes), std::end(kSizes), bytes) - kSizes);
  if (above == 0) return known(0);
  if (above == std::size(kSizes))
    return pricer_->at(bytes, prices_->rates) * prices_->factor(pricer_->row(), above - 1);
  const double part =
      static_cast<double>(bytes - kSizes[above - 1]) / static_cast<double>(kSizes[above] - kSizes[above - 1]);
  return known(above - 1) * (1 - part) + known(above) * part;
}

double Pricer::at(std::uint64_t bytes, const topology::Rates& rates) const {
  if (half_.empty()) return play(whole_, bytes, rates);
  const double whole = play(whole_, bytes, shared_by(rates, whole_.size(), ranks_));
  const double half = play(half_, bytes, shared_by(rates, half_.size(), ranks_));
  if (half <= 0) return whole;
  double price = whole;  // by what every machine computes to the same bits, again
  for (int ranks = kMostPlayed; ranks < ranks_; ranks *= 2) price *= whole / half;
  return price;
}

double Pricer::play(const Programs& programs, std::uint64_t bytes, const topology::Rates& rates) const {
  const bool chunks = schedule::facts_of(verb_).cut == schedule::Cut::chunks;
  const std::uint64_t parts = kElementBytes * (chunks ? programs.size() : 1);
  const std::uint64_t count = verb_ == Verb::barrier ? 0 : std::max<std::uint64_t>(1, bytes / parts);
  return schedule::predict(programs, count, kElementBytes, rates);
}

Ladder ladder(std::span<const Algorithm* const> rows, const Algorithm* direct, int ranks, const Offers& offers,
              const Prices& prices) {
  if (ranks == 1 || (rows.size() == 1 && direct == nullptr)) return {{{kAnyBytes, rows.front()}}};
  std::vector<Pricer> pricers;
  for (const Algorithm* row : rows) pricers.push_back(Pricer::compared(*row, ranks, offers));
  if (direct != nullptr) pricers.emplace_back(*direct, ranks, offers);
  std::vector<PriceLine> lines;
  for (const Pricer& pricer : pricers) lines.emplace_back(pricer, prices);
  Ladder found;
  std::vector<Rung>& rungs = found.rungs;
  double gained = 0, most_gained = 0;
  if (direct != nullptr) found.enter_bytes = 0;
  for (int power = kSmallestPower; power <= kLargestPower; ++power) {
    const std::uint64_t bytes = std::uint64_t{1} << power;
    const std::uint64_t below = bytes - bytes / 4;  // between two powers a border lies in their middle
    const auto price_of = [&](std::size_t i) {
      return lines[i].at(bytes) + kInPlace * in_place_price(*rows[i], bytes, prices.rates);
    };
    std::size_t best = 0;
    double least = price_of(0);
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const double price = price_of(i);
      if (price >= least) continue;
      best = i;
      least = price;
    }
    if (rungs.empty() || rungs.back().row != rows[best]) {
      if (!rungs.empty()) rungs.back().bytes = below;
      rungs.push_back({kAnyBytes, rows[best]});
    }
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

}  // namespace tutti::engine
