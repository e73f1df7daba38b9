// Strategies for modules of libtorch: hooks tell when gradients are final, parameters and gradients are views of the
// strategy's memory, and the optimizer is the strategy's.
//
//   tutti::train::ModuleStrategy strategy(comm, *model, 0, tutti::train::AdamW{});  // or stage 1, 2, 3
//   ...
//   loss.backward();
//   strategy.step();                      // averages, updates; gradients are none for the next backward
//
// Of a step with several backward passes, all but the last one are under no_sync(); or set_passes() says how many each
// parameter has, where passes of different parameters mingle, as in a pipeline (tutti/train/torch_pipeline.h).
//
// Header-only, needs libtorch, as tutti/torch.h. Parameters that do not require gradients are left out; buffers of all
// ranks become rank 0's once. zero_grad(), also to none, may be called at any time between steps.
//
// Stage 3 of ZeRO needs to know where layers begin and end, which C++ modules do not tell: every parameter is in a
// train::Unit (tutti/train/torch_units.h). Outside of its unit's forward and backward a parameter has no elements.
//
// Layers that are cut over another axis (tutti/train/torch_tensor_parallel.h) are parameters like others. Each counts
// once in the norm, and verify() also compares what the ranks of that axis hold alike.
//
// Threads: backward passes of one module at a time; hooks may run on autograd's threads. When the strategy goes, the
// module keeps its values in memory of its own; in stage 3, where they are cut over ranks, finish() does that before.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tutti/torch.h"
#include "tutti/train/local_updates.h"
#include "tutti/train/strategy.h"
#include "tutti/train/torch_joined_loss.h"
#include "tutti/train/torch_tensor_parallel.h"
#include "tutti/train/torch_units.h"

namespace tutti::train {

class ModuleStrategy {
 public:
  // Stage 0 is data parallel. Collective. With `takes` only of parameters and buffers that it names: others may have a
  // strategy of their own over other ranks (experts, tutti/train/torch_experts.h). A loss scale must be one that stays
  // then, as StrategyOptions::loss_scale says.
  ModuleStrategy(Communicator& comm, torch::nn::Module& module, int stage, const Optimizer& optimizer,
                 const StrategyOptions& options = {}, const NameFilter& takes = {})
      : state_(std::make_shared<State>()) {
    if (stage < 0 || stage > 3) {
      refuse("stage " + std::to_string(stage) + " is not one of 0 (data parallel), 1, 2 and 3 (ZeRO)");
    }
    if (takes && options.loss_scale && !stays(*options.loss_scale)) {
      refuse(
          "a loss scale that changes, for a part of the module's parameters: the loss has one scale, and another "
          "strategy's would change in other steps; give all of them LossScale{.growth = 1, .backoff = 1}");
    }
    broadcast_parameters(comm, module, 0, takes);
    state_->is_cut = stage == 3;
    state_->collect(module, takes);
    StrategyOptions with = options;
    state_->count_once(module, with);
    with.placed = [state = state_.get(), told = options.placed](std::size_t i, void* values, void* gradient) {
      state->place(i, values, gradient);
      if (told) told(i, values, gradient);
    };
    state_->strategy.emplace(stage == 0 ? data_parallel(comm, state_->parameters, optimizer, with)
                                        : zero(stage, comm, state_->parameters, optimizer, with));
    state_->contiguous.clear();
    state_->hook();
    if (options.loss_scale) state_->tell_loss_scale(module);
    state_->forget_gradients();
    if (stage == 3) state_->begin_units();
  }

  // As Strategy::step(), and gradients are none afterwards.
  StepResult step(std::optional<double> learning_rate = {}) {
    state_->end_passes();
    const StepResult result = state_->strategy->step(learning_rate);
    state_->forget_gradients();
    return result;
  }
  // The same with local updates, which were made over strategy(). Buffers are each replica's own from the beginning;
  // tutti::broadcast_parameters() over all ranks before makes them alike there.
  LocalStep step(LocalUpdates& local, std::optional<double> learning_rate = {}) {
    if (&local.strategy() != &*state_->strategy) refuse("step() with local updates of another strategy");
    state_->end_passes();
    const LocalStep result = local.step(learning_rate);
    state_->forget_gradients();
    return result;
  }
  [[nodiscard]] NoSync no_sync() { return state_->strategy->no_sync(); }
  // How many backward passes come to each parameter in a step, from the next one on: with the last its gradient is
  // final, and travels while others compute. What fewer came to is final in step().
  void set_passes(int passes) {
    if (passes < 1) refuse("set_passes(" + std::to_string(passes) + "): a step has one backward pass at least");
    state_->passes = passes;
  }
  // From now on the gradient of this parameter stays the caller's, in parameter.grad(), until ready(parameter) hands it
  // over, once in every step: for weights whose gradient is more than what backward makes here (tied embeddings).
  void hold(const at::Tensor& parameter) { state_->held[state_->number_of(parameter)] = true; }
  void ready(const at::Tensor& parameter) { state_->hand_over(state_->number_of(parameter)); }
  double weight(double examples) { return state_->strategy->weight(examples); }
  double loss_scale() const { return state_->strategy->loss_scale(); }
  void verify() {
    state_->strategy->verify();
    state_->verify_replicated();
    state_->empty_unused();
  }
  // Collective in stage 3, where it must come before the module is used without the strategy: ends training, and the
  // module has all its values, in memory of its own. Only what the strategy has to tell may be asked for behind it.
  void finish() { state_->finish(); }
  std::vector<OwnedPart> owned() { return state_->strategy->owned(); }
  std::int64_t updates() const { return state_->strategy->updates(); }
  void restored(std::int64_t updates, std::optional<double> loss_scale = {}) {
    state_->strategy->restored(updates, loss_scale);
  }
  // For Checkpoints: save(module_strategy.strategy(), ...), and for LocalUpdates.
  Strategy& strategy() { return *state_->strategy; }
  Report report() const { return state_->strategy->report(); }
  Counters counters() const { return state_->strategy->counters(); }

