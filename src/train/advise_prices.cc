// What calls and codes take on these ranks, for advise(): predicted, or measured in a moment.
#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "train/advised_hooks.h"
#include "train/agreement.h"
#include "train/bucket_exchange.h"
#include "train/call_prices.h"
#include "train/words.h"
#include "tutti/train/advise.h"

namespace tutti::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Verb kPricedVerbs[] = {Verb::all_reduce, Verb::reduce_scatter, Verb::all_to_all, Verb::all_gather};
constexpr std::uint64_t kFirstBytes = 4 << 10, kBytesFactor = 4;
constexpr int kRounds = 3;
// A call that takes longer is the last that is measured: what larger ones take follows from it.
constexpr double kLongCallUs = 30'000;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// The median of some rounds, behind one that warms up, of the slowest rank in each: a link may let the first bytes
// after a pause through at once, and training does not pause for long.
double measured_us(Communicator& communicator, const std::function<double()>& round) {
  double rounds[kRounds + 1];
  for (double& took : rounds) {
    communicator.barrier();
    took = round();
    communicator.all_reduce(std::span(&took, 1), ReduceOp::maximum);
  }
  std::sort(rounds + 1, std::end(rounds));
  return rounds[1 + kRounds / 2];
}

VerbPrices prices_of(Communicator& communicator, PricedCalls& calls, Verb verb, bool measures) {
  VerbPrices prices{verb, {}};
  for (std::uint64_t bytes = kFirstBytes;; bytes *= kBytesFactor) {
    const std::uint64_t priced = std::min(bytes, calls.most_bytes());
    double us = 0;
    if (measures) {
      us = measured_us(communicator, [&] {
        const Clock::time_point began = Clock::now();
        calls.run(verb, priced);
        return us_since(began);
      });
    } else if (communicator.rank() == 0) {
      us = calls.predicted_us(verb, priced);
    }
    prices.points.push_back({priced, us});
    if (bytes >= calls.most_bytes() || (measures && us > kLongCallUs)) break;
  }
  for (VerbPrices::Point& point : prices.points) communicator.broadcast(std::span(&point.us, 1), 0);
  return prices;
}

// A whole exchange of one bucket with nobody else: what it computes, by the code that training runs. All ranks at once,
// which may have to share cores.
CodePrice price_of_codes(Communicator& communicator, Communicator& alone, const char* name) {
  constexpr std::size_t kCount = 1 << 20;
  constexpr std::size_t kRows = 1 << 10;
  const BucketExchangeShape shape{.filled = kCount, .elements = kCount, .matrices = {{0, 0, kRows, kCount / kRows}}};
  const std::unique_ptr<BucketExchange> exchange = make_exchange(compression_named(name), true, shape, alone);
  if (!exchange) return {name, 0, 0};
  std::vector<float> values(kCount);
  std::uint32_t random = 1;
  for (float& value : values) {
    random = random * 1664525U + 1013904223U;
    value = static_cast<float>(random >> 8) * 0x1p-24F - 0.5F;
  }
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  CodePrice price{name, 0, 0};
  const double both = measured_us(communicator, [&] {
    const Clock::time_point began = Clock::now();
    exchange->start(alone, bytes, {});
    price.before_us = us_since(began);
    if (exchange->has_second_call()) exchange->publish(alone);
    (void)exchange->finish(bytes);
    return us_since(began);
  });
  // Of the last round, which all ranks hear from rank 0.
  communicator.broadcast(std::span(&price.before_us, 1), 0);
  constexpr double kMillions = kCount / 1e6;
  price.before_us = std::min(price.before_us, both) / kMillions;
  price.after_us = both / kMillions - price.before_us;
  return price;
}

}  // namespace

AdvicePrices measure_prices(Communicator& communicator, std::uint64_t most_bytes, std::optional<bool> measure) {
  Communicator own = communicator.duplicate();
  Communicator alone = own.split(own.rank());
  AdvicePrices prices;
  const bool measures = measure.value_or(!own.tuned());
  prices.how = measures ? "measured now" : own.tuned() ? "`tutti tune` has measured them" : "built in";
  PricedCalls calls(own, most_bytes);
  for (const Verb verb : kPricedVerbs) prices.calls.push_back(prices_of(own, calls, verb, measures));
  for (const AdvisedName& advised : kAdvisedNames) prices.codes.push_back(price_of_codes(own, alone, advised.name));
  return prices;
}

Advice advise(Communicator& communicator, const Parameters& parameters, const AdviseOptions& options) {
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> hashes;
  for (const Parameter& parameter : parameters) {
    bytes += parameter.elements() * sizeof(float);
    hashes.push_back(hash_of_text(in_words(parameter)));
  }
  Sentence said;
  require_alike(
      communicator, hashes, [&](std::size_t i) { return in_words(parameters[i]); }, "advise on the same model", said);
  // The slowest rank computes for as long as a step does.
  AdviseOptions agreed = options;
  double computing_us = options.computing_us.value_or(-1);
  communicator.all_reduce(std::span(&computing_us, 1), ReduceOp::maximum);
  if (computing_us >= 0) agreed.computing_us = computing_us;
  return advise(communicator.size(), parameters, measure_prices(communicator, bytes, options.measure), agreed);
}

}  // namespace tutti::train
