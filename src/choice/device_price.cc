#include "choice/device_price.h"

#include "schedule/verbs.h"

namespace tutti::choice {
namespace {

using schedule::Buffer;
using schedule::Holding;

std::uint64_t ranks_with(Buffer buffer, Verb verb, int ranks) {
  constexpr int kRoot = 0;
  if (buffer == Buffer::input && schedule::facts_of(verb).reads_input_at_root_only) return 1;
  std::uint64_t found = 0;
  for (int rank = 0; rank < ranks; ++rank)
    found += schedule::holding_of(verb, buffer, ranks, rank, kRoot) != Holding::nothing ? 1 : 0;
  return found;
}

// What a copy reads and does not write, because it is there already.
std::uint64_t bytes_in_place(Verb verb, int ranks, std::uint64_t chunk_bytes, std::uint64_t whole_bytes) {
  switch (verb) {
    case Verb::broadcast: return whole_bytes;                                       // the root's
    case Verb::all_gather: return static_cast<std::uint64_t>(ranks) * chunk_bytes;  // everybody's own chunk
    case Verb::gather:
    case Verb::scatter: return chunk_bytes;  // the root's
    default: return 0;
  }
}

}  // namespace

std::uint64_t bytes_touched(Verb verb, std::uint64_t chunk_bytes, std::uint64_t whole_bytes, std::uint64_t sources,
                            std::uint64_t destinations) {
  const schedule::VerbFacts& facts = schedule::facts_of(verb);
  const auto share = [&](schedule::Share held) { return held == schedule::Share::own ? chunk_bytes : whole_bytes; };
  return sources * share(facts.input) + destinations * share(facts.output);
}

std::uint64_t bytes_touched(Verb verb, int ranks, std::uint64_t whole_bytes, bool in_place) {
  const std::uint64_t chunk_bytes = whole_bytes / static_cast<std::uint64_t>(ranks);
  const std::uint64_t all = bytes_touched(verb, chunk_bytes, whole_bytes, ranks_with(Buffer::input, verb, ranks),
                                          ranks_with(Buffer::output, verb, ranks));
  return in_place ? all - bytes_in_place(verb, ranks, chunk_bytes, whole_bytes) : all;
}

double price_of_staging(const topology::DeviceRates& rates, const StagedBytes& staged) {
  double seconds = 0;
  if (staged.input != 0) seconds += rates.to_host_s + static_cast<double>(staged.input) / rates.to_host_bytes_per_s;
  if (staged.output != 0)
    seconds += rates.to_device_s + static_cast<double>(staged.output) / rates.to_device_bytes_per_s;
  return seconds;
}

bool is_quicker_staged(const topology::DeviceRates& rates, Verb verb, int ranks, std::uint64_t whole_bytes,
                       double in_host_s) {
  const schedule::VerbFacts& facts = schedule::facts_of(verb);
  const auto share = [&](schedule::Share held) {
    return held == schedule::Share::own ? whole_bytes / static_cast<std::uint64_t>(ranks) : whole_bytes;
  };
  const double staged = in_host_s + price_of_staging(rates, {share(facts.input), share(facts.output)});
  return staged < price_of_launch(rates, bytes_touched(verb, ranks, whole_bytes, false));
}

}  // namespace tutti::choice