 private:
  // A shared or an intrusive pointer, by the version of libtorch.
  using AccumulatorPointer = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  [[noreturn]] static void refuse(const std::string& words) {
    throw Error(ErrorCode::invalid_argument, "ModuleStrategy: " + words);
  }

  struct State final : UnitKeeper, std::enable_shared_from_this<State> {
    ~State() override {
      if (!is_cut) finish();
    }

    void collect(torch::nn::Module& module, const NameFilter& takes) {
      if (is_cut) units = ModuleUnits(module);
      std::set<const at::TensorImpl*> seen;  // weights that several modules share have the first one's name
      for (const auto& named : module.named_parameters()) {
        const at::Tensor& tensor = named.value();
        if (takes && !takes(named.key())) continue;
        if (!tensor.requires_grad() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
        tensor_memory::check("ModuleStrategy: " + named.key(), tensor, tensor_memory::Use::written);
        const std::size_t unit = is_cut ? units.unit_of(tensor) : 0;
        if (is_cut && unit == units.size()) {
          refuse("stage 3 gathers units, and parameter \"" + named.key() +
                 "\" is in none; make every layer a train::Unit, and the model for what is in no layer");
        }
        tensors.push_back(tensor);
        contiguous.push_back(tensor.detach().contiguous());
        parameters.push_back({.name = named.key(),
                              .type = element_of(tensor).dtype(),
                              .shape = tensor.sizes().vec(),
                              .values = contiguous.back().data_ptr(),
                              .unit = unit});
      }
      gradients.resize(tensors.size());
      came.resize(tensors.size());
      held.resize(tensors.size());
      whole.resize(tensors.size());
    }

    // Where layers are cut, what all ranks of that axis hold counts on the first of them.
    void count_once(const torch::nn::Module& module, StrategyOptions& options) {
      const CutParameters cut(module);
      if (!cut.ranks || cut.ranks->size() == 1) return;
      tensor_ranks = cut.ranks;
      for (Parameter& parameter : parameters) {
        const auto found = cut.by_name.find(parameter.name);
        is_part.push_back(found != cut.by_name.end());
        if (is_part.back()) parameter.part = found->second;
      }
      if (options.model_ranks == nullptr) options.model_ranks = &tensor_ranks->communicator();
      if (options.counts_in_norm || tensor_ranks->rank() == 0) return;
      options.counts_in_norm = [by_name = cut.by_name](const Parameter& parameter) {
        return by_name.contains(parameter.name);
      };
    }
    void verify_replicated() {
      for (std::size_t unit = 0; tensor_ranks && unit < std::max<std::size_t>(1, units.size()); ++unit) {
        strategy->gather(unit);
        for (std::size_t i = 0; i < parameters.size(); ++i)
          if (parameters[i].unit == unit && !is_part[i])
            tensor_memory::check_same_bits(tensor_ranks->communicator(), parameters[i].name,
                                           view(i, strategy->values(i)));
        strategy->release(unit);
      }
    }

    at::Tensor view(std::size_t i, void* memory) const {
      return torch::from_blob(memory, parameters[i].shape, tensors[i].options().requires_grad(false));
    }

    void place(std::size_t i, void* values, void* gradient) {
      const at::NoGradGuard quiet;
      if (is_cut) {
        // What autograd has saved of it in forward looks into the same storage, wherever that is gathered for backward.
        if (!whole[i].defined()) whole[i] = view(i, values);
        whole[i].storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(values, at::kCPU));
        tensors[i].set_data(whole[i]);
        return;
      }
      tensors[i].set_data(view(i, values));
      gradients[i] = gradient == nullptr ? at::Tensor() : view(i, gradient);
    }

    // ---- Stage 3.

    void begin_units() {
      uses.resize(units.size());
      units.attach(weak_from_this());
      empty_unused();
    }
    void gather(std::size_t unit) override {
      if (is_finished) refuse("backward of a pass from before finish(); its values are gone");
      strategy->gather(unit);
      ++uses[unit];
    }
    void release(std::size_t unit) override {
      strategy->release(unit);
      if (--uses[unit] == 0) empty(unit);
    }
    // A parameter that is not there has no elements: who uses it gets an error of libtorch, not another's values.
    void empty(std::size_t unit) {
      const at::NoGradGuard quiet;
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (parameters[i].unit == unit) tensors[i].set_data(at::empty({0}, tensors[i].options().requires_grad(false)));
    }
    void empty_unused() {
      for (std::size_t unit = 0; unit < uses.size(); ++unit)
        if (uses[unit] == 0) empty(unit);
    }

