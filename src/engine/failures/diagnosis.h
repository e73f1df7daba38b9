// Why waiting for a call is in vain: a value, so that finding it out costs no text.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/control.h"
#include "engine/execute/operation.h"
#include "schedule/program.h"

namespace tutti::engine {

// How long a call waits before it tells the others what it waits for.
inline constexpr std::chrono::milliseconds kAnnounceAfter{100};

struct Diagnosis {
  enum class Kind : std::uint8_t { none, mismatch, failure, departed, timeout };

  Kind kind = Kind::none;
  Blocked blocked;          // what the call waited for
  std::vector<int> absent;  // kind timeout: ranks that have not made this call, as far as known
  Failure failure;          // kind failure: what happened
  bool uneven = false;      // the call is one in which ranks know only the lengths of what they send and receive
  std::chrono::milliseconds timeout{0};  // kind timeout: the call's own
  std::uint64_t sequence = 0;            // of what this rank states about a collective

  static Diagnosis of(const Failure& failure) { return {Kind::failure, {}, {}, failure}; }

  bool any() const { return kind != Kind::none; }
  ErrorCode code() const;
  // The rank to blame, seen from `rank`; -1 where there is none.
  int culprit(int rank) const;
};

// What became of a rank that was lost, to follow its name; `silence` is how long is too long.
std::string words_of(Loss loss, std::chrono::milliseconds silence);
// What the call waited for, in words; `program` may be nullptr.
std::string words_of(const Blocked& blocked, const schedule::Program* program);

}  // namespace tutti::engine
