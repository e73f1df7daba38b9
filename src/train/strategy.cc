#include "tutti/train/strategy.h"

#include <utility>

#include "train/trainer.h"

namespace tutti::train {
namespace {

// What another rank caused is told in that rank's words, where it has left some.
template <class Call>
auto explained(Trainer& trainer, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    trainer.explain(error);
    throw;
  }
}

}  // namespace

NoSync::NoSync(Trainer& trainer) : trainer_(&trainer) { trainer.pause(); }
NoSync::NoSync(NoSync&& other) noexcept : trainer_(std::exchange(other.trainer_, nullptr)) {}
NoSync::~NoSync() {
  if (trainer_ != nullptr) trainer_->resume();
}

Strategy::Strategy(std::unique_ptr<Trainer> trainer) : trainer_(std::move(trainer)) {}
Strategy::Strategy(Strategy&&) noexcept = default;
Strategy& Strategy::operator=(Strategy&&) noexcept = default;
Strategy::~Strategy() = default;

void* Strategy::values(std::size_t parameter) const { return trainer_->values(parameter); }
void* Strategy::gradient(std::size_t parameter) {
  return explained(*trainer_, [&] { return trainer_->gradient(parameter); });
}
void Strategy::add_gradient(std::size_t parameter, const void* gradient) {
  explained(*trainer_, [&] { trainer_->take_gradient(parameter, gradient, /*added=*/true); });
}
void Strategy::set_gradient(std::size_t parameter, const void* gradient) {
  explained(*trainer_, [&] { trainer_->take_gradient(parameter, gradient, /*added=*/false); });
}
void Strategy::check_gradient(std::size_t parameter, DType type, std::span<const std::int64_t> shape) const {
  trainer_->check_gradient(parameter, type, shape);
}
std::size_t Strategy::elements(std::size_t parameter) const { return trainer_->elements(parameter); }
std::size_t Strategy::size() const { return trainer_->size(); }
void Strategy::gather(std::size_t unit) {
  explained(*trainer_, [&] { trainer_->gather(unit); });
}
void Strategy::release(std::size_t unit) { trainer_->release(unit); }
void Strategy::ready(std::size_t parameter) {
  explained(*trainer_, [&] { trainer_->ready(parameter, {}); });
}
void Strategy::ready(std::size_t parameter, std::span<const std::int64_t> shape) {
  explained(*trainer_, [&] { trainer_->ready(parameter, shape); });
}
StepResult Strategy::step(std::optional<double> learning_rate) {
  return explained(*trainer_, [&] { return trainer_->step(learning_rate); });
}
void Strategy::zero_gradients() { trainer_->zero_gradients(); }
void Strategy::forget_gradients() { trainer_->forget_gradients(); }
NoSync Strategy::no_sync() { return NoSync(*trainer_); }
double Strategy::weight(double examples) {
  return explained(*trainer_, [&] { return trainer_->weight(examples); });
}
double Strategy::loss_scale() const { return trainer_->loss_scale(); }
void Strategy::verify() { trainer_->verify(); }
std::vector<OwnedPart> Strategy::owned() { return trainer_->owned(); }
std::int64_t Strategy::updates() const { return trainer_->updates(); }
int Strategy::steps_since_overflow() const { return trainer_->steps_since_overflow(); }
void Strategy::restored(std::int64_t updates, std::optional<double> loss_scale, int steps_since_overflow) {
  trainer_->restored(updates, loss_scale, steps_since_overflow);
}
Sentence Strategy::refresh(std::span<const std::size_t> parameters) { return trainer_->refresh(parameters); }
const Parameters& Strategy::parameters() const { return trainer_->parameters(); }
const Optimizer& Strategy::optimizer() const { return trainer_->optimizer(); }
const StrategyOptions& Strategy::options() const { return trainer_->options(); }
int Strategy::stage() const { return trainer_->stage(); }
int Strategy::rank() const { return trainer_->rank(); }
int Strategy::ranks() const { return trainer_->ranks(); }
Counters Strategy::counters() const { return trainer_->counters(); }
Report Strategy::report() const { return trainer_->report(); }
StateBytes Strategy::allocated() const { return trainer_->allocated(); }

Strategy data_parallel(Communicator& communicator, const Parameters& parameters, const Optimizer& optimizer,
                       const StrategyOptions& options) {
  return Strategy(std::make_unique<Trainer>(communicator, parameters, optimizer, options, 0));
}

Strategy zero(int stage, Communicator& communicator, const Parameters& parameters, const Optimizer& optimizer,
              const StrategyOptions& options) {
  if (stage < 1 || stage > 3)
    throw Error(ErrorCode::invalid_argument, "zero: stage " + std::to_string(stage) + " is not one of 1, 2 and 3");
  return Strategy(std::make_unique<Trainer>(communicator, parameters, optimizer, options, stage));
}

}  // namespace tutti::train
