#include "tutti/train/quantised.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "train/agreement.h"
#include "train/quantised_exchange.h"
#include "train/words.h"

namespace tutti::train {
namespace {

float divisor_of(ReduceOp op, int ranks) {
  if (op == ReduceOp::sum) return 1;
  if (op == ReduceOp::average) return static_cast<float>(ranks);
  refuse_call("quantised values can be summed and averaged, not reduced by " + std::string(name_of(op)));
}

void check_type(DType type) {
  if (type == DType::float32 || type == DType::bfloat16 || type == DType::float16) return;
  refuse_call(std::string(name_of(type)) + " cannot be quantised; only float32, bfloat16 and float16 can");
}

void check_length(std::string_view what, std::size_t has, std::size_t needs) {
  if (has == needs) return;
  refuse_call(std::string(what) + " has " + std::to_string(has) + " values; it must have " + std::to_string(needs));
}

void check_residual(std::span<float> residual, std::size_t values) {
  if (!residual.empty()) check_length("the residual", residual.size(), values);
}

}  // namespace

std::string to_text(const Quantise& settings) {
  const auto type = static_cast<std::size_t>(settings.type);
  std::string text(type < std::size(kQuantisedNames) ? kQuantisedNames[type] : "an unknown type");
  text += " in blocks of " + std::to_string(settings.block) + ", rounded ";
  text += settings.stochastic ? "by chance, seed " + std::to_string(settings.seed) : "to nearest";
  return text + (settings.not_finite == NotFinite::fail ? "" : ", NaN passed on");
}

class QuantisedReducer::Body {
 public:
  Body(Communicator& communicator, const Quantise& settings)
      : comm_(communicator), exchange_(agreed(communicator, settings)) {}

  void all_reduce(void* values, std::size_t count, DType type, ReduceOp op, std::span<float> residual) {
    check_type(type);
    check_residual(residual, count);
    const float divisor = divisor_of(op, comm_.size());
    const QuantisedInput input{.values = values, .type = type, .count = count, .residual = residual_of(residual)};
    const auto ranks = static_cast<std::size_t>(comm_.size()), chunk = (count + ranks - 1) / ranks;
    const std::size_t parts = all_reduce_parts(comm_.size(), chunk), length = part_values(comm_.size(), chunk);
    while (parts_.size() + 1 < parts) parts_.emplace_back(settings());
    // Parts are encoded while the ones before travel. All ranks call in this order.
    std::optional<NotFinitePlace> place;
    const auto pass_on = [&](std::size_t part) {
      place = earlier(place, part_of(part).first_not_finite());
      part_of(part).publish(comm_, divisor, residual);
    };
    for (std::size_t part = 0; part < parts; ++part) {
      if (part > 0) part_of(part).follow(exchange_);
      part_of(part).send(comm_, input, mark_of(op), {part * length, std::min(length, chunk - part * length)});
      if (part >= kPartsAhead) pass_on(part - kPartsAhead);
    }
    for (std::size_t part = parts - std::min(parts, kPartsAhead); part < parts; ++part) pass_on(part);
    if (place && settings().not_finite == NotFinite::fail) {
      for (std::size_t part = 0; part < parts; ++part) part_of(part).wait();
      refuse(*place);
    }
    for (std::size_t part = 0; part < parts; ++part) part_of(part).receive(values, type, count);
  }

  void reduce_scatter(std::span<const float> input, std::span<float> output, ReduceOp op, std::span<float> residual) {
    check_length("the input of reduce_scatter", input.size(), output.size() * static_cast<std::size_t>(comm_.size()));
    check_residual(residual, input.size());
    const float divisor = divisor_of(op, comm_.size());
    send({.values = input.data(), .count = input.size(), .residual = residual_of(residual)}, op);
    exchange_.reduce(divisor, output.data(), DType::float32);
  }

