// How a strategy is made: what all ranks must have alike, the cap of buckets, where everything lies.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>
#include <variant>

#include "strategy/bucket_cap.h"
#include "train/agreement.h"
#include "train/call_prices.h"
#include "train/trainer.h"
#include "train/words.h"

namespace tutti::train {
namespace {

constexpr std::size_t kFirstBucketBytes = 1 << 20;

std::string in_words(const Optimizer& optimizer) {
  constexpr std::string_view kNames[] = {"AdamW", "Adam", "Sgd", "Lion"};
  std::string words(kNames[optimizer.index()]);
  const auto add = [&](auto... numbers) { ((words += " " + train::in_words(static_cast<double>(numbers))), ...); };
  std::visit(
      [&](const auto& with) {
        add(with.learning_rate, with.weight_decay);
        if constexpr (requires { with.beta1; }) add(with.beta1, with.beta2);
        if constexpr (requires { with.epsilon; }) add(with.epsilon);
        if constexpr (requires { with.state; }) words += with.state == StateType::float32 ? "" : ", states of 8 bits";
        if constexpr (requires { with.momentum; }) add(with.momentum, with.nesterov ? 1 : 0);
      },
      optimizer);
  return words;
}

std::string in_words(const LossScale& scale) {
  return train::in_words(scale.initial) + ", times " + train::in_words(scale.growth) + " after " +
         std::to_string(scale.interval) + " steps, times " + train::in_words(scale.backoff) + " where it overflows";
}

std::string in_words(const StrategyOptions& options, const Optimizer& optimizer, int stage) {
  return "the settings stage " + std::to_string(stage) + ", optimizer " + in_words(optimizer) + ", bucket_bytes " +
         std::to_string(options.bucket_bytes) + ", unused_parameters " + (options.unused_parameters ? "yes" : "no") +
         ", measure_noise " + (options.measure_noise ? "yes" : "no") + ", clip_norm " +
         (options.clip_norm ? train::in_words(*options.clip_norm) : "none") + ", loss_scale " +
         (options.loss_scale ? in_words(*options.loss_scale) : "none") + ", gathered_units " +
         std::to_string(options.gathered_units) + ", compression " + to_text(options.compression) + " from step " +
         std::to_string(options.compress_from_step) + (options.error_feedback ? "" : " without error feedback");
}

void check_scale(const LossScale& scale) {
  if (!(scale.initial > 0) || !std::isfinite(scale.initial))
    refuse_call("the loss scale begins at " + train::in_words(scale.initial) + "; give a number above 0");
  if (!(scale.growth >= 1) || !std::isfinite(scale.growth))
    refuse_call("the loss scale grows " + train::in_words(scale.growth) + " times; give a number from 1 on");
  if (!(scale.backoff > 0 && scale.backoff <= 1)) {
    refuse_call("the loss scale becomes " + train::in_words(scale.backoff) +
                " of itself where it overflows; give a number above 0, up to 1");
  }
  if (scale.interval < 1) {
    refuse_call("the loss scale grows after " + std::to_string(scale.interval) +
                " steps without overflow; give a number from 1 on");
  }
}

void check_part(const Parameter& parameter) {
  const ParameterPart& part = *parameter.part;
  const std::size_t whole = Parameter{.name = {}, .shape = part.shape}.elements();
  if (part.count > 0 && part.first + part.count <= part.row && whole % part.row == 0 &&
      whole / part.row * part.count == parameter.elements())
    return;
  refuse_call(in_words(parameter) + " cannot be " + std::to_string(part.count) + " of every " +
              std::to_string(part.row) + " numbers, from " + std::to_string(part.first) + " on, of a whole " +
              train::in_words(part.shape));
}

}  // namespace

Trainer::Trainer(Communicator& communicator, const Parameters& parameters, const Optimizer& optimizer,
                 const StrategyOptions& options, int stage)
    : comm_(communicator.duplicate()),
      parting_(communicator.duplicate()),
      parameters_(parameters),
      optimizer_(optimizer),
      options_(options),
      stage_(stage) {
  rank_ = comm_.rank();
  ranks_ = comm_.size();
  check_parameters();
  for (const Parameter& parameter : parameters_) {
    first_block_.push_back(strategy::blocks_of(sizes_));
    sizes_.push_back({parameter.elements(), parameter.type, compresses(parameter)});
    counted_.push_back(!options_.counts_in_norm || options_.counts_in_norm(parameter) ? 1 : 0);
    unit_count_ = std::max(unit_count_, parameter.unit + 1);
  }
  check_models();
  if (stage_ < 3) cap_ = agreed_cap();
  const auto& by = options_.compression;
  const bool encodes = std::holds_alternative<Quantise>(by) || std::holds_alternative<OneBitAdam>(by);
  if ((stage_ == 0 && encodes) || std::holds_alternative<PowerSgd>(by)) returning_ = communicator.duplicate();
  if (options_.model_ranks != nullptr && options_.model_ranks->size() > 1 && (is_measured() || passes_not_finite()))
    beside_ = options_.model_ranks->duplicate();
  options_.model_ranks = nullptr;  // it may go
  scale_ = options_.loss_scale ? options_.loss_scale->initial : 1;
  set_layout(strategy::reverse_order(size()));
  copy_values_in();
  if (stage_ == 3) {
    make_units();
  } else {
    tell_places();
  }
  if (stage_ >= 2) {
    begin_states();
    settled_ = true;
  }
  begin_step();
}

Trainer::~Trainer() {
  // The others need not be on their way where this rank gives up in the middle of a step.
  const auto under_way = [](const BucketRun& run) { return run.work.valid() && !run.work.ended(); };
  const auto exchanging = [](const auto& exchange) { return exchange && exchange->is_under_way(); };
  if (std::ranges::none_of(runs_, under_way) && std::ranges::none_of(exchanges_, exchanging)) return;
  abort_all();
  if (units_) units_->leave();
}

void Trainer::check_parameters() const {
  std::set<std::string_view> names;
  if (parameters_.empty()) refuse_call("a strategy needs parameters to train; the list is empty");
  for (const Parameter& parameter : parameters_) {
    if (!names.insert(parameter.name).second)
      refuse_call("two parameters are named \"" + parameter.name + "\"; name each by itself");
    if (parameter.type != DType::float32 && parameter.type != DType::bfloat16 && parameter.type != DType::float16)
      refuse_call(in_words(parameter) + ": only float32, bfloat16 and float16 can be trained");
    if (std::ranges::any_of(parameter.shape, [](std::int64_t extent) { return extent < 0; }))
      refuse_call(in_words(parameter) + ": a shape has no negative extents");
    if (parameter.part) check_part(parameter);
    if (parameter.values == nullptr && parameter.elements() != 0)
      refuse_call(in_words(parameter) + ": its values are null");
  }
  std::set<std::size_t> units;
  for (const Parameter& parameter : parameters_) units.insert(parameter.unit);
  if (*units.rbegin() + 1 != units.size()) {
    refuse_call("units of parameters are numbered from 0 on without gaps; there are " + std::to_string(units.size()) +
                ", and one is unit " + std::to_string(*units.rbegin()));
  }
  check_compression(options_.compression);
  check_rank_pays();
  check_freezing();
  if (options_.compress_from_step < 0)
    refuse_call("compress_from_step is " + std::to_string(options_.compress_from_step) + "; steps count from 0 on");
  if (options_.gathered_units == 0) refuse_call("gathered_units is 0; stage 3 needs room for one unit at least");
  if (options_.clip_norm && !(*options_.clip_norm > 0))
    refuse_call("clip_norm is " + std::to_string(*options_.clip_norm) + "; give a norm above 0, or none");
  if (options_.loss_scale) check_scale(*options_.loss_scale);
}

void Trainer::check_models() {
  std::vector<std::uint64_t> hashes{hash_of_text(in_words(options_, optimizer_, stage_))};
  const auto in_full = [&](const Parameter& parameter) {
    return in_words(parameter) + (compresses(parameter) ? ", compressed" : "");
  };
  for (const Parameter& parameter : parameters_) hashes.push_back(hash_of_text(in_full(parameter)));
  const auto describe = [&](std::size_t i) {
    return i == 0 ? in_words(options_, optimizer_, stage_) : in_full(parameters_[i - 1]);
  };
  require_alike(comm_, hashes, describe, "build the same model with the same settings on all ranks", once_);
}

std::size_t Trainer::agreed_cap() {
  if (options_.bucket_bytes != 0) return options_.bucket_bytes;
  std::size_t bytes = 0;
  for (const strategy::TensorSize& size : sizes_) bytes += size.elements * size_of(size.type);
  const ExchangeRule rule{options_.compression, options_.error_feedback, stage_, ranks_};
  const PricedCalls calls(comm_, bytes);
  std::uint64_t cap = 0;
  if (rank_ == 0) {
    cap = strategy::cheapest_cap(sizes_, ranks_, [&](const strategy::Bucket& bucket) {
      return price_of_bucket(bucket.filled_bytes(), bucket.type, bucket.compressed, rule,
                             [&](Verb verb, std::uint64_t moved) { return calls.predicted_us(verb, moved); });
    });
  }
  comm_.broadcast(std::span(&cap, 1), 0);
  once_.push_back({Verb::broadcast, "cap of a bucket", sizeof cap, 1, ranks_});
  return cap;
}

void Trainer::set_layout(std::span<const std::size_t> order) {
  order_.assign(order.begin(), order.end());
  if (stage_ == 3) {
    std::vector<std::size_t> units;
    for (const Parameter& parameter : parameters_) units.push_back(parameter.unit);
    layout_ = strategy::lay_out_units(sizes_, units, ranks_);
    check_places();
    gathering_ = comm_.duplicate();
    memory_ = BucketMemory(comm_, *gathering_, layout_, stage_);
    return make_exchanges();
  }
  layout_ = strategy::lay_out(sizes_, order_, {.first_bytes = kFirstBucketBytes, .cap_bytes = cap_, .ranks = ranks_});
  check_places();
  memory_ = BucketMemory(comm_, comm_, layout_, stage_);
  make_exchanges();
}

void Trainer::copy_values_in() {
  if (stage_ == 3) return scatter_values_in();
  for (std::size_t i = 0; i < size(); ++i)
    if (sizes_[i].elements != 0)
      std::memcpy(values(i), parameters_[i].values, sizes_[i].elements * size_of(sizes_[i].type));
  for (std::size_t b = 0; b < layout_.buckets.size(); ++b) {
    const strategy::Bucket& bucket = layout_.buckets[b];
    comm_.run({.verb = Verb::broadcast,
               .input = memory_.values(b),
               .output = memory_.values(b),
               .input_count = bucket.filled,
               .output_count = bucket.filled,
               .element = bucket.type});
    once_.push_back({Verb::broadcast, "values of bucket " + std::to_string(b), bucket.filled_bytes(), 1, ranks_});
  }
}

void Trainer::scatter_values_in() {
  for (std::size_t b = 0; b < layout_.buckets.size(); ++b) {
    const strategy::Bucket& bucket = layout_.buckets[b];
    std::vector<std::byte> whole(rank_ == 0 ? bucket.bytes() : 0);
    for (const std::size_t i : bucket.parameters) {
      const std::size_t element = size_of(bucket.type);
      if (rank_ == 0 && sizes_[i].elements != 0)
        std::memcpy(whole.data() + layout_.places[i].offset * element, parameters_[i].values,
                    sizes_[i].elements * element);
    }
    comm_.run({.verb = Verb::scatter,
               .input = whole.data(),
               .output = memory_.own_values(b),
               .input_count = rank_ == 0 ? bucket.elements : 0,
               .output_count = memory_.own_count(b),
               .element = bucket.type});
    once_.push_back({Verb::scatter, "values of bucket " + std::to_string(b), bucket.bytes(), 1, ranks_});
  }
}

void Trainer::make_units() {
  std::vector<std::vector<std::size_t>> buckets_of(unit_count_);
  for (std::size_t b = 0; b < layout_.buckets.size(); ++b)
    buckets_of[parameters_[layout_.buckets[b].parameters.front()].unit].push_back(b);
  units_ =
      std::make_unique<GatheredUnits>(*gathering_, layout_, memory_, std::move(buckets_of), options_.gathered_units);
}

void Trainer::tell_places() const {
  if (!options_.placed) return;
  for (std::size_t i = 0; i < size(); ++i) {
    const strategy::BucketPlace& place = layout_.places[i];
    std::byte* gradients = memory_.gradients(place.bucket);
    options_.placed(i, values(i), gradients == nullptr ? nullptr : gradients + place.offset * size_of(sizes_[i].type));
  }
}

std::vector<strategy::ShardPart> Trainer::own_parts(std::size_t bucket) const {
  return strategy::parts_of(layout_, bucket, sizes_, memory_.own_begin(bucket), memory_.own_count(bucket));
}

void Trainer::begin_states() {
  std::vector<std::vector<strategy::ShardPart>> parts;
  for (std::size_t b = 0; b < layout_.buckets.size(); ++b) parts.push_back(own_parts(b));
  memory_.begin_states(optimizer_, parts);
}

void Trainer::settle() {
  std::vector<std::uint64_t> order(size());
  std::ranges::copy(strategy::completed_order(seen_, size()), order.begin());
  comm_.broadcast(order, 0);
  once_.push_back({Verb::broadcast, "order of gradients", order.size() * sizeof order[0], 1, ranks_});
  move_to(std::vector<std::size_t>(order.begin(), order.end()));
}

void Trainer::settle_in(std::span<const std::size_t> order) {
  const std::scoped_lock lock(mutex_);
  if (settled_ || !seen_.empty()) return;
  move_to(order);
  begin_step();  // with as many buckets as there are now
}

void Trainer::move_to(std::span<const std::size_t> order) {
  if (!std::ranges::equal(order, order_)) {
    const strategy::BucketLayout before = layout_;
    const BucketMemory old = std::move(memory_);
    set_layout(order);
    for (std::size_t i = 0; i < size(); ++i) {
      const std::size_t element = size_of(sizes_[i].type), bytes = sizes_[i].elements * element;
      const strategy::BucketPlace &from = before.places[i], &to = layout_.places[i];
      std::memcpy(values(i), old.values(from.bucket) + from.offset * element, bytes);
      std::memcpy(memory_.gradients(to.bucket) + to.offset * element,
                  old.gradients(from.bucket) + from.offset * element, bytes);
    }
    runs_ = std::vector<BucketRun>(layout_.buckets.size());
    for (BucketRun& run : runs_) run.ready = Clock::now();
    tell_places();
  }
  begin_states();
  settled_ = true;
}

}  // namespace tutti::train
