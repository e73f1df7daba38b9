// What a call is expected to take: the algorithm that would be chosen for it, at the prices it is chosen by.
#include <numeric>

#include "engine/engine.h"
#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

std::uint64_t sum_of(const std::vector<std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

// What the call moves. Of a v-variant not every rank knows all chunks: then as if all were as long as its own.
std::uint64_t bytes_of(const Call& call, const UnevenChunks& chunks, int rank, int ranks) {
  if (!call.uneven) return call.moved_bytes;
  const std::uint64_t known = std::max(sum_of(chunks.input_counts), sum_of(chunks.output_counts)) * call.unit_bytes;
  const bool knows_own_only = schedule::facts_of(call.verb).rooted && rank != call.root;
  return known * static_cast<std::uint64_t>(knows_own_only ? ranks : 1);
}

// Whether this rank's buffers are such that the call may run in them.
bool is_symmetric(const Call& call, int rank) {
  const bool input_scaled_aside = call.scale != nullptr && call.verb != Verb::all_reduce;
  const bool reads_input =
      call.input != nullptr && (rank == call.root || !schedule::facts_of(call.verb).reads_input_at_root_only);
  return (!reads_input || (call.input_ref != 0 && !input_scaled_aside)) &&
         (call.output == nullptr || call.output_ref != 0);
}

}  // namespace

double Engine::predict(const Request& request) const {
  UnevenChunks chunks;
  Call call = call_of(request, view_, chunks);
  const std::uint64_t bytes = bytes_of(call, chunks, rank(), size());
  if (call.is_message()) {
    const bool across = !transport_->offers().hosts.share(rank(), call.peer);
    const schedule::Algorithm& row = *chooser_.choose(call.question(across));
    return call.peer == rank() ? chooser_.price_of_message_to_self(row, bytes)
                               : chooser_.price_of_message(row, bytes, across);
  }
  locate(call);
  const schedule::Algorithm* row = chooser_.choose(call.question());
  if (row == nullptr) row = chooser_.choose_entered(call.question(), is_symmetric(call, rank()));
  double price = chooser_.price_of(*row, bytes);
  if (keeps_input(call, *row)) price += chooser_.price_of_copy(call.input_bytes);
  const bool checked = options_.check == Check::full || (call.scale != nullptr && call.verb == Verb::all_reduce);
  return checked && size() > 1 ? price + chooser_.price_of(Track::check(), 1) : price;
}

double Engine::predict(const Request& sent, const Request& received) const {
  require_exchange(sent, received);
  UnevenChunks chunks;
  const Call out = call_of(sent, view_, chunks), in = call_of(received, view_, chunks);
  const Call& longer = out.moved_bytes < in.moved_bytes ? in : out;
  const bool across = !transport_->offers().hosts.share(rank(), longer.peer);
  const schedule::Algorithm& row = *chooser_.choose(longer.question(across));
  return out.peer == rank() ? chooser_.price_of_message_to_self(row, longer.moved_bytes)
                            : chooser_.price_of_exchange(row, longer.moved_bytes, across);
}

}  // namespace tutti::engine
