// What calls by one algorithm cost, size by size.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/offers.h"
#include "choice/prices.h"
#include "schedule/algorithms/table.h"
#include "schedule/lower.h"
#include "topology/rates.h"

namespace tutti::choice {

// Work is cut into pieces of this size: small enough for the second-level cache, large enough to hide the flags.
inline constexpr std::uint64_t kSegmentBytes = 256 << 10;
// Where ranks are on several hosts, large enough to hide what a message between hosts costs.
inline constexpr std::uint64_t kSegmentBytesAcross = 1 << 20;
inline std::uint64_t segment_bytes_for(const Offers& offers) {
  return offers.hosts.several() ? kSegmentBytesAcross : kSegmentBytes;
}

// What calls by one algorithm cost. Beyond a few ranks the price is carried on from smaller groups of the same kind,
// because playing thousands of ranks would take longer than the calls themselves.
class Pricer {
 public:
  Pricer(const schedule::Algorithm& row, int ranks, const Offers& offers);
  // Of programs that no row of the table generates.
  Pricer(const schedule::Algorithm& row, std::vector<schedule::Lowered> programs);
  // Two ranks that send each other a message and receive the other's, by the algorithm of messages.
  static Pricer both_ways(const schedule::Algorithm& row, const Offers& offers);
  // As calls are compared: messages go both ways, which is how pipelines and exchanges use them.
  static Pricer compared(const schedule::Algorithm& row, int ranks, const Offers& offers) {
    return row.verb == Verb::send_recv && ranks > 1 ? both_ways(row, offers) : Pricer(row, ranks, offers);
  }
  // Seconds for a call that moves `bytes`: as it is chosen by, and as the rates alone would have it.
  double at(std::uint64_t bytes, const Prices& prices) const;
  double at(std::uint64_t bytes, const topology::LinkRates& rates) const;
  double at(std::uint64_t bytes, const topology::Rates& rates) const { return at(bytes, topology::LinkRates(rates)); }
  const schedule::Algorithm& row() const { return *row_; }

 private:
  using Programs = std::vector<schedule::Lowered>;  // of all ranks of a group that can be played

  double play(const Programs& programs, std::uint64_t bytes, const topology::LinkRates& rates) const;

  const schedule::Algorithm* row_;
  Verb verb_;
  int ranks_;
  int on_one_host_;  // of its ranks, at most
  Programs whole_;   // the group, or the largest of its kind that is played
  Programs half_;    // of half that size; empty where the group itself is played
};

// The prices of one algorithm, size by size. They are worked out at the sizes of surveys; between two of these they lie
// on a straight line, and beyond the last they grow as the rates say.
class PriceLine {
 public:
  PriceLine(const Pricer& pricer, const Prices& prices) : pricer_(&pricer), prices_(&prices) {}
  double at(std::uint64_t bytes);

 private:
  double known(std::size_t size);

  const Pricer* pricer_;
  const Prices* prices_;
  std::array<std::optional<double>, topology::kSurveySizes> known_;
};

}  // namespace tutti::choice