  void all_gather(std::span<const float> input, std::span<float> output, std::span<float> residual) {
    check_length("the output of all_gather", output.size(), input.size() * static_cast<std::size_t>(comm_.size()));
    check_residual(residual, input.size());
    exchange_.send_to_all(comm_, {.values = input.data(), .count = input.size(), .residual = residual_of(residual)});
    refuse_not_finite();
    exchange_.receive(output.data(), DType::float32, output.size());
  }

  const Quantise& settings() const { return exchange_.settings(); }

 private:
  static const Quantise& agreed(Communicator& communicator, const Quantise& settings) {
    const std::string words = to_text(settings);
    const std::uint64_t hash = hash_of_text(words);
    Sentence said;
    require_alike(
        communicator, std::span(&hash, 1), [&](std::size_t) { return words; }, "quantise alike on all ranks", said);
    return settings;
  }

  static float* residual_of(std::span<float> residual) { return residual.empty() ? nullptr : residual.data(); }

  static constexpr std::size_t kPartsAhead = 2;  // under way while the next one is encoded

  static std::uint32_t mark_of(ReduceOp op) { return 1 + static_cast<std::uint32_t>(op); }

  // The first rank's first value.
  static std::optional<NotFinitePlace> earlier(std::optional<NotFinitePlace> one, std::optional<NotFinitePlace> other) {
    if (!one || !other) return one ? one : other;
    return std::pair(one->rank, one->index) <= std::pair(other->rank, other->index) ? one : other;
  }

  QuantisedExchange& part_of(std::size_t part) { return part == 0 ? exchange_ : parts_[part - 1]; }

  void send(const QuantisedInput& input, ReduceOp op) {
    exchange_.send(comm_, input, mark_of(op));
    refuse_not_finite();
  }

  // On all ranks alike: each has heard from each.
  void refuse_not_finite() {
    const std::optional<NotFinitePlace> place = exchange_.first_not_finite();
    if (place && settings().not_finite == NotFinite::fail) refuse(*place);
  }

  [[noreturn]] static void refuse(const NotFinitePlace& place) {
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(place.rank) + ": value " + std::to_string(place.index) +
                    " is not finite and cannot be quantised; look where it comes from, or let it pass as NaN "
                    "(Quantise::not_finite)",
                place.rank);
  }

  Communicator& comm_;
  QuantisedExchange exchange_;
  std::vector<QuantisedExchange> parts_;  // of an all_reduce, behind the first
};

QuantisedReducer::QuantisedReducer(Communicator& communicator, const Quantise& settings)
    : body_(std::make_unique<Body>(communicator, settings)) {}
QuantisedReducer::QuantisedReducer(QuantisedReducer&&) noexcept = default;
QuantisedReducer& QuantisedReducer::operator=(QuantisedReducer&&) noexcept = default;
QuantisedReducer::~QuantisedReducer() = default;

void QuantisedReducer::all_reduce(void* values, std::size_t count, DType type, ReduceOp op, std::span<float> residual) {
  body_->all_reduce(values, count, type, op, residual);
}
void QuantisedReducer::reduce_scatter(std::span<const float> input, std::span<float> output, ReduceOp op,
                                      std::span<float> residual) {
  body_->reduce_scatter(input, output, op, residual);
}
void QuantisedReducer::all_gather(std::span<const float> input, std::span<float> output, std::span<float> residual) {
  body_->all_gather(input, output, residual);
}
const Quantise& QuantisedReducer::settings() const { return body_->settings(); }

void quantised_all_reduce(Communicator& communicator, std::span<float> values, ReduceOp op, const Quantise& settings) {
  QuantisedReducer(communicator, settings).all_reduce(values, op);
}
void quantised_reduce_scatter(Communicator& communicator, std::span<const float> input, std::span<float> output,
                              ReduceOp op, const Quantise& settings) {
  QuantisedReducer(communicator, settings).reduce_scatter(input, output, op);
}
void quantised_all_gather(Communicator& communicator, std::span<const float> input, std::span<float> output,
                          const Quantise& settings) {
  QuantisedReducer(communicator, settings).all_gather(input, output);
}

}  // namespace tutti::train
