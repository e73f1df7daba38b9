#include "choice/pricer.h"

#include <algorithm>
#include <optional>

#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/cost.h"
#include "schedule/verbs.h"

namespace tutti::choice {
namespace {

using schedule::Algorithm;

constexpr std::uint32_t kElementBytes = 4;
constexpr int kMostPlayed = 8;  // ranks

// As many ranks to a core, and to an adapter, as on a host of the whole group.
topology::LinkRates shared_by(topology::LinkRates rates, int played, int whole) {
  rates.across.wire *= static_cast<double>(whole) / played;
  int& cores = rates.inside.cores;
  cores = static_cast<int>(
      std::max<std::int64_t>(1, (std::int64_t{2} * cores * played + whole) / (std::int64_t{2} * whole)));
  return rates;
}

// So many ranks that stand for the group: of as many of its hosts as leave two for each, in the order of the group.
std::vector<int> played_ranks(const Hosts& hosts, int ranks, int played) {
  const int of_each = std::max(2, played / hosts.count());
  std::vector<int> taken(static_cast<std::size_t>(hosts.count()), 0), members;
  for (const int most : {of_each, ranks}) {
    for (int rank = 0; rank < ranks && static_cast<int>(members.size()) < played; ++rank) {
      int& of_host = taken[static_cast<std::size_t>(hosts.of(rank))];
      if (of_host >= most || std::find(members.begin(), members.end(), rank) != members.end()) continue;
      ++of_host;
      members.push_back(rank);
    }
  }
  std::sort(members.begin(), members.end());
  return members;
}

int most_on_one(const std::vector<schedule::Lowered>& programs) {
  return programs.front().offers.hosts.most_on_one(static_cast<int>(programs.size()));
}

std::vector<schedule::Lowered> lower_part(const Algorithm& row, int ranks, int played, const Offers& offers) {
  Offers among = offers.among(played_ranks(offers.hosts, ranks, played));
  among.channels = std::max(among.channels, 2u);  // few ranks may meet on an edge where many do not
  return schedule::lower_all(row, played, among);
}

}  // namespace

Pricer::Pricer(const Algorithm& row, int ranks, const Offers& offers)
    : row_(&row),
      verb_(row.verb),
      ranks_(row.verb == Verb::send_recv ? std::min(ranks, 2) : ranks),
      on_one_host_(offers.hosts.most_on_one(ranks_)),
      whole_(ranks_ > kMostPlayed ? lower_part(row, ranks_, kMostPlayed, offers)
                                  : schedule::lower_all(row, ranks_, offers)) {
  if (ranks_ > kMostPlayed) half_ = lower_part(row, ranks_, kMostPlayed / 2, offers);
}

Pricer::Pricer(const Algorithm& row, std::vector<schedule::Lowered> programs)
    : row_(&row),
      verb_(row.verb),
      ranks_(static_cast<int>(programs.size())),
      on_one_host_(most_on_one(programs)),
      whole_(std::move(programs)) {}

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

double Pricer::at(std::uint64_t bytes, const topology::LinkRates& rates) const {
  if (half_.empty()) return play(whole_, bytes, rates);
  const double whole = play(whole_, bytes, shared_by(rates, most_on_one(whole_), on_one_host_));
  const double half = play(half_, bytes, shared_by(rates, most_on_one(half_), on_one_host_));
  if (half <= 0) return whole;
  double price = whole;  // by what every machine computes to the same bits, again
  for (int ranks = kMostPlayed; ranks < ranks_; ranks *= 2) price *= whole / half;
  return price;
}

double Pricer::play(const Programs& programs, std::uint64_t bytes, const topology::LinkRates& rates) const {
  const bool chunks = schedule::facts_of(verb_).cut == schedule::Cut::chunks;
  const std::uint64_t parts = kElementBytes * (chunks ? programs.size() : 1);
  const std::uint64_t count = schedule::moves_data(verb_) ? std::max<std::uint64_t>(1, bytes / parts) : 0;
  return schedule::predict_repeated(programs, count, kElementBytes, rates);
}

}  // namespace tutti::choice