    // The module gets its values.
    void finish() {
      const at::NoGradGuard quiet;
      if (!strategy || std::exchange(is_finished, true)) return;
      units.attach({});
      for (std::size_t unit = 0; unit < std::max<std::size_t>(1, units.size()); ++unit) {
        strategy->gather(unit);
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          if (parameters[i].unit != unit) continue;
          tensors[i].mutable_grad().reset();
          tensors[i].set_data(view(i, strategy->values(i)).clone());
        }
        strategy->release(unit);
      }
    }

    // Without a tensor to add to autograd hands over what it has computed, and one copy puts that in its place: zeroing
    // all gradients and adding to them would move twice the bytes.
    void forget_gradients() {
      strategy->forget_gradients();
      std::fill(came.begin(), came.end(), 0);
      for (const at::Tensor& tensor : tensors) tensor.mutable_grad().reset();
    }

    void hook() {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        nodes.push_back(torch::autograd::impl::grad_accumulator(tensors[i]));
        nodes.back()->add_post_hook(std::make_unique<Hook>(weak_from_this(), i));
      }
    }

    void tell_loss_scale(torch::nn::Module& module) {
      const auto tell = [&](torch::nn::Module& layer) {
        auto* const joins = dynamic_cast<JoinsLoss*>(&layer);
        if (joins == nullptr) return;
        joins->set_loss_scale([weak = weak_from_this()] {
          const std::shared_ptr<State> state = weak.lock();
          return state ? state->strategy->loss_scale() : 1;
        });
      };
      tell(module);
      for (const std::shared_ptr<torch::nn::Module>& layer : module.modules(/*include_self=*/false)) tell(*layer);
    }

    // By the thread of autograd that has just set the gradient.
    void arrived(std::size_t i) {
      if (is_finished || held[i]) return;
      const at::NoGradGuard quiet;
      const at::Tensor gradient = tensors[i].grad();
      check(i, gradient);
      // Later passes of a step add to the view, where there is one. Where autograd makes a tensor of its own instead,
      // that is all of the gradient.
      if (!gradients[i].defined()) {
        strategy->add_gradient(i, gradient.contiguous().data_ptr());
      } else if (!gradient.is_same(gradients[i])) {
        strategy->set_gradient(i, gradient.contiguous().data_ptr());
      }
      tensors[i].mutable_grad() = gradients[i];
      if (++came[i] >= passes) strategy->ready(i);
    }
    // Before anybody reads it: as many numbers as the parameter has are read.
    void check(std::size_t i, const at::Tensor& gradient) const {
      strategy->check_gradient(i, element_of(gradient).dtype(), gradient.sizes());
    }
    void end_passes() {
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (came[i] > 0 && came[i] < passes) strategy->ready(i);
    }
    std::size_t number_of(const at::Tensor& parameter) const {
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (tensors[i].is_same(parameter)) return i;
      refuse("a tensor that is none of the module's parameters");
    }
    void hand_over(std::size_t i) {
      const at::NoGradGuard quiet;
      if (!held[i]) refuse("ready() of \"" + parameters[i].name + "\", which nobody holds; call hold() before");
      if (!tensors[i].grad().defined())
        refuse("ready() of \"" + parameters[i].name + "\", which has no gradient; it comes behind backward");
      check(i, tensors[i].grad());
      strategy->set_gradient(i, tensors[i].grad().contiguous().data_ptr());
      strategy->ready(i);
    }

    bool is_cut = false;  // stage 3
    bool is_finished = false;
    Parameters parameters;
    std::vector<at::Tensor> tensors, gradients;  // gradients: views, or undefined where they have no lasting place
    int passes = 1;
    std::vector<int> came;                  // by parameter, backward passes of this step
    std::vector<bool> held;                 // by parameter, whose gradient is the caller's until it is handed over
    std::vector<at::Tensor> contiguous;     // values while the strategy is made
    std::vector<AccumulatorPointer> nodes;  // kept alive: a tensor holds its own weakly
    TensorRanks tensor_ranks;               // that layers are cut over; nullptr: none is
    std::vector<bool> is_part;              // by parameter, of a larger one
    ModuleUnits units;
    std::vector<int> uses;          // by unit, calls of gather() without their release()
    std::vector<at::Tensor> whole;  // by parameter, in gathered memory
    std::optional<Strategy> strategy;
  };

  class Hook final : public torch::autograd::FunctionPostHook {
   public:
    Hook(std::weak_ptr<State> state, std::size_t parameter) : state_(std::move(state)), parameter_(parameter) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list& /*inputs*/) override {
      if (const std::shared_ptr<State> state = state_.lock()) state->arrived(parameter_);
      return outputs;
    }

   private:
    std::weak_ptr<State> state_;
    std::size_t parameter_;
  };

  std::shared_ptr<State> state_;
};

}  // namespace tutti::train
