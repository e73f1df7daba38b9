// What a step takes on its rank, by its operands and its bytes: for the reader that prices schedules.
//
// A byte costs more where it has to come from, or go to, lines that another core has written or read last: those of
// messages, and of scratch that peers look into. What callers pass in is not written between calls that are timed one
// after the other, so looking at a peer's costs no more than at one's own. Once a call outgrows the caches, the bytes
// of callers cost more; those of messages and scratch, which are used again and again, do not. Ranks of a host that
// move bytes at the same time slow each other down.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/layout.h"
#include "schedule/lower.h"
#include "topology/rates.h"

namespace tutti::schedule {

class StepTime {
 public:
  // Of these programs, for calls of this layout; all must outlive it.
  StepTime(std::span<const Lowered> programs, const Layout& layout, const topology::LinkRates& rates);

  // In seconds.
  double of(std::size_t rank, const Step& step, std::uint64_t segment) const;
  std::uint64_t bytes_of(std::size_t rank, const Step& step, std::uint64_t segment) const;
  // Whether messages of so many bytes stay in the memory of their sender until they have been copied out of it.
  bool stays_with_sender(std::uint64_t bytes) const;
  // Of the link between two ranks.
  const topology::Rates& between(std::size_t from, std::size_t to) const;

 private:
  struct Work;

  const Program& program(std::size_t rank) const { return programs_[rank].program; }
  std::size_t resolve(std::size_t rank, const Index& index) const {
    return static_cast<std::size_t>(index.resolve(static_cast<int>(rank), program(rank).ranks));
  }
  bool is_stream(std::size_t rank, const Operand& operand, std::uint64_t bytes) const;
  void add_source(std::size_t rank, const Operand& source, Work& work) const;
  void add_destination(std::size_t rank, const Operand& destination, Work& work) const;
  bool outgrows_caches() const;
  void see_crowds();

  std::span<const Lowered> programs_;
  const Offers& offers_;
  const Layout& layout_;
  const topology::Rates& inside_;  // of memory, cores and links inside hosts
  const topology::Rates& across_;  // of links between hosts
  double far_;
  std::vector<double> crowds_;  // by host: how many times as much a byte costs as on a host with nothing else to do
};

}  // namespace tutti::schedule
