#include "tutti/train/report.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/formatted.h"
#include "strategy/timeline.h"
#include "train/words.h"
#include "tutti/communicator.h"

namespace tutti::train {
namespace {

std::string what_in_words(const Phrase& phrase) {
  std::string what = phrase.what;
  if (phrase.under_way_us > 0) {
    const std::string took =
        formatted("%.3f ms, of them %.3f exposed", phrase.under_way_us / 1e3, phrase.exposed_us / 1e3);
    what = what == "calls" ? took : what + ", " + took;
  }
  if (phrase.every > 1) what += ", every " + std::to_string(phrase.every) + " steps";
  return what;
}

std::string told(const Sentence& sentence) {
  using strategy::bytes_in_words;
  std::size_t width = 40;
  for (const Phrase& phrase : sentence) width = std::max(width, what_in_words(phrase).size());
  std::string text;
  for (const Phrase& phrase : sentence) {
    text += formatted("  %-14s  %10s  x %-3zu  %-*s  %d ranks\n", std::string(name_of(phrase.verb)).c_str(),
                      bytes_in_words(phrase.bytes).c_str(), static_cast<std::size_t>(phrase.times),
                      static_cast<int>(width), what_in_words(phrase).c_str(), phrase.ranks);
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
      return other.verb == phrase.verb && other.what == what && other.bytes == phrase.bytes &&
             other.every == phrase.every;
    });
    if (same == shorter.end()) {
      shorter.push_back(phrase);
      shorter.back().what = what;
    } else {
      same->times += phrase.times;
      same->under_way_us += phrase.under_way_us;
      same->exposed_us += phrase.exposed_us;
    }
  }
  return shorter;
}

std::string json_of(const Sentence& sentence) {
  std::string json = "[";
  for (const Phrase& phrase : sentence) {
    json += formatted("%s{\"verb\": \"%s\", \"what\": \"%s\", \"bytes\": %zu, \"times\": %zu, \"ranks\": %d",
                      json.size() == 1 ? "" : ", ", std::string(name_of(phrase.verb)).c_str(), phrase.what.c_str(),
                      static_cast<std::size_t>(phrase.bytes), static_cast<std::size_t>(phrase.times), phrase.ranks);
    if (phrase.under_way_us > 0)
      json += formatted(", \"under_way_us\": %.3f, \"exposed_us\": %.3f", phrase.under_way_us, phrase.exposed_us);
    if (phrase.every > 1) json += formatted(", \"every\": %lld", static_cast<long long>(phrase.every));
    json += "}";
  }
  return json + "]";
}

double us(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }

// The model's part of a report.
std::string told_states(const Report& report) {
  using strategy::bytes_in_words;
  std::string text = formatted(
      "model states of a rank: %s (values %s, gradients %s, master %s, optimizer %s)\n"
      "  for %zu numbers and %zu that fill up blocks and shards",
      bytes_in_words(report.bytes.total()).c_str(), bytes_in_words(report.bytes.values).c_str(),
      bytes_in_words(report.bytes.gradients).c_str(), bytes_in_words(report.bytes.master).c_str(),
      bytes_in_words(report.bytes.optimizer).c_str(), static_cast<std::size_t>(report.bytes.elements),
      static_cast<std::size_t>(report.bytes.padding));
  if (report.bytes.in_flight > 0)
    text += "; besides, " + bytes_in_words(report.bytes.in_flight) + " for what is on its way";
  if (report.bytes.errors > 0)
    text += "; besides, " + bytes_in_words(report.bytes.errors) + " for what compression has lost";
  return text + "\n";
}

std::string told_times(const Report& report) {
  const StepTimes& times = report.times;
  const auto share = [&](double us) { return times.total_us > 0 ? 100 * us / times.total_us : 0.0; };
  const double rest = std::max(0.0, times.total_us - times.computing_us - times.waiting_us - times.updating_us);
  std::string text =
      formatted("%s %.3f ms: computing %.3f (%.0f %%), waiting for others %.3f (%.0f %%)",
                report.of_calls ? "a step on average" : "last step", times.total_us / 1e3, times.computing_us / 1e3,
                share(times.computing_us), times.waiting_us / 1e3, share(times.waiting_us));
  if (!report.of_calls)
    text += formatted(", updating %.3f (%.0f %%), other %.3f", times.updating_us / 1e3, share(times.updating_us),
                      rest / 1e3);
  return text + formatted("\ncommunication over computation: %.3f raw, %.3f exposed\n", report.gamma_raw,
                          report.gamma_exposed);
}

}  // namespace

Mark mark(Communicator& communicator) {
  communicator.time_calls();
  return {communicator.counters(), std::chrono::steady_clock::now(), communicator.size()};
}

