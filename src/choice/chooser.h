// The choice of algorithm, from facts that every rank shares: the group, what the transport offers, and one table of
// costs that was agreed on when the communicator was made. What each size costs by each candidate is worked out when a
// verb is first called.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/offers.h"
#include "choice/given.h"
#include "choice/size_table.h"
#include "schedule/algorithms/table.h"
#include "topology/rates.h"

namespace tutti::choice {

// What the choice depends on: the same on all ranks that make the same call.
struct Question {
  Verb verb = Verb::all_reduce;
  std::uint64_t bytes = 0;  // of the vector, or of all chunks together
  bool uneven = false;
  bool keep_order = false;                     // operands keep the order of the ranks
  bool symmetric_memory_exists = false;        // the group has made some
  const schedule::Algorithm* asked = nullptr;  // the algorithm to run, where it is not to be chosen
  bool across = false;                         // a message to a rank of another host
  int root = 0;
};

// One row of the choice, for people: calls of `verb` up to `bytes` run `algorithm`.
struct Choice {
  Verb verb;
  bool across = false;  // messages between hosts
  std::uint64_t bytes;  // kAnyBytes = any number
  std::string_view algorithm;
  std::string_view why;
  // What a call of a size in the middle is predicted to take, and by the quickest of the others; 0 and empty where
  // nothing was compared.
  std::uint64_t at_bytes = 0;
  double seconds = 0;
  std::string_view next = {};
  double next_seconds = 0;

  // "all_reduce up to 384 bytes: recursive_doubling (fewest rounds; 64 bytes in 1.2 us, by one_shot 1.4 us)"
  std::string words() const;
};

// nullptr where there is none of that name; and the words for that, with the nearest name.
const Verb* find_verb(std::string_view name);
std::string no_verb(std::string_view name);

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
  // the system's copies hide it, whatever the transport of this group. `tables`: of groups with the same costs.
  void set_costs(const AgreedCosts& costs, std::shared_ptr<SizeTables> tables = std::make_shared<SizeTables>());

  // Calls that the schedule is for run it. Before the first call; all ranks alike. It outlives this one.
  void give(const Given& given);

  // nullptr: it depends on whether all ranks' buffers are symmetric, which entering the call will tell.
  const schedule::Algorithm* choose(const Question& call) const {
    if (call.asked != nullptr) return call.asked->user_windows ? nullptr : call.asked;
    const PerVerb& verb = of(call);
    if (verb.given != nullptr && is_for(*verb.given, call)) return &verb.given->row;
    if (call.symmetric_memory_exists && !call.uneven && verb.direct != nullptr && call.bytes > verb.sizes.enter_bytes)
      return nullptr;
    return choose_ordinary(call);
  }
  // Once all ranks have entered.
  const schedule::Algorithm* choose_entered(const Question& call, bool all_symmetric) const {
    if (!all_symmetric) return choose_ordinary(call);
    return call.asked != nullptr ? call.asked : of(call).direct;
  }
  // Of calls on the memory of one device that one rank could launch for all: whether to stage them all the same,
  // because that is predicted to be quicker. Never where nobody has measured the device.
  bool is_staged(Verb verb, std::uint64_t bytes) const {
    return device_rates().launches() && of(verb).sizes.is_staged(bytes);
  }
  // Whether the verb has an algorithm that works in the callers' own buffers. Some cannot in place: peers would load
  // what is being overwritten.
  bool may_enter(Verb verb, bool in_place) const {
    const schedule::Algorithm* const direct = verbs_[static_cast<std::size_t>(verb)].direct;
    return direct != nullptr && (direct->in_place || !in_place);
  }
  // What runs for which sizes, and why. Prices anew, which takes longer than most calls.
  std::vector<Choice> choices_of(Verb verb, bool across = false) const;
  // To be told when a verb has been priced, on the first call of it. Before the first call.
  void on_priced(std::function<void(Verb verb, bool across)> told) { told_ = std::move(told); }
  // What may be chosen for the verb, with ordinary and with symmetric buffers.
  std::vector<const schedule::Algorithm*> candidates_of(Verb verb) const {
    const PerVerb& found = verbs_[static_cast<std::size_t>(verb)];
    Rows rows = found.rows;
    if (found.direct != nullptr) rows.push_back(found.direct);
    return rows;
  }
  const Offers& offers() const { return group_.offers; }
  // What calls of the group on device memory take besides; unknown where nobody has measured them.
  const topology::DeviceRates& device_rates() const { return group_.prices.device; }
  // Calls that touch more have outgrown the caches.
  std::uint64_t cache_bytes() const { return cache_bytes_; }

