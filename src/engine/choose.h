// The choice of algorithm, from facts that every rank shares.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/offers.h"
#include "engine/call.h"
#include "engine/candidates.h"
#include "schedule/algorithms/table.h"

namespace tutti::engine {

// One row of the choice, for people: calls of `verb` up to `bytes` run `algorithm`.
struct Choice {
  Verb verb;
  std::uint64_t bytes;  // kAnyBytes = any number
  std::string_view algorithm;
  std::string_view why;
};

// What the caller wants to run, by verb; nullptr = choose. `text` names an algorithm, for every verb that has one of
// that name, or is a list like "all_reduce=ring,all_gather=bruck". Throws Error for names nobody knows, and for
// algorithms that `deterministic` forbids.
using Forced = std::array<const schedule::Algorithm*, kVerbs>;
Forced forced_algorithms(const std::string& text, bool deterministic);

class Chooser {
 public:
  // Throws Error where no verb can run what is forced with what the transport offers.
  Chooser(int ranks, const Offers& offers, const Forced& forced);

  // nullptr: it depends on whether all ranks' buffers are symmetric, which entering the call will tell.
  const schedule::Algorithm* choose(const Call& call) const {
    const Verbs& verb = verbs_[static_cast<std::size_t>(call.verb)];
    if (call.symmetric_memory_exists && !call.uneven && verb.direct != nullptr && call.moved_bytes > verb.enter_bytes)
      return nullptr;
    return choose_ordinary(call);
  }
  // Once all ranks have entered.
  const schedule::Algorithm* choose_entered(const Call& call, bool all_symmetric) const {
    return all_symmetric ? verbs_[static_cast<std::size_t>(call.verb)].direct : choose_ordinary(call);
  }
  // Whether the verb has an algorithm that works in the callers' own buffers.
  bool may_enter(Verb verb) const { return verbs_[static_cast<std::size_t>(verb)].direct != nullptr; }
  std::vector<Choice> choices() const;

  // The program, an all_reduce of one byte, after which every rank knows that all ranks are in the same call: every
  // result depends on every rank, along messages that were all compared.
  const schedule::Algorithm& check() const { return *check_; }
  kernels::ReduceFunction check_reduce() const { return check_reduce_; }

  // Differs between ranks whose options would lead them to different programs.
  std::uint64_t options_hash() const { return options_hash_; }

 private:
  struct Rung {
    std::uint64_t bytes;  // up to here
    const schedule::Algorithm* row;
    std::string_view why;
  };
  struct Verbs {
    std::vector<Rung> even, uneven;
    const schedule::Algorithm* direct = nullptr;  // where all buffers are symmetric; nullptr where that is not asked
    std::uint64_t enter_bytes = 0;                // above this it pays to find out whether they are
    bool ordered = true;                          // `even` keeps the canonical order
    const schedule::Algorithm* canonical = nullptr;
  };

  const schedule::Algorithm* choose_ordinary(const Call& call) const {
    const Verbs& verb = verbs_[static_cast<std::size_t>(call.verb)];
    if (call.keep_order && !verb.ordered) return verb.canonical;
    for (const Rung& rung : call.uneven ? verb.uneven : verb.even) {
      if (call.moved_bytes <= rung.bytes) return rung.row;
    }
    return nullptr;
  }

  std::uint64_t options_hash_ = 0;
  std::array<Verbs, kVerbs> verbs_;
  const schedule::Algorithm* check_;
  kernels::ReduceFunction check_reduce_;
};

}  // namespace tutti::engine
