// Rows from every rank to every rank, each of which knows how many it sends to whom and how many come.
//
// Straight, every two ranks exchange a message. In two levels, where ranks lie evenly on several hosts, rows first go
// to the rank of their own host that has the place of their receiver on its host, then across:
//
//   host A: 0 1   host B: 2 3        rows 0 -> 3:  from 0 to 1, inside host A; from 1 to 3, which lies as 1 does
//
// so that two hosts exchange one message for each place on a host, not one for each pair of ranks: h - 1 messages from
// each rank to other hosts in the place of (h - 1) m, for one more copy inside the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/train/report.h"

namespace tutti::train {

inline std::size_t sum_of(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

class RowExchange {
 public:
  explicit RowExchange(Communicator& communicator) : comm_(communicator.duplicate()) {}  // collective, as all here

  // Goes in two levels from here on, where ranks lie evenly, several to a host, on several hosts.
  void make_levels();

  // Collective. Rows of `width` elements, by rank, in `from` and in `to`; how many of each. Returns what that said.
  Sentence run(const void* from, std::span<const std::size_t> sent, void* to, std::span<const std::size_t> came,
               std::size_t width, Element element);

  Communicator& communicator() { return comm_; }
  Counters counters() const;

 private:
  using Counts = std::vector<std::size_t>;

  Phrase exchange(Communicator& comm, const std::string& where, const void* from, const Counts& sent, void* to,
                  const Counts& came, std::size_t width, Element element) const;
  Sentence run_two_levels(const std::byte* from, std::span<const std::size_t> sent, std::byte* to,
                          std::span<const std::size_t> came, std::size_t width, Element element);

  Communicator comm_;
  std::optional<Communicator> inside_, across_;  // this rank's host; those that lie as this rank does on theirs
  std::vector<int> at_;                          // by host and place on it: the rank
  std::vector<std::byte> packed_, middle_;
};

}  // namespace tutti::train
