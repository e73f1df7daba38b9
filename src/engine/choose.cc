#include "engine/choose.h"

#include <algorithm>

namespace tutti::engine {
namespace {

constexpr std::uint64_t kAny = ~std::uint64_t{0};

// In an exchange each rank stores and loads p - 1 vectors, in all p * (p - 1); worth it while that is cheaper than a
// second synchronisation. Measured with 2, 4 and 8 processes on 2 cores: 32 KB, 8 KB and 2 KB.
constexpr std::uint64_t exchange_limit(std::uint64_t ranks) {
  return std::max<std::uint64_t>(64, (128 << 10) / (ranks * ranks));
}

// Over streams every message is a system call at both ends: with this many ranks rounds are cheaper, however small.
constexpr int kMostExchanging = 64;

// Over messages the alternatives are lg p rounds of whole vectors, and 2 lg p rounds that move each byte twice.
constexpr std::uint64_t kDoublingBytes = 32 << 10;

// Below this one message is quicker than two synchronisations, even without copies.
constexpr std::uint64_t kEnterBytes = 512;

}  // namespace

Chooser::Chooser(int ranks, const Offers& offers, std::string_view forced)
    : windows_(offers.windows_to_scratch),
      exchange_bytes_(ranks == 1                             ? kAny
                      : !windows_ && ranks > kMostExchanging ? 0
                                                             : exchange_limit(static_cast<std::uint64_t>(ranks))),
      medium_bytes_(windows_ ? 0 : kDoublingBytes),
      enter_bytes_(ranks == 1 ? kAny : kEnterBytes),
      exchange_(schedule::find_algorithm(Verb::all_reduce, "exchange")),
      medium_(schedule::find_algorithm(Verb::all_reduce, "recursive_doubling")),
      large_(schedule::find_algorithm(Verb::all_reduce, windows_ ? "staged" : "recursive_halving")),
      direct_(schedule::find_algorithm(Verb::all_reduce, "direct")),
      broadcast_(schedule::find_algorithm(Verb::broadcast, "binomial")),
      message_(schedule::find_algorithm(Verb::send_recv, "message")),
      check_(medium_),
      check_reduce_(kernels::find_reduce(DType::uint8, ReduceOp::bor)) {
  const schedule::Algorithm* row = schedule::find_algorithm(Verb::all_reduce, forced);
  forced_ = row != nullptr;
  options_hash_ = forced_ ? static_cast<std::uint64_t>(row - schedule::algorithms().data()) + 1 : 0;
  forced_all_reduce_ = row == direct_ ? nullptr : row;
}

std::vector<Choice> Chooser::choices() const {
  std::vector<Choice> rows;
  if (forced_) {
    rows.push_back(
        {Verb::all_reduce, kAny, forced_all_reduce_ ? forced_all_reduce_->name : direct_->name, "asked for by name"});
  } else {
    if (exchange_bytes_ != 0)
      rows.push_back({Verb::all_reduce, exchange_bytes_, exchange_->name, "one message deep, and the vector is small"});
    if (medium_bytes_ > exchange_bytes_) {
      rows.push_back({Verb::all_reduce, medium_bytes_, medium_->name, "fewest rounds, in canonical order"});
    }
    if (exchange_bytes_ != kAny) {
      rows.push_back({Verb::all_reduce, kAny, large_->name,
                      windows_
                          ? "each rank reduces its chunk out of shared memory; 'direct' where all buffers are symmetric"
                          : "moves each byte twice, the least there is, in canonical order"});
    }
  }
  rows.push_back({Verb::broadcast, kAny, broadcast_->name, "lg p rounds"});
  return rows;
}

}  // namespace tutti::engine
