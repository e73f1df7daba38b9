// What each hook takes by given prices, which one to take, and how that is told.
#include "tutti/train/advise.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/formatted.h"
#include "strategy/bucket_cap.h"
#include "strategy/timeline.h"
#include "train/advised_hooks.h"
#include "train/bucket_exchange.h"
#include "train/call_prices.h"
#include "train/words.h"

namespace tutti::train {
namespace {

// Forward is a third of what a step computes, and backward, in which gradients become ready, the rest.
constexpr double kForwardShare = 1.0 / 3;

double price_by(const VerbPrices& prices, std::uint64_t bytes) {
  const std::vector<VerbPrices::Point>& points = prices.points;
  if (points.empty()) return 0;
  const auto next = std::ranges::find_if(points, [&](const auto& point) { return bytes <= point.bytes; });
  if (next == points.begin()) return next->us;
  if (points.size() == 1) return points[0].us * static_cast<double>(bytes) / static_cast<double>(points[0].bytes);
  const VerbPrices::Point &to = next == points.end() ? points.back() : *next, &from = *(&to - 1);
  const double slope = std::max(0.0, to.us - from.us) / static_cast<double>(to.bytes - from.bytes);
  return from.us + slope * static_cast<double>(bytes - from.bytes);
}

CallPrice price_in(const AdvicePrices& prices, int ranks) {
  return [&prices, ranks](Verb verb, std::uint64_t bytes) {
    if (ranks == 1) return 0.0;
    const auto found = std::ranges::find(prices.calls, verb, &VerbPrices::verb);
    if (found == prices.calls.end() || found->points.empty())
      refuse_call("advise: there is no price of " + std::string(name_of(verb)) + "; give one point of it at least");
    return price_by(*found, bytes);
  };
}

class Advising {
 public:
  Advising(int ranks, const Parameters& parameters, const AdvicePrices& prices, const AdviseOptions& options)
      : ranks_(ranks), parameters_(parameters), prices_(prices), options_(options), price_(price_in(prices, ranks)) {}

  AdvisedHook compressed(const std::string& name) const {
    AdvisedHook hook{.name = name, .compression = compression_named(name), .each_step = {}};
    const ExchangeRule rule{hook.compression, options_.strategy.error_feedback, options_.stage, ranks_};
    const strategy::BucketLayout layout = lay_out(rule);
    hook.each_step = sentence_of_buckets(layout, parameters_, rule);
    hook.buckets = layout.buckets.size();
    hook.calls_us = price_of(hook.each_step, price_);
    add_times(hook, layout, rule);
    return hook;
  }

  // Every rank is a replica of its own; values travel as float32.
  AdvisedHook local_updates(std::int64_t every) const {
    if (every < 1) refuse_call("advise: local updates every " + std::to_string(every) + " steps; give 1 at least");
    AdvisedHook hook{.name = "local " + std::to_string(every), .compression = {}, .every = every, .each_step = {}};
    hook.each_step.push_back({Verb::all_reduce, "outer gradients", numbers() * sizeof(float), 1, ranks_});
    hook.each_step.back().every = every;
    hook.buckets = 1;
    hook.calls_us = price_of(hook.each_step, price_);
    hook.step_us = options_.computing_us.value_or(0) + hook.calls_us;
    return hook;
  }

  std::uint64_t numbers() const {
    std::uint64_t count = 0;
    for (const Parameter& parameter : parameters_) count += parameter.elements();
    return count;
  }

 private:
  // As a strategy with that compression would lay them out.
  strategy::BucketLayout lay_out(const ExchangeRule& rule) const {
    std::vector<strategy::TensorSize> sizes;
    std::vector<std::size_t> units;
    for (const Parameter& parameter : parameters_) {
      sizes.push_back({parameter.elements(), parameter.type,
                       is_compressed(rule.compression, options_.strategy.compresses, parameter)});
      units.push_back(parameter.unit);
    }
    if (options_.stage == 3) return strategy::lay_out_units(sizes, units, ranks_);
    std::size_t cap = options_.strategy.bucket_bytes;
    if (cap == 0) {
      cap = strategy::cheapest_cap(sizes, ranks_, [&](const strategy::Bucket& bucket) {
        return price_of_bucket(bucket.filled_bytes(), bucket.type, bucket.compressed, rule, price_);
      });
    }
    return strategy::lay_out(sizes, strategy::reverse_order(sizes.size()), {.cap_bytes = cap, .ranks = ranks_});
  }

  CodePrice code_price(const std::string& name) const {
    const auto found = std::ranges::find(prices_.codes, name, &CodePrice::name);
    return found == prices_.codes.end() ? CodePrice{} : *found;
  }

