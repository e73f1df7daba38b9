// The verifier: proves of the lowered programs of all ranks, for every timing,
//   - every output holds the right contributions, each exactly once, at the right place;
//   - every message sent is received, in matching sizes;
//   - no deadlock with the credits given: with no wildcards, first-in-first-out matching and fixed lane order a program
//     is confluent, so one maximal run decides it;
//   - no race: conflicting accesses are ordered by waits, messages and credits (vector clocks), peers touch a rank's
//     buffers only between its entry and its return, and in-place calls (verbs.h) are as safe as others; a message that
//     is copied once is read where its sender has it, when it is sent or received, whichever is worse;
//   - intact: a rank writes its output only after it has heard from every rank that ever sends to it, so that whoever
//     meets a message of another call still has its buffers; a program that hears first waits for that by itself.
//     Where peers reach into each other's buffers through windows, the engine has compared all calls on entry, and
//     nothing is asked here;
//   - a barrier: no rank leaves before every rank has entered;
//   - which reduction order every element gets, and how many bytes each edge carries.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/layout.h"
#include "schedule/lower.h"

namespace tutti::schedule {

struct VerifyOptions {
  // Elements of the vector, or of each chunk; of no meaning for a barrier. The layout is made with the segment bound of
  // the programs or `segments`.
  std::uint64_t count = 0;
  std::uint32_t element_bytes = 4;
  std::uint32_t segments = 1;  // how many segments to cut it into
  std::uint32_t credits = 0;   // of every edge; 0 = as it offers
  bool in_place = false;
};

struct Problem {
  // X-macro free on purpose: few, and each has its own words.
  enum class Kind : std::uint8_t { malformed, wrong_result, unmatched, deadlock, race, early_output };
  Kind kind;
  std::string message;             // what is wrong: which rank's output lacks what, or which step is ill-formed
  std::vector<std::string> story;  // how it comes to that, from there back to the first cause; a few lines, or none
};

// For people: "wrong result".
std::string_view name_of(Problem::Kind kind);
// The message, and the story below it, a line each.
std::string text_of(const Problem& problem);

struct VerifyReport {
  std::vector<Problem> problems;
  bool canonical =
      true;  // all reductions in canonical order (true where there are none, false where results are unknown)
  std::map<std::pair<int, int>, std::uint64_t> edge_bytes;  // (from, to) -> bytes through slots and windows
  bool ok() const { return problems.empty(); }
};

VerifyReport verify(std::span<const Lowered> programs, const VerifyOptions& options);

// As calls are made: in one segment and in three, with a short last block. The first report with a problem, or the
// last.
VerifyReport verify_calls(std::span<const Lowered> programs, bool in_place);

}  // namespace tutti::schedule
