#include "strategy/timeline.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/formatted.h"

namespace tutti::strategy {
std::vector<train::BucketTimes> play_buckets(std::span<const PricedBucket> buckets, double computed_us) {
  std::vector<train::BucketTimes> timeline;
  double free_us = 0;
  for (const PricedBucket& bucket : buckets) {
    const double start = std::max(bucket.ready_us, free_us);
    free_us = start + bucket.takes_us;
    timeline.push_back(
        {bucket.bytes, bucket.parameters, bucket.ready_us, start, free_us, exposed_us(start, free_us, computed_us)});
  }
  return timeline;
}

double exposed_us(double start_us, double end_us, double computed_us) {
  return std::max(0.0, end_us - std::max(start_us, computed_us));
}

double overlap_us(SpanUs one, SpanUs other) {
  return std::max(0.0, std::min(one.end_us, other.end_us) - std::max(one.begin_us, other.begin_us));
}

double busy_us(std::vector<SpanUs> spans) {
  std::ranges::sort(spans, {}, &SpanUs::begin_us);
  double busy = 0, until = 0;
  for (const auto& [begin, end] : spans) {
    busy += std::max(0.0, end - std::max(begin, until));
    until = std::max(until, end);
  }
  return busy;
}

double busy_us(std::span<const train::BucketTimes> timeline) {
  std::vector<SpanUs> spans;
  for (const train::BucketTimes& bucket : timeline) spans.push_back({bucket.start_us, bucket.end_us});
  return busy_us(std::move(spans));
}

std::string bytes_in_words(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return formatted("%.1f %s", value, kUnits[unit]);
}

std::string table_of(std::span<const train::BucketTimes> timeline) {
  std::string table = "  bucket  parameters       bytes   ready ms   start ms     end ms  exposed ms\n";
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const train::BucketTimes& bucket = timeline[i];
    table += formatted("  %6zu  %10zu  %10s  %9.3f  %9.3f  %9.3f  %10.3f\n", i,
                       static_cast<std::size_t>(bucket.parameters), bytes_in_words(bucket.bytes).c_str(),
                       bucket.ready_us / 1e3, bucket.start_us / 1e3, bucket.end_us / 1e3, bucket.exposed_us / 1e3);
  }
  return table;
}

// A row per bucket: a thin line from ready to start, a bar from start to end, darker where nothing hides it.
std::string svg_of(std::span<const train::BucketTimes> timeline, double computed_us) {
  constexpr double kLeft = 90, kWidth = 640, kRow = 22, kTop = 34;
  double last = computed_us;
  for (const train::BucketTimes& bucket : timeline) last = std::max(last, bucket.end_us);
  const auto x = [&](double us) { return kLeft + (last > 0 ? us / last : 0) * kWidth; };
  const double height = kTop + kRow * static_cast<double>(timeline.size());
  std::string svg = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
      kLeft + kWidth + 20, height + 30);
  const auto bar = [&](double from_us, double to_us, double y, const char* fill, const std::string& note) {
    svg +=
        formatted("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>%s</title></rect>\n",
                  x(from_us), y, std::max(0.5, x(to_us) - x(from_us)), kRow - 8, fill, note.c_str());
  };
  svg += formatted("<text x=\"%.1f\" y=\"16\">computing until %.3f ms; all buckets until %.3f ms</text>\n", kLeft,
                   computed_us / 1e3, last / 1e3);
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const train::BucketTimes& bucket = timeline[i];
    const double y = kTop + kRow * static_cast<double>(i), middle = y + (kRow - 8) / 2;
    const std::string note = formatted("bucket %zu, %s: ready %.3f, start %.3f, end %.3f, exposed %.3f ms", i,
                                       bytes_in_words(bucket.bytes).c_str(), bucket.ready_us / 1e3,
                                       bucket.start_us / 1e3, bucket.end_us / 1e3, bucket.exposed_us / 1e3);
    svg += formatted("<text x=\"10\" y=\"%.1f\">bucket %zu</text>\n", middle + 4, i);
    svg += formatted("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#888888\"/>\n", x(bucket.ready_us),
                     middle, x(bucket.start_us), middle);
    const double hidden_until = bucket.end_us - bucket.exposed_us;
    if (hidden_until > bucket.start_us) bar(bucket.start_us, hidden_until, y, "#9ecae1", note);
    if (bucket.exposed_us > 0) bar(hidden_until, bucket.end_us, y, "#d95f02", note);
  }
  svg +=
      formatted("<line x1=\"%.1f\" y1=\"24\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#222222\" stroke-dasharray=\"4 3\"/>\n",
                x(computed_us), x(computed_us), height);
  return svg + "</svg>\n";
}

}  // namespace tutti::strategy