  // Codes are made by the thread that computes, when a bucket is complete, and read when the bucket has come.
  void add_times(AdvisedHook& hook, const strategy::BucketLayout& layout, const ExchangeRule& rule) const {
    const CodePrice price = code_price(hook.name);
    const double forward_us = options_.computing_us.value_or(0) * kForwardShare;
    const double backward_us = options_.computing_us.value_or(0) - forward_us;
    double numbers_so_far = 0, before_us = 0, after_us = 0, last_after_us = 0, exchanges_us = 0;
    std::vector<strategy::PricedBucket> priced;
    for (const strategy::Bucket& bucket : layout.buckets) {
      const auto count = static_cast<double>(bucket.filled), millions = bucket.compressed ? count / 1e6 : 0;
      numbers_so_far += count;
      before_us += millions * price.before_us;
      after_us += last_after_us = millions * price.after_us;
      const double ready =
          forward_us + before_us + backward_us * std::min(1.0, numbers_so_far / static_cast<double>(numbers()));
      const double takes = price_of(gradients_of({{bucket}, layout.places}, rule), price_);
      exchanges_us += takes;
      priced.push_back({bucket.filled_bytes(), bucket.parameters.size(), ready, takes});
    }
    hook.codes_us = before_us + after_us;
    if (!options_.computing_us) {
      hook.step_us = hook.calls_us + hook.codes_us;
      return;
    }
    const double computed_us = *options_.computing_us + before_us;
    const std::vector<BucketTimes> timeline = strategy::play_buckets(priced, computed_us);
    const double exchanged_us = timeline.empty() ? 0 : timeline.back().end_us + last_after_us;
    // What ZeRO gathers: behind the update in stages 1 and 2, while a step computes in stage 3.
    double gathers_us = hook.calls_us - exchanges_us;
    if (options_.stage == 3) gathers_us = std::max(0.0, gathers_us - computed_us);
    hook.step_us = std::max(computed_us + after_us, exchanged_us) + gathers_us;
  }

  Sentence gradients_of(const strategy::BucketLayout& layout, const ExchangeRule& rule) const {
    Sentence sentence = sentence_of_buckets(layout, parameters_, rule);
    std::erase_if(sentence, [](const Phrase& phrase) { return phrase.what.starts_with("values of"); });
    return sentence;
  }

