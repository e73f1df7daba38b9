// The choice of algorithm, from facts that every rank shares: the group, what the transport offers, and one table of
// costs that was agreed on when the communicator was made. What each size costs by each candidate is worked out when a
// verb is first called.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/offers.h"
#include "engine/call.h"
#include "engine/candidates.h"
#include "engine/ladder.h"
#include "schedule/algorithms/table.h"
#include "topology/rates.h"

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
  Chooser(int ranks, const Offers& offers, const Forced& forced, bool deterministic);

  // Before the first call; all ranks alike. Where the caches end shows between ranks that share memory: over streams
  // the system's copies hide it, whatever the transport of this group.
  void set_costs(const AgreedCosts& costs);

  // nullptr: it depends on whether all ranks' buffers are symmetric, which entering the call will tell.
  const schedule::Algorithm* choose(const Call& call) const {
    if (call.row != nullptr) return call.row->user_windows ? nullptr : call.row;
    const Ladders& verb = ladders_of(call.verb);
    if (call.symmetric_memory_exists && !call.uneven && verb.direct != nullptr &&
        call.moved_bytes > verb.ladder.enter_bytes)
      return nullptr;
    return choose_ordinary(call);
  }
  // Once all ranks have entered.
  const schedule::Algorithm* choose_entered(const Call& call, bool all_symmetric) const {
    if (!all_symmetric) return choose_ordinary(call);
    return call.row != nullptr ? call.row : ladders_of(call.verb).direct;
  }
  // Whether the verb has an algorithm that works in the callers' own buffers. Some cannot in place: peers would load
  // what is being overwritten.
  bool may_enter(Verb verb, bool in_place) const {
    const schedule::Algorithm* const direct = verbs_[static_cast<std::size_t>(verb)].direct;
    return direct != nullptr && (direct->in_place || !in_place);
  }
  std::vector<Choice> choices() const;
  // What may be chosen for the verb, with ordinary and with symmetric buffers.
  std::vector<const schedule::Algorithm*> candidates_of(Verb verb) const {
    const Ladders& ladders = verbs_[static_cast<std::size_t>(verb)];
    Rows rows = ladders.rows;
    if (ladders.direct != nullptr) rows.push_back(ladders.direct);
    return rows;
  }
  const Offers& offers() const { return offers_; }
  // Calls that touch more have outgrown the caches.
  std::uint64_t cache_bytes() const { return cache_bytes_; }

  // Seconds that a call by this algorithm is expected to take. Works them out anew, which takes longer than most calls.
  double price_of(const schedule::Algorithm& row, std::uint64_t bytes) const;
  // The same of a message between two ranks (or one, which then copies), and of one each way at once.
  double price_of_message(const schedule::Algorithm& row, std::uint64_t bytes, int ranks) const;
  double price_of_exchange(const schedule::Algorithm& row, std::uint64_t bytes) const;

  // The program, an all_reduce of one byte, after which every rank knows that all ranks are in the same call: every
  // result depends on every rank, along messages that were all compared.
  const schedule::Algorithm& check() const { return *check_; }
  kernels::ReduceFunction check_reduce() const { return check_reduce_; }

  // Differs between ranks whose options would lead them to different programs.
  std::uint64_t options_hash() const { return options_hash_; }

 private:
  using Rows = std::vector<const schedule::Algorithm*>;
  // What a verb may run, and what it will run once prices are known.
  struct Ladders {
    Rows rows;
    const schedule::Algorithm* uneven = nullptr;
    const schedule::Algorithm* canonical_uneven = nullptr;
    const schedule::Algorithm* direct = nullptr;     // where all buffers are symmetric; nullptr where that is not asked
    const schedule::Algorithm* canonical = nullptr;  // for operators that are not commutative
    bool by_name = false;                            // the caller has chosen
    // Written once, under the mutex, before `priced`.
    std::atomic<bool> priced{false};
    Ladder ladder;
  };

  const Ladders& ladders_of(Verb verb) const {
    Ladders& ladders = verbs_[static_cast<std::size_t>(verb)];
    if (!ladders.priced.load(std::memory_order_acquire)) price(ladders);
    return ladders;
  }
  void price(Ladders& ladders) const;
  void force(Ladders& ladders, const schedule::Algorithm& row);

  const schedule::Algorithm* choose_ordinary(const Call& call) const {
    const Ladders& verb = ladders_of(call.verb);
    if (call.uneven) return call.keep_order && !verb.uneven->canonical ? verb.canonical_uneven : verb.uneven;
    for (const Rung& rung : verb.ladder.rungs) {
      if (call.moved_bytes <= rung.bytes) return call.keep_order && !rung.row->canonical ? verb.canonical : rung.row;
    }
    return verb.canonical;
  }

  int ranks_;
  Offers offers_;
  Prices prices_;
  std::uint64_t cache_bytes_ = kAnyBytes;
  std::uint64_t options_hash_ = 0;
  mutable std::mutex mutex_;  // held while a verb is priced
  mutable std::array<Ladders, kVerbs> verbs_;
  const schedule::Algorithm* check_;
  kernels::ReduceFunction check_reduce_;
};

}  // namespace tutti::engine