Report report(const Mark& from, const Mark& to, std::int64_t steps) {
  if (steps < 1) refuse_call("report: " + std::to_string(steps) + " steps; give how many were made, from 1 on");
  if (to.at < from.at) refuse_call("report: the second mark is older than the first; pass them in order");
  Report report;
  report.strategy = "calls of this rank";
  report.ranks = to.ranks;
  report.steps = steps;
  report.of_calls = true;
  const auto number = static_cast<std::uint64_t>(steps);
  std::chrono::nanoseconds waited{0};
  for (std::size_t i = 0; i < kVerbs; ++i) {
    const VerbCounters &before = from.counters.verbs[i], &after = to.counters.verbs[i];
    const std::uint64_t calls = after.calls - before.calls;
    waited += after.waited - before.waited;
    if (calls == 0) continue;
    if (calls % number != 0) report.together = true;
    report.each_step.push_back({.verb = static_cast<Verb>(i),
                                .what = "calls",
                                .bytes = (after.bytes - before.bytes) / calls,
                                .times = calls,
                                .ranks = to.ranks,
                                .under_way_us = us(after.under_way - before.under_way),
                                .exposed_us = us(after.waited - before.waited)});
  }
  for (Phrase& phrase : report.each_step) {
    if (report.together) break;
    phrase.times /= number;
    phrase.under_way_us /= static_cast<double>(steps);
    phrase.exposed_us /= static_cast<double>(steps);
  }
  const double took = us(to.at - from.at) / static_cast<double>(steps);
  const double waiting = us(waited) / static_cast<double>(steps);
  report.times = {std::max(0.0, took - waiting), waiting, 0, took};
  if (report.times.computing_us <= 0) return report;
  report.gamma_raw = us(to.counters.busy - from.counters.busy) / static_cast<double>(steps) / report.times.computing_us;
  report.gamma_exposed = waiting / report.times.computing_us;
  return report;
}

std::string to_text(const Report& report) {
  std::string text = formatted("%s, %d ranks, after %lld steps", report.strategy.c_str(), report.ranks,
                               static_cast<long long>(report.steps));
  if (!report.of_calls)
    text += "; " + (report.bucket_bytes == 0 ? "a bucket for each unit"
                                             : "buckets up to " + strategy::bytes_in_words(report.bucket_bytes));
  text += std::string("\n") + (report.together ? "all of them together say" : "every step says") + "\n";
  text += told(gathered(report.each_step));
  if (!report.of_calls) text += told_states(report);
  if (report.bytes.outer > 0)
    text +=
        "  besides, " + strategy::bytes_in_words(report.bytes.outer) + " of what replicas share: where they set out\n";
  if (report.steps == 0) return text;
  text += told_times(report);
  return report.timeline.empty() ? text : text + strategy::table_of(report.timeline);
}

std::string to_json(const Report& report) {
  const auto number = [](std::uint64_t value) { return static_cast<std::size_t>(value); };
  std::string json = formatted("{\"strategy\": \"%s\", \"ranks\": %d, \"steps\": %lld, \"bucket_bytes\": %zu, ",
                               report.strategy.c_str(), report.ranks, static_cast<long long>(report.steps),
                               number(report.bucket_bytes));
  if (report.bytes.outer > 0) json += formatted("\"outer_bytes\": %zu, ", number(report.bytes.outer));
  if (report.of_calls) json += std::string("\"together\": ") + (report.together ? "true, " : "false, ");
  json += "\"once\": " + json_of(report.once) + ", \"each_step\": " + json_of(report.each_step);
  json += formatted(
      ", \"state_bytes\": {\"values\": %zu, \"gradients\": %zu, \"master\": %zu, \"optimizer\": %zu, "
      "\"in_flight\": %zu, \"errors\": %zu}, \"elements\": %zu, \"padding\": %zu",
      number(report.bytes.values), number(report.bytes.gradients), number(report.bytes.master),
      number(report.bytes.optimizer), number(report.bytes.in_flight), number(report.bytes.errors),
      number(report.bytes.elements), number(report.bytes.padding));
  json += formatted(
      ", \"computing_us\": %.3f, \"waiting_us\": %.3f, \"updating_us\": %.3f, \"total_us\": %.3f, \"called_us\": %.3f, "
      "\"gamma_raw\": %.6f, \"gamma_exposed\": %.6f, \"timeline\": [",
      report.times.computing_us, report.times.waiting_us, report.times.updating_us, report.times.total_us,
      report.times.called_us, report.gamma_raw, report.gamma_exposed);
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

std::string to_svg(const Report& report) { return strategy::svg_of(report.timeline, report.times.called_us); }

}  // namespace tutti::train
