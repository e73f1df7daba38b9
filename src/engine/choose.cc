#include "engine/choose.h"

#include "schedule/algorithms/table.h"

namespace tutti::engine {

// Every rank stores and loads (p-1) vectors: worth it while that is cheaper than a second synchronisation.
std::uint64_t exchange_bytes(int ranks) { return ranks <= 2 ? 2048 : ranks <= 8 ? 512 : 256; }

Choice choose(const Call& call, int ranks, std::string_view forced, bool may_be_symmetric) {
  if (call.verb == Verb::broadcast) return {"binomial"};
  if (call.verb == Verb::send_recv) return {"message"};
  if (forced == "direct") return {""};
  if (!forced.empty() && schedule::find_algorithm(call.verb, forced) != nullptr) return {forced};
  if (ranks == 1 || call.bytes() <= exchange_bytes(ranks)) return {"exchange"};
  if (may_be_symmetric) return {""};
  return {"staged"};
}

std::string_view choose_entered(bool all_symmetric) { return all_symmetric ? "direct" : "staged"; }

}  // namespace tutti::engine
