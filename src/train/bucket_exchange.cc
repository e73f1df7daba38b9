#include "train/bucket_exchange.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "train/float_arrays.h"
#include "train/power_sgd_exchange.h"
#include "train/top_k_exchange.h"
#include "train/words.h"

namespace tutti::train {
namespace {

Verb verb_of_cast(const BucketExchangeShape& shape) { return shape.cut ? Verb::reduce_scatter : Verb::all_reduce; }

strategy::CompressedCalls calls_of_cast(const Cast& cast, const BucketExchangeShape& shape) {
  return {
      .verb = verb_of_cast(shape), .bytes = shape.count() * size_of(cast.type), .how = std::string(name_of(cast.type))};
}

// What travels as codes, and how many floats are kept of what they lost: of all contributions, and of the own piece.
struct Codes {
  Codes(const Quantise& settings, bool error_feedback, const BucketExchangeShape& shape)
      : exchange(settings),
        how(kQuantisedNames[static_cast<std::size_t>(settings.type)]),
        residual(error_feedback ? shape.count() : 0) {}
  // Signs lose as much as they say, so that the owner of a piece keeps what it loses by itself: in a contribution to a
  // mean it would weigh as much as all ranks. Directions of a momentum have no unit that a loss scale changes.
  Codes(const OneBitAdam& settings, bool error_feedback, const BucketExchangeShape& shape)
      : exchange(kernels::CodeFormat{kernels::CodeType::sign, settings.block}),
        how("signs of the momentum, in the place of"),
        has_unit(false),
        residual(error_feedback ? shape.count() : 0),
        owners_residual(error_feedback ? shape.share() : 0) {}

  strategy::CompressedCalls calls(const BucketExchangeShape& shape) const {
    std::optional<std::size_t> returned;
    if (!shape.cut) returned = exchange.returned_bytes(shape.ranks, shape.share());
    return {.verb = Verb::all_to_all,
            .bytes = exchange.sent_bytes(shape.ranks, shape.share()),
            .returned_bytes = returned,
            .error_bytes = (residual + owners_residual) * sizeof(float),
            .how = std::string(how)};
  }

  QuantisedExchange exchange;
  std::string_view how;
  bool has_unit = true;
  std::size_t residual = 0, owners_residual = 0;
};

// Rounded to 16 bits, reduced by the plain verb.
class CastExchange : public BucketExchange {
 public:
  CastExchange(DType type, const BucketExchangeShape& shape, Communicator& communicator)
      : type_(type), shape_(shape), memory_(communicator.allocate_bytes(shape.count() * size_of(type))) {}

  void start(Communicator& communicator, const std::byte* gradients, GradientShare share) override {
    kernels::find_convert(DType::float32, type_)(bytes(), gradients, shape_.count());
    work_ = communicator.submit({.verb = verb_of_cast(shape_),
                                 .input = bytes(),
                                 .output = bytes() + own_offset(),
                                 .input_count = shape_.count(),
                                 .output_count = own_count(),
                                 .element = type_,
                                 .op = share ? Op::premul_sum(*share) : Op(ReduceOp::average)});
  }
  std::optional<NotFinitePlace> finish(std::byte* output) override {
    work_.wait();
    work_ = {};
    kernels::find_convert(type_, DType::float32)(output, bytes() + own_offset(), own_count());
    return {};
  }
  bool is_under_way() const override { return work_.valid() && !work_.ended(); }
  strategy::CompressedCalls calls() const override { return calls_of_cast({type_}, shape_); }

 private:
  std::byte* bytes() const { return static_cast<std::byte*>(memory_.get()); }
  std::size_t own_count() const { return shape_.cut ? shape_.share() : shape_.count(); }
  std::size_t own_offset() const {
    return shape_.cut ? static_cast<std::size_t>(shape_.rank) * shape_.share() * size_of(type_) : 0;
  }

  DType type_;
  BucketExchangeShape shape_;
  std::shared_ptr<void> memory_;  // symmetric, so that the verb runs in it
  Work work_;
};

class CodesExchange : public BucketExchange {
 public:
  CodesExchange(Codes codes, const BucketExchangeShape& shape)
      : shape_(shape),
        codes_(std::move(codes)),
        exchange_(codes_.exchange),
        residual_(codes_.residual),
        owners_residual_(codes_.owners_residual) {}

