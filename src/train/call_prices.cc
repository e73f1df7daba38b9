#include "train/call_prices.h"

#include <algorithm>

#include "strategy/sentence.h"
#include "train/bucket_exchange.h"

namespace tutti::train {
namespace {

constexpr std::uint64_t kLeastPricedBytes = 4 << 10, kMostPricedBytes = 64 << 20;

}  // namespace

double price_of(const Sentence& sentence, const CallPrice& price) {
  double us = 0;
  for (const Phrase& phrase : sentence)
    us += static_cast<double>(phrase.times) * price(phrase.verb, phrase.bytes) / static_cast<double>(phrase.every);
  return us;
}

Sentence sentence_of_buckets(const strategy::BucketLayout& layout, const Parameters& parameters,
                             const ExchangeRule& rule) {
  strategy::StepShape shape{.stage = rule.stage, .ranks = rule.ranks};
  shape.compresses_yet = true;
  const bool signs = std::holds_alternative<OneBitAdam>(rule.compression);
  for (const strategy::Bucket& bucket : layout.buckets) {
    const BucketExchangeShape exchanged{.type = signs ? DType::float32 : bucket.type,
                                        .filled = bucket.filled,
                                        .elements = bucket.elements,
                                        .ranks = rule.ranks,
                                        .cut = rule.stage > 0,
                                        .matrices = matrices_of(layout, bucket, parameters)};
    shape.compressed.push_back(bucket.compressed ? calls_of(rule.compression, rule.error_feedback, exchanged)
                                                 : std::nullopt);
  }
  // For forward and for backward; how many of them stay in between depends on the order of use.
  if (rule.stage == 3) shape.gathers.assign(layout.buckets.size(), 2);
  return strategy::sentence_of(layout, shape);
}

double price_of_bucket(std::size_t bytes, DType type, bool compressed, const ExchangeRule& rule,
                       const CallPrice& price) {
  constexpr std::size_t kRow = 1024;
  const std::size_t rows = (bytes / size_of(type) + kRow - 1) / kRow, elements = rows * kRow;
  const strategy::TensorSize size{elements, type, compressed};
  const Parameters matrix{{.name = "", .type = type, .shape = {static_cast<std::int64_t>(rows), kRow}}};
  const std::size_t order[] = {0};
  const strategy::BucketLayout layout =
      strategy::lay_out(std::span(&size, 1), order, {.first_bytes = bytes, .cap_bytes = bytes, .ranks = rule.ranks});
  return price_of(sentence_of_buckets(layout, matrix, rule), price);
}

PricedCalls::PricedCalls(Communicator& communicator, std::uint64_t most_bytes)
    : communicator_(communicator),
      // Chunks for all ranks, however small the model is.
      most_bytes_(std::clamp(most_bytes, kLeastPricedBytes, kMostPricedBytes) +
                  sizeof(float) * static_cast<std::uint64_t>(communicator.size())),
      symmetric_(communicator.allocate_bytes(most_bytes_)),
      input_(std::make_unique_for_overwrite<std::byte[]>(most_bytes_)),
      output_(std::make_unique_for_overwrite<std::byte[]>(most_bytes_)) {}

Request PricedCalls::request(Verb verb, std::uint64_t bytes) const {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const bool reduces = verb == Verb::all_reduce || verb == Verb::reduce_scatter;
  const std::size_t element = reduces ? sizeof(float) : 1;
  const std::size_t chunk = std::max<std::size_t>(1, std::min(bytes, most_bytes_) / element / ranks);
  Request request{.verb = verb,
                  .input = reduces ? symmetric_.get() : input_.get(),
                  .output = reduces ? symmetric_.get() : output_.get(),
                  .input_count = chunk * ranks,
                  .output_count = chunk * ranks,
                  .element = reduces ? DType::float32 : DType::uint8};
  if (verb == Verb::all_gather) request.input_count = chunk;
  if (verb == Verb::reduce_scatter) {
    request.output_count = chunk;
    request.output =
        static_cast<std::byte*>(symmetric_.get()) + static_cast<std::size_t>(communicator_.rank()) * chunk * element;
  }
  return request;
}

double PricedCalls::predicted_us(Verb verb, std::uint64_t bytes) const {
  const double longer = bytes > most_bytes_ ? static_cast<double>(bytes) / static_cast<double>(most_bytes_) : 1.0;
  return longer * communicator_.predicted_us(request(verb, bytes));
}

void PricedCalls::run(Verb verb, std::uint64_t bytes) { communicator_.run(request(verb, bytes)); }

}  // namespace tutti::train
