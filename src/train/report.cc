#include "tutti/train/report.h"

#include <algorithm>
#include <cstddef>

#include "base/formatted.h"
#include "strategy/timeline.h"

namespace tutti::train {
namespace {

std::string told(const Sentence& sentence) {
  using strategy::bytes_in_words;
  std::string text;
  for (const Phrase& phrase : sentence) {
    text += formatted("  %-14s  %10s  x %-3zu  %-40s  %d ranks\n", std::string(name_of(phrase.verb)).c_str(),
                      bytes_in_words(phrase.bytes).c_str(), static_cast<std::size_t>(phrase.times), phrase.what.c_str(),
                      phrase.ranks);
  }
  return text;
}

// Phrases that differ in nothing but their number or bytes make one, so that a large model's sentence fits a screen.
Sentence gathered(const Sentence& sentence) {
  constexpr std::size_t kMostPhrases = 12;
  if (sentence.size() <= kMostPhrases) return sentence;
  Sentence shorter;
  for (const Phrase& phrase : sentence) {
    const std::string what = phrase.what.substr(0, phrase.what.find(" bucket")) +
                             (phrase.what.find(" bucket") == std::string::npos ? "" : " buckets");
    const auto same = std::ranges::find_if(shorter, [&](const Phrase& other) {
      return other.verb == phrase.verb && other.what == what && other.bytes == phrase.bytes;
    });
    if (same == shorter.end()) {
      shorter.push_back({phrase.verb, what, phrase.bytes, phrase.times, phrase.ranks});
    } else {
      same->times += phrase.times;
    }
  }
  return shorter;
}

std::string json_of(const Sentence& sentence) {
  std::string json = "[";
  for (const Phrase& phrase : sentence) {
    json += formatted("%s{\"verb\": \"%s\", \"what\": \"%s\", \"bytes\": %zu, \"times\": %zu, \"ranks\": %d}",
                      json.size() == 1 ? "" : ", ", std::string(name_of(phrase.verb)).c_str(), phrase.what.c_str(),
                      static_cast<std::size_t>(phrase.bytes), static_cast<std::size_t>(phrase.times), phrase.ranks);
  }
  return json + "]";
}

}  // namespace

std::string to_text(const Report& report) {
  using strategy::bytes_in_words;
  const auto share = [&](double us) { return report.times.total_us > 0 ? 100 * us / report.times.total_us : 0.0; };
  const std::string cap =
      report.bucket_bytes == 0 ? "a bucket for each unit" : "buckets up to " + bytes_in_words(report.bucket_bytes);
  std::string text = formatted("%s, %d ranks, after %lld steps; %s\n", report.strategy.c_str(), report.ranks,
                               static_cast<long long>(report.steps), cap.c_str());
  text += "every step says\n" + told(gathered(report.each_step));
  text += formatted(
      "model states of a rank: %s (values %s, gradients %s, master %s, optimizer %s)\n"
      "  for %zu numbers and %zu that fill up blocks and shards",
      bytes_in_words(report.bytes.total()).c_str(), bytes_in_words(report.bytes.values).c_str(),
      bytes_in_words(report.bytes.gradients).c_str(), bytes_in_words(report.bytes.master).c_str(),
      bytes_in_words(report.bytes.optimizer).c_str(), static_cast<std::size_t>(report.bytes.elements),
      static_cast<std::size_t>(report.bytes.padding));
  if (report.bytes.in_flight > 0)
    text += "; besides, " + bytes_in_words(report.bytes.in_flight) + " for what is on its way";
  text += "\n";
  if (report.steps == 0) return text;
  const StepTimes& times = report.times;
  const double rest = std::max(0.0, times.total_us - times.computing_us - times.waiting_us - times.updating_us);
  text += formatted(
      "last step %.3f ms: computing %.3f (%.0f %%), waiting for others %.3f (%.0f %%), updating %.3f (%.0f %%), "
      "other %.3f\n",
      times.total_us / 1e3, times.computing_us / 1e3, share(times.computing_us), times.waiting_us / 1e3,
      share(times.waiting_us), times.updating_us / 1e3, share(times.updating_us), rest / 1e3);
  text += formatted("communication over computation: %.3f raw, %.3f exposed\n", report.gamma_raw, report.gamma_exposed);
  return text + strategy::table_of(report.timeline);
}

std::string to_json(const Report& report) {
  const auto number = [](std::uint64_t value) { return static_cast<std::size_t>(value); };
  std::string json = formatted("{\"strategy\": \"%s\", \"ranks\": %d, \"steps\": %lld, \"bucket_bytes\": %zu, ",
                               report.strategy.c_str(), report.ranks, static_cast<long long>(report.steps),
                               number(report.bucket_bytes));
  json += "\"once\": " + json_of(report.once) + ", \"each_step\": " + json_of(report.each_step);
  json += formatted(
      ", \"state_bytes\": {\"values\": %zu, \"gradients\": %zu, \"master\": %zu, \"optimizer\": %zu, "
      "\"in_flight\": %zu}, \"elements\": %zu, \"padding\": %zu",
      number(report.bytes.values), number(report.bytes.gradients), number(report.bytes.master),
      number(report.bytes.optimizer), number(report.bytes.in_flight), number(report.bytes.elements),
      number(report.bytes.padding));
  json += formatted(
      ", \"computing_us\": %.3f, \"waiting_us\": %.3f, \"updating_us\": %.3f, \"total_us\": %.3f, "
      "\"gamma_raw\": %.6f, \"gamma_exposed\": %.6f, \"timeline\": [",
      report.times.computing_us, report.times.waiting_us, report.times.updating_us, report.times.total_us,
      report.gamma_raw, report.gamma_exposed);
  for (std::size_t i = 0; i < report.timeline.size(); ++i) {
    const BucketTimes& bucket = report.timeline[i];
    json += formatted(
        "%s{\"bytes\": %zu, \"parameters\": %zu, \"ready_us\": %.3f, \"start_us\": %.3f, \"end_us\": %.3f, "
        "\"exposed_us\": %.3f}",
        i == 0 ? "" : ", ", number(bucket.bytes), number(bucket.parameters), bucket.ready_us, bucket.start_us,
        bucket.end_us, bucket.exposed_us);
  }
  return json + "]}\n";
}

std::string to_svg(const Report& report) { return strategy::svg_of(report.timeline, report.times.computing_us); }

}  // namespace tutti::train
