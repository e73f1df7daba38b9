// The choice of algorithm, from facts that every rank shares.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/call.h"
#include "schedule/algorithms/table.h"

namespace tutti::engine {

class Chooser {
 public:
  // `forced` names the algorithm to run wherever a verb has one of that name; empty = choose.
  Chooser(int ranks, std::string_view forced);

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

  // Differs between ranks whose options would lead them to different programs.
  std::uint64_t options_hash() const { return options_hash_; }

 private:
  const schedule::Algorithm* choose_ordinary(const Call& call) const {
    return call.bytes() <= exchange_bytes_ ? exchange_ : staged_;
  }

  std::uint64_t options_hash_;
  bool forced_ = false;
  const schedule::Algorithm* forced_all_reduce_ = nullptr;  // nullptr where forced: direct, where the buffers allow it
  std::uint64_t exchange_bytes_;                            // up to here everyone sends everything to everyone
  std::uint64_t enter_bytes_;  // above this it pays to find out whether all buffers are symmetric
  const schedule::Algorithm* exchange_;
  const schedule::Algorithm* staged_;
  const schedule::Algorithm* direct_;
  const schedule::Algorithm* broadcast_;
  const schedule::Algorithm* message_;
};

}  // namespace tutti::engine
