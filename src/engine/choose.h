// The choice of algorithm, from facts that every rank shares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/offers.h"
#include "engine/call.h"
#include "schedule/algorithms/table.h"

namespace tutti::engine {

// One row of the choice, for people: calls of `verb` up to `bytes` run `algorithm`.
struct Choice {
  Verb verb;
  std::uint64_t bytes;  // ~0 = any number
  std::string_view algorithm;
  std::string_view why;
};

class Chooser {
 public:
  // `forced` names the algorithm to run wherever a verb has one of that name; empty = choose.
  Chooser(int ranks, const Offers& offers, std::string_view forced);

  // nullptr: it depends on whether all ranks' buffers are symmetric, which entering the call will tell.
  const schedule::Algorithm* choose(const Call& call) const {
    if (call.verb == Verb::broadcast) return broadcast_;
    if (call.verb == Verb::send_recv) return message_;
    if (forced_) return forced_all_reduce_;
    if (call.symmetric_memory_exists && call.bytes() > enter_bytes_) return nullptr;
    return choose_ordinary(call);
  }
  // Once all ranks have entered.
  const schedule::Algorithm* choose_entered(const Call& call, bool all_symmetric) const {
    return all_symmetric ? direct_ : choose_ordinary(call);
  }
  std::vector<Choice> choices() const;

  // The program, an all_reduce of one byte, after which every rank knows that all ranks are in the same call: every
  // result depends on every rank, along messages that were all compared.
  const schedule::Algorithm& check() const { return *check_; }
  kernels::ReduceFunction check_reduce() const { return check_reduce_; }

  // Differs between ranks whose options would lead them to different programs.
  std::uint64_t options_hash() const { return options_hash_; }

 private:
  const schedule::Algorithm* choose_ordinary(const Call& call) const {
    const std::uint64_t bytes = call.bytes();
    return bytes <= exchange_bytes_ ? exchange_ : bytes <= medium_bytes_ ? medium_ : large_;
  }

  std::uint64_t options_hash_;
  bool windows_;
  bool forced_ = false;
  const schedule::Algorithm* forced_all_reduce_ = nullptr;  // nullptr where forced: direct, where the buffers allow it
  std::uint64_t exchange_bytes_;                            // up to here everyone sends everything to everyone
  std::uint64_t medium_bytes_;
  std::uint64_t enter_bytes_;  // above this it pays to find out whether all buffers are symmetric
  const schedule::Algorithm* exchange_;
  const schedule::Algorithm* medium_;
  const schedule::Algorithm* large_;
  const schedule::Algorithm* direct_;
  const schedule::Algorithm* broadcast_;
  const schedule::Algorithm* message_;
  const schedule::Algorithm* check_;
  kernels::ReduceFunction check_reduce_;
};

}  // namespace tutti::engine
