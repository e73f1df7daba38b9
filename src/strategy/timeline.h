// When the buckets of a step were ready, started and ended: measured by a strategy or played from prices, and told as a
// table or a picture. Knows no clock.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tutti/train/report.h"

namespace tutti::strategy {

struct PricedBucket {
  std::uint64_t bytes = 0, parameters = 0;
  double ready_us = 0, takes_us = 0;
};

// One after the other: a bucket starts when it is ready and the one before it has ended. What ends behind
// `computed_us`, when backward is done, is exposed.
std::vector<train::BucketTimes> play_buckets(std::span<const PricedBucket> buckets, double computed_us);

struct SpanUs {
  double begin_us = 0, end_us = 0;
};

// What of start .. end lies behind `computed_us`.
double exposed_us(double start_us, double end_us, double computed_us);
double overlap_us(SpanUs one, SpanUs other);
// How long at least one of them was under way.
double busy_us(std::vector<SpanUs> spans);
double busy_us(std::span<const train::BucketTimes> timeline);

std::string table_of(std::span<const train::BucketTimes> timeline);
std::string svg_of(std::span<const train::BucketTimes> timeline, double computed_us);

// 1.5 MB, 12.3 KB, 7 B.
std::string bytes_in_words(std::uint64_t bytes);

}  // namespace tutti::strategy
