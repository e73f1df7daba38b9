// The options by which the examples of training send fewer bytes, and what they make of them: gradients in fewer bits,
// and local updates. docs/fewer-bytes.md teaches both.
#pragma once

#include <tutti/train/compression.h>
#include <tutti/train/local_updates.h>
#include <tutti/train/strategy.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tutti/tutti.hpp>
#include <variant>

namespace examples {

constexpr const char* kFewerBytesHelp =
    R"(  --compress C  gradients travel in fewer bytes: bf16, fp16 (half of them), int8, e4m3, e5m2 (a quarter),
                int4, e3m0 (an eighth), topk (the largest 1 %), power_sgd (products of thin matrices), one_bit
                (momentum as signs; dp alone); docs/fewer-bytes.md
  --compress-from N  the first step that compresses (0, of one_bit a fifth of the steps); those before it send
                gradients as they are
  --by-deviation  topk and power_sgd: gradients over their deviations are compressed, which AdamW wants (dp alone)
  --most-beta1 X  of AdamW from then on, with --by-deviation (0.5)
  --power-rank N  columns of power_sgd's thin matrices (4)
  --no-error-feedback  what compression loses is lost, to see what that does
  --local-updates H  replicas train by themselves and exchange what they have learned every H steps; every rank is one,
                or every --replica-ranks N of them, which train by --strategy. --save DIR is a folder in DIR for each
                replica then, and --resume wants as many of them
  --outer-rate X, --outer-momentum X  of the exchanges (0.7, 0.9)
  --fragments N of the model, exchanged in turn (1); --overlap N steps that an exchange may take (0)
  --few-bits    exchanges are in 4 bits
)";

inline std::int64_t number_of(std::string_view option, std::string_view text, std::int64_t least = 1) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least)
    throw std::runtime_error(std::string(option) + " takes a number from " + std::to_string(least) + " on, not '" +
                             std::string(text) + "'");
  return value;
}

inline double real_of(std::string_view option, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0))
    throw std::runtime_error(std::string(option) + " takes a number that is not below 0, not '" + std::string(text) +
                             "'");
  return value;
}

struct FewerBytes {
  std::string compress = "none";
  std::optional<std::int64_t> compress_from = {};
  bool error_feedback = true, by_deviation = false;
  std::optional<std::int64_t> power_rank = {};
  std::optional<double> most_beta1 = {};
  std::int64_t local_updates = 0, replica_ranks = 1;
  tutti::train::LocalUpdatesOptions local = {};

  // Whether the word is one of these options; `value()` is the word behind it.
  template <class Value>
  bool take(std::string_view word, const Value& value) {
    if (word == "--compress") {
      compress = value();
      (void)tutti::train::compression_named(compress);  // or it says which there are
    } else if (word == "--compress-from") {
      compress_from = number_of(word, value(), 0);
    } else if (word == "--by-deviation") {
      by_deviation = true;
    } else if (word == "--most-beta1") {
      most_beta1 = real_of(word, value());
    } else if (word == "--power-rank") {
      power_rank = number_of(word, value());
    } else if (word == "--no-error-feedback") {
      error_feedback = false;
    } else if (word == "--local-updates") {
      local.every = local_updates = number_of(word, value());
    } else if (word == "--replica-ranks") {
      replica_ranks = number_of(word, value());
    } else if (word == "--outer-rate") {
      local.learning_rate = real_of(word, value());
    } else if (word == "--outer-momentum") {
      local.momentum = real_of(word, value());
    } else if (word == "--fragments") {
      local.fragments = static_cast<std::size_t>(number_of(word, value()));
    } else if (word == "--overlap") {
      local.overlap = number_of(word, value());
    } else if (word == "--few-bits") {
      local.quantise = tutti::train::Quantise{.type = tutti::train::QuantisedType::e3m0};
    } else {
      return false;
    }
    return true;
  }

  void apply_to(tutti::train::StrategyOptions& options, std::int64_t steps) const {
    options.compression = tutti::train::compression_named(compress);
    options.compress_from_step = compress_from.value_or(0);
    options.error_feedback = error_feedback;
    if (power_rank) set_power_rank(options.compression);
    if (by_deviation) set_by_deviation(options.compression);
    if (most_beta1 && !by_deviation) throw std::runtime_error("--most-beta1 goes with --by-deviation");
    const bool signs = std::holds_alternative<tutti::train::OneBitAdam>(options.compression);
    if (!by_deviation && !signs) return;
    // What freezes variances begins where they are known.
    options.compress_from_step = compress_from.value_or(std::max<std::int64_t>(1, steps / 5));
    if (signs) options.clip_norm.reset();  // which has no gradients of all ranks to clip
  }
  void set_power_rank(tutti::train::Compression& compression) const {
    auto* const power = std::get_if<tutti::train::PowerSgd>(&compression);
    if (power == nullptr) throw std::runtime_error("--power-rank goes with --compress power_sgd");
    power->rank = static_cast<std::size_t>(*power_rank);
  }
  void set_by_deviation(tutti::train::Compression& compression) const {
    const auto set = [&](auto& settings) {
      if constexpr (requires { settings.by_deviation; }) {
        settings.by_deviation = true;
        settings.most_beta1 = most_beta1.value_or(settings.most_beta1);
      } else {
        throw std::runtime_error("--by-deviation goes with --compress topk or power_sgd");
      }
    };
    std::visit(set, compression);
  }
  // Where there are replicas at all. Each trains on examples of its own, so there must be one for every rank.
  std::optional<tutti::train::Replicas> make_replicas(tutti::Communicator& comm, std::int64_t batch) const {
    if (local_updates == 0) return {};
    if (batch < comm.size())
      throw std::runtime_error("--batch " + std::to_string(batch) +
                               " leaves ranks without examples, and with --local-updates each trains by itself; give " +
                               std::to_string(comm.size()) + " at least");
    return tutti::train::make_replicas(comm, static_cast<int>(replica_ranks));
  }
  std::optional<tutti::train::LocalUpdates> make_local_updates(std::optional<tutti::train::Replicas>& replicas,
                                                               tutti::train::Strategy& strategy) const {
    if (!replicas) return {};
    return tutti::train::LocalUpdates(*replicas, strategy, local);
  }
  // Every replica has a state of its own, and a folder for it.
  std::string folder(const std::string& of_all, const std::optional<tutti::train::Replicas>& replicas) const {
    if (!replicas || of_all.empty()) return of_all;
    if (local.overlap > 0)
      throw std::runtime_error("--save and --resume need steps at which no exchange is under way; leave --overlap out");
    return of_all + "/replica-" + std::to_string(replicas->between.rank());
  }
};

}  // namespace examples
