#include "engine/choose.h"

#include <algorithm>

namespace tutti::engine {
namespace {

// In an exchange each rank stores and loads p - 1 vectors, in all p * (p - 1); worth it while that is cheaper than a
// second synchronisation. Measured with 2, 4 and 8 processes on 2 cores: 32 KB, 8 KB and 2 KB.
constexpr std::uint64_t exchange_limit(std::uint64_t ranks) {
  return std::max<std::uint64_t>(64, (128 << 10) / (ranks * ranks));
}

// Below this one message is quicker than two synchronisations, even without copies.
constexpr std::uint64_t kEnterBytes = 512;

}  // namespace

Chooser::Chooser(int ranks, std::string_view forced)
    : exchange_bytes_(ranks == 1 ? ~std::uint64_t{0} : exchange_limit(static_cast<std::uint64_t>(ranks))),
      enter_bytes_(ranks == 1 ? ~std::uint64_t{0} : kEnterBytes),
      exchange_(schedule::find_algorithm(Verb::all_reduce, "exchange")),
      staged_(schedule::find_algorithm(Verb::all_reduce, "staged")),
      direct_(schedule::find_algorithm(Verb::all_reduce, "direct")),
      broadcast_(schedule::find_algorithm(Verb::broadcast, "binomial")),
      message_(schedule::find_algorithm(Verb::send_recv, "message")) {
  const schedule::Algorithm* row = schedule::find_algorithm(Verb::all_reduce, forced);
  forced_ = row != nullptr;
  options_hash_ = forced_ ? static_cast<std::uint64_t>(row - schedule::algorithms().data()) + 1 : 0;
  forced_all_reduce_ = row == direct_ ? nullptr : row;
}

}  // namespace tutti::engine
