// What the calls of a sentence take: as the library predicts them, or as somebody measured them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "strategy/buckets.h"
#include "tutti/communicator.h"
#include "tutti/train/compression.h"
#include "tutti/train/parameters.h"
#include "tutti/train/report.h"

namespace tutti::train {

// Microseconds of a call that moves so many bytes, as Counters count them.
using CallPrice = std::function<double(Verb verb, std::uint64_t bytes)>;

// One after the other; of what is said in one of so many steps, that share.
double price_of(const Sentence& sentence, const CallPrice& price);

// How gradients are exchanged, whatever the bucket.
struct ExchangeRule {
  Compression compression = {};
  bool error_feedback = true;
  int stage = 0, ranks = 1;
};
// What a step says of these buckets, compressed ones and others, values that ZeRO gathers included.
Sentence sentence_of_buckets(const strategy::BucketLayout& layout, const Parameters& parameters,
                             const ExchangeRule& rule);
// Of one bucket of so many bytes, a matrix.
double price_of_bucket(std::size_t bytes, DType type, bool compressed, const ExchangeRule& rule,
                       const CallPrice& price);

// The four verbs of gradients and values, in memory of the kind that strategies have: symmetric where floats are
// reduced, any for codes. Collective; calls are made by nobody until run().
class PricedCalls {
 public:
  PricedCalls(Communicator& communicator, std::uint64_t most_bytes);

  // As the library predicts it. Larger calls than there is memory for take as much longer.
  double predicted_us(Verb verb, std::uint64_t bytes) const;
  // Collective.
  void run(Verb verb, std::uint64_t bytes);
  std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  Request request(Verb verb, std::uint64_t bytes) const;

  Communicator& communicator_;
  std::uint64_t most_bytes_;
  std::shared_ptr<void> symmetric_;
  std::unique_ptr<std::byte[]> input_, output_;
};

}  // namespace tutti::train
