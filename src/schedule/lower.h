// Lowering: program x what a transport offers -> the program that runs.
//
// Pure. The lowered program is the one that is verified, priced, run and drawn: a transport adds no copy of its own.
// What lowering does:
//   - refuses windows and waits that an edge does not offer (the caller then chooses another algorithm);
//   - where an edge is a byte stream, so that its messages cannot be operands of a reduction, lets them land in own
//     memory first, and lets a reduction's result reach own memory before it is sent; edges of other kinds in the same
//     step stay as they are;
//   - bounds the segment, so that every message fits every slot, and scratch with what lands there fits its arena.
#pragma once

#include <cstdint>
#include <string>

#include "base/offers.h"
#include "schedule/program.h"

namespace tutti::schedule {

struct Lowered {
  Program program;
  Offers offers;
  // Bound on the bytes of a segment that the call's layout must respect; 0 = none.
  std::uint64_t segment_bytes = 0;

  bool operator==(const Lowered&) const = default;
};

// Why `program` cannot be lowered to `offers`, or empty.
std::string why_not(const Program& program, const Offers& offers);

// Throws Error(unsupported) with the words of why_not.
Lowered lower(Program program, const Offers& offers);

}  // namespace tutti::schedule
