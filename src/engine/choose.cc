#include "engine/choose.h"

namespace tutti::engine {
namespace {

// Bytes up to which everyone sends everything to everyone: each rank stores and loads p - 1 vectors, which is worth it
// while that is cheaper than a second synchronisation.
std::uint64_t exchange_limit(int ranks) { return ranks <= 2 ? 1024 : ranks <= 8 ? 512 : 256; }

}  // namespace

Chooser::Chooser(int ranks, std::string_view forced)
    : exchange_bytes_(ranks == 1 ? ~std::uint64_t{0} : exchange_limit(ranks)),
      exchange_(schedule::find_algorithm(Verb::all_reduce, "exchange")),
      staged_(schedule::find_algorithm(Verb::all_reduce, "staged")),
      direct_(schedule::find_algorithm(Verb::all_reduce, "direct")),
      broadcast_(schedule::find_algorithm(Verb::broadcast, "binomial")),
      message_(schedule::find_algorithm(Verb::send_recv, "message")) {
  const schedule::Algorithm* row = schedule::find_algorithm(Verb::all_reduce, forced);
  forced_ = row != nullptr;
  forced_all_reduce_ = row == direct_ ? nullptr : row;
}

}  // namespace tutti::engine