  // Seconds that a call by this algorithm is expected to take. Works them out anew, which takes longer than most calls.
  double price_of(const schedule::Algorithm& row, std::uint64_t bytes) const;
  // More of it in place, where the algorithm needs its input as it was: a copy of so many bytes.
  double price_of_copy(std::uint64_t bytes) const;
  // The same of a message to a rank of this host or of another, of one to oneself, which is a copy, and of one each way
  // at once.
  double price_of_message(const schedule::Algorithm& row, std::uint64_t bytes, bool across) const;
  double price_of_message_to_self(const schedule::Algorithm& row, std::uint64_t bytes) const;
  double price_of_exchange(const schedule::Algorithm& row, std::uint64_t bytes, bool across) const;

  // Differs between ranks whose options would lead them to different programs.
  std::uint64_t options_hash() const { return options_hash_; }

 private:
  using Rows = std::vector<const schedule::Algorithm*>;
  // What joins the ranks of a call.
  struct Links {
    Offers offers;
    Prices prices;
  };
  // What a verb may run, and what it will run once prices are known.
  struct PerVerb {
    Verb verb = Verb::all_reduce;
    const Links* links = nullptr;
    Rows rows;
    const schedule::Algorithm* uneven = nullptr;
    const schedule::Algorithm* ordered_uneven = nullptr;
    const schedule::Algorithm* direct = nullptr;   // where all buffers are symmetric; nullptr where that is not asked
    const schedule::Algorithm* ordered = nullptr;  // for operators that are not commutative
    bool by_name = false;                          // the caller has chosen
    const Given* given = nullptr;                  // the caller has brought it
    // Written once, under the mutex, before `priced`.
    std::atomic<bool> priced{false};
    SizeTable sizes;
  };

  bool is_for(const Given& given, const Question& call) const {
    const bool root_fits = !schedule::facts_of(call.verb).rooted || call.root == given.root;
    return !call.uneven && root_fits && (!call.keep_order || schedule::keeps_order(given.row, hosts()));
  }
  const PerVerb& of(Verb verb) const { return priced(verbs_[static_cast<std::size_t>(verb)]); }
  const PerVerb& of(const Question& call) const { return call.across ? priced(messages_across_) : of(call.verb); }
  const PerVerb& priced(PerVerb& found) const {
    if (!found.priced.load(std::memory_order_acquire)) price(found);
    return found;
  }
  void price(PerVerb& verb) const;
  Choice choice_of(const PerVerb& verb, const SizeRow& row, std::uint64_t above) const;
  void add_candidates(PerVerb& verb, Verb of, const Links& links, bool deterministic);
  void force(PerVerb& verb, const schedule::Algorithm& row);

  const schedule::Algorithm* choose_ordinary(const Question& call) const {
    const PerVerb& verb = of(call);
    const auto unfit = [&](const schedule::Algorithm& row) {
      return call.keep_order && !schedule::keeps_order(row, hosts());
    };
    if (call.uneven) return unfit(*verb.uneven) ? verb.ordered_uneven : verb.uneven;
    for (const SizeRow& row : verb.sizes.rows) {
      if (call.bytes <= row.bytes) return unfit(*row.algorithm) ? verb.ordered : row.algorithm;
    }
    return verb.ordered;
  }
  const Hosts& hosts() const { return group_.offers.hosts; }

  int ranks_;
  bool ranks_will_do_;                    // for the canonical order: see is_canonical
  Links group_, neighbours_, strangers_;  // of all ranks, of two of one host, of two of different hosts
  std::shared_ptr<SizeTables> tables_ = std::make_shared<SizeTables>();
  std::uint64_t cache_bytes_ = kAnyBytes;
  std::uint64_t options_hash_ = 0;
  std::function<void(Verb, bool)> told_;
  mutable std::mutex mutex_;                   // held while a verb is priced
  mutable std::array<PerVerb, kVerbs> verbs_;  // messages are those inside a host
  mutable PerVerb messages_across_;
};

}  // namespace tutti::choice