  void start(Communicator& communicator, const std::byte* gradients, GradientShare share) override {
    divisor_ = share ? 1.0F : static_cast<float>(shape_.ranks);
    exchange_.send(communicator, {.values = gradients,
                                  .type = shape_.type,
                                  .count = shape_.count(),
                                  .factor = share.value_or(1),
                                  .residual = residual_.empty() ? nullptr : residual_.data()});
    under_way_ = true;
  }
  bool has_second_call() const override { return !shape_.cut; }
  bool can_publish() override { return exchange_.sent(); }
  void publish(Communicator& communicator) override {
    place_ = exchange_.first_not_finite();
    exchange_.publish(communicator, divisor_, residual_, owners_residual_);
  }
  std::optional<NotFinitePlace> finish(std::byte* output) override {
    if (shape_.cut) {
      place_ = exchange_.first_not_finite();
      exchange_.reduce(divisor_, output, shape_.type);
    } else {
      exchange_.receive(output, shape_.type, shape_.count());
    }
    under_way_ = false;
    return std::exchange(place_, std::nullopt);
  }
  bool is_under_way() const override { return under_way_; }
  void rescale(double factor) override {
    if (codes_.has_unit) scale_floats(residual_.data(), residual_.size(), factor);
  }
  std::vector<KeptFloats> kept() override {
    std::vector<KeptFloats> kept;
    if (!residual_.empty()) kept.push_back({"lost", residual_});
    if (!owners_residual_.empty())
      kept.push_back({"owners_lost", owners_residual_, static_cast<std::size_t>(shape_.rank) * shape_.share(), true});
    return kept;
  }
  void go_on(std::uint64_t starts) override { exchange_.go_on(starts); }
  strategy::CompressedCalls calls() const override { return codes_.calls(shape_); }

