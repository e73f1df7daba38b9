// Strategies for modules of libtorch: hooks tell when gradients are final, parameters and gradients are views of the
// strategy's memory, and the optimizer is the strategy's.
//
//   tutti::train::ModuleStrategy strategy(comm, *model, 0, tutti::train::AdamW{});  // or stage 1, 2
//   ...
//   loss.backward();
//   strategy.step();                      // averages, updates, and zeroes gradients for the next backward
//
// Header-only, needs libtorch, as tutti/torch.h. Parameters that do not require gradients are left out; buffers of all
// ranks become rank 0's once. zero_grad(), also to none, may be called at any time between steps. Stage 3 of ZeRO needs
// to know where layers begin and end, which C++ modules do not tell: it is refused here, use tutti/train/strategy.h.
//
// Threads: backward passes of one module at a time; hooks may run on autograd's threads. When the strategy goes, the
// module keeps its values in memory of its own.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/torch.h"
#include "tutti/train/strategy.h"

namespace tutti::train {

class ModuleStrategy {
 public:
  // Stage 0 is data parallel. Collective.
  ModuleStrategy(Communicator& comm, const torch::nn::Module& module, int stage, const Optimizer& optimizer,
                 const StrategyOptions& options = {})
      : state_(std::make_shared<State>()) {
    if (stage < 0 || stage > 2) {
      throw Error(ErrorCode::invalid_argument, "ModuleStrategy: stage " + std::to_string(stage) +
                                                   " is not one of 0 (data parallel), 1 and 2 (ZeRO)");
    }
    broadcast_parameters(comm, module);
    state_->collect(module);
    StrategyOptions with = options;
    with.placed = [state = state_.get(), told = options.placed](std::size_t i, void* values, void* gradient) {
      state->place(i, values, gradient);
      if (told) told(i, values, gradient);
    };
    state_->strategy.emplace(stage == 0 ? data_parallel(comm, state_->parameters, optimizer, with)
                                        : zero(stage, comm, state_->parameters, optimizer, with));
    state_->contiguous.clear();
    state_->hook();
  }

  // As Strategy::step(), and gradients are 0 afterwards.
  StepResult step(std::optional<double> learning_rate = {}) {
    const StepResult result = state_->strategy->step(learning_rate);
    state_->strategy->zero_gradients();
    state_->put_views_back();
    return result;
  }
  [[nodiscard]] NoSync no_sync() { return state_->strategy->no_sync(); }
  double weight(double examples) { return state_->strategy->weight(examples); }
  double loss_scale() const { return state_->strategy->loss_scale(); }
  void verify() { state_->strategy->verify(); }
  std::vector<OwnedPart> owned() { return state_->strategy->owned(); }
  std::int64_t updates() const { return state_->strategy->updates(); }
  void restored(std::int64_t updates, std::optional<double> loss_scale = {}) {
    state_->strategy->restored(updates, loss_scale);
  }
  // For Checkpoints: save(module_strategy.strategy(), ...).
  Strategy& strategy() { return *state_->strategy; }
  Report report() const { return state_->strategy->report(); }
  Counters counters() const { return state_->strategy->counters(); }

 private:
  // A shared or an intrusive pointer, by the version of libtorch.
  using AccumulatorPointer = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  struct State : std::enable_shared_from_this<State> {
    ~State() {
      const at::NoGradGuard quiet;
      for (at::Tensor& tensor : tensors) {
        tensor.mutable_grad().reset();
        if (strategy) tensor.set_data(tensor.detach().clone());
      }
    }

    void collect(const torch::nn::Module& module) {
      for (const auto& named : module.named_parameters()) {
        const at::Tensor& tensor = named.value();
        if (!tensor.requires_grad()) continue;
        tensor_memory::check("ModuleStrategy: " + named.key(), tensor, tensor_memory::Use::written);
        tensors.push_back(tensor);
        contiguous.push_back(tensor.detach().contiguous());
        parameters.push_back({.name = named.key(),
                              .type = element_of(tensor).dtype(),
                              .shape = tensor.sizes().vec(),
                              .values = contiguous.back().data_ptr()});
      }
      gradients.resize(tensors.size());
    }

    at::Tensor view(std::size_t i, void* memory) const {
      return torch::from_blob(memory, parameters[i].shape, tensors[i].options().requires_grad(false));
    }

    void place(std::size_t i, void* values, void* gradient) {
      const at::NoGradGuard quiet;
      tensors[i].set_data(view(i, values));
      gradients[i] = gradient == nullptr ? at::Tensor() : view(i, gradient);
      tensors[i].mutable_grad() = gradients[i];
    }

    void put_views_back() {
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (!tensors[i].grad().is_same(gradients[i])) tensors[i].mutable_grad() = gradients[i];
    }

    void hook() {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        nodes.push_back(torch::autograd::impl::grad_accumulator(tensors[i]));
        nodes.back()->add_post_hook(std::make_unique<Hook>(weak_from_this(), i));
      }
    }

    // By the thread of autograd that has just set the gradient.
    void arrived(std::size_t i) {
      const at::NoGradGuard quiet;
      const at::Tensor gradient = tensors[i].grad();
      if (gradients[i].defined()) {
        // Autograd made a tensor of its own where there was none to add to.
        if (gradient.data_ptr() != gradients[i].data_ptr()) gradients[i].copy_(gradient);
        tensors[i].mutable_grad() = gradients[i];
      } else {
        view(i, strategy->gradient(i)).add_(gradient);
        tensors[i].mutable_grad().reset();
      }
      strategy->ready(i, gradient.sizes());
    }

    Parameters parameters;
    std::vector<at::Tensor> tensors, gradients;  // gradients: views, or undefined where they have no lasting place
    std::vector<at::Tensor> contiguous;          // values while the strategy is made
    std::vector<AccumulatorPointer> nodes;       // kept alive: a tensor holds its own weakly
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