  int ranks_;
  const Parameters& parameters_;
  const AdvicePrices& prices_;
  const AdviseOptions& options_;
  CallPrice price_;
};

// Of a step on average; `share` tells what part of a phrase's bytes counts.
template <class Share>
std::uint64_t bytes_of(const Sentence& sentence, const Share& share) {
  double bytes = 0;
  for (const Phrase& phrase : sentence)
    bytes += share(phrase) * static_cast<double>(phrase.bytes) * static_cast<double>(phrase.times) /
             static_cast<double>(phrase.every);
  return static_cast<std::uint64_t>(std::llround(bytes));
}

// Every rank sends all chunks but its own, and of an all_reduce once more what came of its own.
double sent_share(const Phrase& phrase) {
  const double others = static_cast<double>(phrase.ranks - 1) / phrase.ranks;
  return phrase.verb == Verb::all_reduce ? 2 * others : others;
}

// From the least change on: the next one has to save a share of what the best so far takes. `changes` tells by hook.
std::size_t choose(const std::vector<AdvisedHook>& hooks, const std::vector<Change>& changes, const Advice& advice,
                   double worth) {
  const Change most = advice.computing_us ? Change::other_steps : Change::codes;
  std::size_t best = 0;
  for (std::size_t i = 1; i < hooks.size(); ++i) {
    if (changes[i] > most) continue;
    const double limit = changes[i] == changes[best] ? 1 : 1 - worth;
    if (hooks[i].step_us < limit * hooks[best].step_us) best = i;
  }
  return best;
}

std::string reason(const Advice& advice, const AdvisedHook& best, double worth) {
  const AdvisedHook& plain = advice.hooks.front();
  const std::string what = advice.computing_us ? "a step" : "communication";
  std::string why;
  if (&best == &plain) {
    why = formatted("nothing that changes gradients saves %.0f %% of %s, which takes %.3f ms", 100 * worth,
                    what.c_str(), plain.step_us / 1e3);
  } else {
    why = formatted("%s takes %.3f ms instead of %.3f, and what changes more saves less than %.0f %% of that",
                    what.c_str(), best.step_us / 1e3, plain.step_us / 1e3, 100 * worth);
  }
  if (!advice.computing_us) why += "; more than codes of 8 bits is worth a thought where computing_us is given";
  return why + ". Compare the loss.";
}

// What 1-bit Adam wants of a strategy besides data parallel: it has no gradients of all ranks, and plain steps first.
bool takes_signs(const StrategyOptions& options) {
  return options.compress_from_step > 0 && !options.clip_norm && !options.measure_noise && !options.unused_parameters;
}

}  // namespace

const AdvisedHook& Advice::best() const {
  const auto found = std::ranges::find(hooks, true, &AdvisedHook::recommended);
  return found == hooks.end() ? hooks.front() : *found;
}

Advice advise(int ranks, const Parameters& parameters, const AdvicePrices& prices, const AdviseOptions& options) {
  if (parameters.empty()) refuse_call("advise: there are no parameters; give those that are trained");
  if (ranks < 1) refuse_call("advise: " + std::to_string(ranks) + " ranks; give 1 at least");
  if (options.stage < 0 || options.stage > 3)
    refuse_call("advise: there is no stage " + std::to_string(options.stage) + " of ZeRO; it is one of 0 to 3");
  const Advising advising(ranks, parameters, prices, options);
  Advice advice{.ranks = ranks,
                .stage = options.stage,
                .parameters = parameters.size(),
                .numbers = advising.numbers(),
                .computing_us = options.computing_us,
                .hooks = {},
                .why = {},
                .prices = prices};
  std::vector<Change> changes;
  for (const AdvisedName& advised : kAdvisedNames) {
    if (advised.whole_states && options.stage > 0) continue;
    advice.hooks.push_back(advising.compressed(advised.name));
    changes.push_back(advised.whole_states && !takes_signs(options.strategy) ? Change::refused : advised.change);
  }
  for (const std::int64_t every : options.local_updates) {
    advice.hooks.push_back(advising.local_updates(every));
    changes.push_back(Change::other_steps);
  }
  for (AdvisedHook& hook : advice.hooks) {
    hook.bytes = bytes_of(hook.each_step, [](const Phrase&) { return 1.0; });
    hook.sent_bytes = bytes_of(hook.each_step, sent_share);
    hook.saves_us = advice.hooks.front().step_us - hook.step_us;
  }
  AdvisedHook& best = advice.hooks[choose(advice.hooks, changes, advice, options.worth)];
  best.recommended = true;
  advice.why = reason(advice, best, options.worth);
  return advice;
}

std::string to_text(const Advice& advice) {
  std::string text =
      formatted("%.2f M numbers in %zu parameters, %s on %d ranks", static_cast<double>(advice.numbers) / 1e6,
                static_cast<std::size_t>(advice.parameters),
                advice.stage == 0 ? "data parallel" : formatted("ZeRO stage %d", advice.stage).c_str(), advice.ranks);
  if (advice.computing_us) text += formatted(", computing %.3f ms a step", *advice.computing_us / 1e3);
  text += "; calls priced as " + advice.prices.how + "\n";
  text += formatted("  %-10s  %12s  %10s  %10s  %10s  %10s\n", "hook", "sent a step", "calls ms", "codes ms",
                    advice.computing_us ? "step ms" : "both ms", "saves ms");
  for (const AdvisedHook& hook : advice.hooks) {
    text += formatted("%s %-10s  %12s  %10.3f  %10.3f  %10.3f  %10.3f\n", hook.recommended ? ">" : " ",
                      hook.name.c_str(), strategy::bytes_in_words(hook.sent_bytes).c_str(), hook.calls_us / 1e3,
                      hook.codes_us / 1e3, hook.step_us / 1e3, hook.saves_us / 1e3);
  }
  return text + "recommended: " + advice.best().name + ": " + advice.why + "\n";
}

std::string to_json(const Advice& advice) {
  std::string json =
      formatted("{\"ranks\": %d, \"stage\": %d, \"parameters\": %zu, \"numbers\": %zu, ", advice.ranks, advice.stage,
                static_cast<std::size_t>(advice.parameters), static_cast<std::size_t>(advice.numbers));
  if (advice.computing_us) json += formatted("\"computing_us\": %.3f, ", *advice.computing_us);
  json += "\"prices\": \"" + advice.prices.how + "\", \"hooks\": [";
  for (const AdvisedHook& hook : advice.hooks) {
    json += formatted(
        "%s{\"name\": \"%s\", \"bytes\": %zu, \"sent_bytes\": %zu, \"buckets\": %zu, \"calls_us\": %.3f, \"codes_us\": "
        "%.3f, ",
        &hook == &advice.hooks.front() ? "" : ", ", hook.name.c_str(), static_cast<std::size_t>(hook.bytes),
        static_cast<std::size_t>(hook.sent_bytes), hook.buckets, hook.calls_us, hook.codes_us);
    json += formatted("\"step_us\": %.3f, \"saves_us\": %.3f}", hook.step_us, hook.saves_us);
  }
  return json + "], \"recommended\": \"" + advice.best().name + "\", \"why\": \"" + advice.why + "\"}\n";
}

}  // namespace tutti::train