 private:
  BucketExchangeShape shape_;
  Codes codes_;
  QuantisedExchange& exchange_;
  std::vector<float> residual_, owners_residual_;
  float divisor_ = 1;
  bool under_way_ = false;
  std::optional<NotFinitePlace> place_;
};

}  // namespace

std::vector<BucketMatrix> matrices_of(const strategy::BucketLayout& layout, const strategy::Bucket& bucket,
                                      const Parameters& parameters) {
  std::vector<BucketMatrix> matrices;
  for (const std::size_t i : bucket.parameters) {
    const Parameter& parameter = parameters[i];
    if (parameter.elements() == 0 || parameter.shape.empty()) continue;
    const auto rows = static_cast<std::size_t>(parameter.shape[0]);
    matrices.push_back({i, layout.places[i].offset, rows, parameter.elements() / rows});
  }
  return matrices;
}

bool is_compressed(const Compression& compression, const std::function<bool(const Parameter&)>& asked,
                   const Parameter& parameter) {
  if (std::holds_alternative<std::monostate>(compression)) return false;
  const PowerSgd* power = std::get_if<PowerSgd>(&compression);
  if (power != nullptr && !pays(*power, parameter)) return false;
  return asked ? asked(parameter) : parameter.shape.size() >= 2;
}

std::unique_ptr<BucketExchange> make_exchange(const Compression& compression, bool error_feedback,
                                              const BucketExchangeShape& shape, Communicator& communicator) {
  if (const Cast* cast = std::get_if<Cast>(&compression)) {
    if (shape.type != DType::float32) return nullptr;
    return std::make_unique<CastExchange>(cast->type, shape, communicator);
  }
  if (const TopK* settings = std::get_if<TopK>(&compression))
    return std::make_unique<TopKExchange>(*settings, error_feedback, shape);
  if (const PowerSgd* settings = std::get_if<PowerSgd>(&compression))
    return std::make_unique<PowerSgdExchange>(*settings, error_feedback, shape, communicator);
  if (const Quantise* settings = std::get_if<Quantise>(&compression))
    return std::make_unique<CodesExchange>(Codes(*settings, error_feedback, shape), shape);
  if (const OneBitAdam* settings = std::get_if<OneBitAdam>(&compression))
    return std::make_unique<CodesExchange>(Codes(*settings, error_feedback, shape), shape);
  return nullptr;
}

std::optional<strategy::CompressedCalls> calls_of(const Compression& compression, bool error_feedback,
                                                  const BucketExchangeShape& shape) {
  const Cast* cast = std::get_if<Cast>(&compression);
  if (cast != nullptr && shape.type == DType::float32) return calls_of_cast(*cast, shape);
  if (const TopK* settings = std::get_if<TopK>(&compression))
    return TopKExchange::calls_of(*settings, error_feedback, shape);
  if (const PowerSgd* settings = std::get_if<PowerSgd>(&compression))
    return PowerSgdExchange::calls_of(*settings, error_feedback, shape);
  if (const Quantise* settings = std::get_if<Quantise>(&compression))
    return Codes(*settings, error_feedback, shape).calls(shape);
  if (const OneBitAdam* settings = std::get_if<OneBitAdam>(&compression))
    return Codes(*settings, error_feedback, shape).calls(shape);
  return {};
}

namespace {

template <class Settings>
void check_most_beta1(const Settings* settings, const char* name) {
  if (settings == nullptr || (settings->most_beta1 >= 0 && settings->most_beta1 <= 1)) return;
  refuse_call(name + (" with most_beta1 " + std::to_string(settings->most_beta1)) + "; give a number from 0 to 1");
}

template <class Settings>
std::string by_deviation_in_words(const Settings& settings) {
  if (!settings.by_deviation) return "";
  return ", by deviation with a beta1 of at most " + std::to_string(settings.most_beta1);
}

}  // namespace

void check_compression(const Compression& compression) {
  if (const Quantise* settings = std::get_if<Quantise>(&compression)) check_settings(*settings);
  if (const OneBitAdam* signs = std::get_if<OneBitAdam>(&compression)) check_block(signs->block);
  if (const TopK* top = std::get_if<TopK>(&compression)) {
    if (!(top->share > 0 && top->share <= 1))
      refuse_call("top-k of a share of " + std::to_string(top->share) + "; give one above 0, up to 1");
    if (!(top->momentum >= 0 && top->momentum < 1))
      refuse_call("top-k with momentum " + std::to_string(top->momentum) + "; give one from 0 on, below 1");
  }
  const PowerSgd* power = std::get_if<PowerSgd>(&compression);
  check_most_beta1(std::get_if<TopK>(&compression), "top-k");
  check_most_beta1(power, "PowerSgd");
  if (power != nullptr && power->rank == 0) refuse_call("PowerSgd of rank 0; give a rank from 1 on");
  const Cast* cast = std::get_if<Cast>(&compression);
  if (cast != nullptr && cast->type != DType::bfloat16 && cast->type != DType::float16)
    refuse_call("gradients cannot be cast to " + std::string(name_of(cast->type)) + "; take bfloat16 or float16");
}

Compression compression_named(std::string_view name) {
  if (name == "none") return {};
  if (name == "bf16") return Cast{DType::bfloat16};
  if (name == "fp16") return Cast{DType::float16};
  if (name == "topk") return TopK{};
  if (name == "power_sgd") return PowerSgd{};
  if (name == "one_bit") return OneBitAdam{};
  for (std::size_t type = 0; type < std::size(kQuantisedNames); ++type)
    if (name == kQuantisedNames[type]) return Quantise{.type = static_cast<QuantisedType>(type)};
  refuse_call("there is no compression '" + std::string(name) +
              "'; it is one of none, bf16, fp16, int8, int4, e4m3, e5m2, e3m0, topk, power_sgd and one_bit");
}

std::string to_text(const Compression& compression) {
  if (const Quantise* settings = std::get_if<Quantise>(&compression)) return to_text(*settings);
  if (const TopK* top = std::get_if<TopK>(&compression)) {
    return "the largest " + std::to_string(100 * top->share) + " %, momentum " + std::to_string(top->momentum) +
           by_deviation_in_words(*top) + (top->not_finite == NotFinite::fail ? "" : ", NaN passed on");
  }
  if (const PowerSgd* power = std::get_if<PowerSgd>(&compression)) {
    return "PowerSgd of rank " + std::to_string(power->rank) + ", seed " + std::to_string(power->seed) +
           by_deviation_in_words(*power) + (power->not_finite == NotFinite::fail ? "" : ", NaN passed on");
  }
  if (const OneBitAdam* signs = std::get_if<OneBitAdam>(&compression)) {
    return "OneBitAdam in blocks of " + std::to_string(signs->block) +
           (signs->not_finite == NotFinite::fail ? "" : ", NaN passed on");
  }
  if (const Cast* cast = std::get_if<Cast>(&compression)) return "cast to " + std::string(name_of(cast->type));
  return "none";
}

}  // namespace tutti::train
