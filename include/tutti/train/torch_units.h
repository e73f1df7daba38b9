// Units of libtorch modules for stage 3 of ZeRO: the parts of a model whose weights a rank holds whole only while they
// compute. C++ modules have no hooks of forward(), so a unit is a type that wraps a module's:
//
//   struct GptImpl : torch::nn::Module {
//     ... blocks->push_back(tutti::train::Unit<Block>(width));    // in the place of Block(width)
//   };
//   TORCH_MODULE(Gpt);
//   tutti::train::Unit<Gpt> model(layers, width);                 // what no inner unit has, its own weights
//
// It is the module, with its constructors and its names of parameters; forward() gathers weights before and releases
// them behind, and so does backward. Without a strategy of stage 3 it does nothing more than the module.
//
// forward() is called with all its arguments; tensors in it and in what it returns may lie in optionals, vectors and
// tuples. It must not change its input in place, as behind any function of autograd that returns its input.
#pragma once

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/error.h"

namespace tutti::train {

// What a strategy does for a unit: its parameters have their values from gather() to release().
class UnitKeeper {
 public:
  virtual ~UnitKeeper() = default;
  virtual void gather(std::size_t unit) = 0;
  virtual void release(std::size_t unit) = 0;
};

namespace module_units {

// Numbers and the like have none.
template <class T, class Visit>
void each_tensor(T& value, Visit&& visit) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    visit(value);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](auto&... part) { (each_tensor(part, visit), ...); }, value);
  } else if constexpr (requires { value.has_value(); }) {
    if (value.has_value()) each_tensor(*value, visit);
  } else if constexpr (requires { value.begin(); }) {
    for (auto&& part : value) each_tensor(part, visit);
  }
}

// A node of its own between an input of a unit and where it comes from: it runs when backward has left the unit that
// way. All nodes inside are younger, and autograd takes the youngest that can run: behind the last such node of a unit
// nothing in it is left to do.
struct UnitInput : torch::autograd::Function<UnitInput> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    context->set_materialize_grads(false);
    return input;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& gradients) {
    return gradients;
  }
};

// The way back through one call of forward().
class BackwardPass : public std::enable_shared_from_this<BackwardPass> {
 public:
  BackwardPass(std::weak_ptr<UnitKeeper> keeper, std::size_t unit) : keeper_(std::move(keeper)), unit_(unit) {}

  // Begins where the first gradient of an output is known, and ends when backward has left the unit: behind its inputs,
  // or at the end of all where none of them has a gradient.
  void begin() {
    const std::shared_ptr<UnitKeeper> keeper = keeper_.lock();
    if (under_way_ || !keeper) return;
    keeper->gather(unit_);
    under_way_ = true;
    open_inputs_ = inputs_;
    torch::autograd::Engine::get_default_engine().queue_callback([self = shared_from_this()] { self->end(); });
  }
  void end() {
    if (!std::exchange(under_way_, false)) return;
    if (const std::shared_ptr<UnitKeeper> keeper = keeper_.lock()) keeper->release(unit_);
  }

  template <class T>
  void watch_inputs(T& inputs) {
    each_tensor(inputs, [&](at::Tensor& tensor) {
      if (!tensor.requires_grad()) return;
      tensor = UnitInput::apply(tensor);
      tensor.grad_fn()->add_post_hook(std::make_unique<Left>(shared_from_this()));
      ++inputs_;
    });
  }
  template <class T>
  void watch_outputs(T& outputs) {
    each_tensor(outputs, [self = shared_from_this()](const at::Tensor& tensor) {
      if (tensor.requires_grad()) tensor.register_hook([self](const at::Tensor& /*gradient*/) { self->begin(); });
    });
  }

 private:
  class Left final : public torch::autograd::FunctionPostHook {
   public:
    explicit Left(std::shared_ptr<BackwardPass> pass) : pass_(std::move(pass)) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list& /*inputs*/) override {
      if (--pass_->open_inputs_ == 0) pass_->end();
      return outputs;
    }

   private:
    std::shared_ptr<BackwardPass> pass_;
  };

  std::weak_ptr<UnitKeeper> keeper_;
  std::size_t unit_;
  std::size_t inputs_ = 0, open_inputs_ = 0;  // that have a gradient; those that backward has not come to
  bool under_way_ = false;
};

// The type of forward(), or void where it is a template or has overloads.
template <class Impl>
struct ForwardOf {
  using type = void;
};
template <class Impl>
requires requires { &Impl::forward; }
struct ForwardOf<Impl> {
  using type = decltype(&Impl::forward);
};

}  // namespace module_units

// What a unit is, whatever its module.
class UnitModule {
 public:
  virtual ~UnitModule() = default;
  void attach(std::weak_ptr<UnitKeeper> keeper, std::size_t unit) {
    keeper_ = std::move(keeper);
    unit_ = unit;
  }

 protected:
  // forward() of the module, on these inputs.
  template <class... Inputs, class Forward>
  auto compute(const Forward& forward, Inputs&&... inputs) -> decltype(forward(std::forward<Inputs>(inputs)...)) {
    const std::shared_ptr<UnitKeeper> keeper = keeper_.lock();
    if (!keeper) return forward(std::forward<Inputs>(inputs)...);
    const Use use(*keeper, unit_);
    if (!at::GradMode::is_enabled()) return forward(std::forward<Inputs>(inputs)...);
    const auto pass = std::make_shared<module_units::BackwardPass>(keeper_, unit_);
    std::tuple<std::decay_t<Inputs>...> kept(std::forward<Inputs>(inputs)...);
    pass->watch_inputs(kept);
    auto outputs =
        std::apply([&](std::decay_t<Inputs>&... input) { return forward(static_cast<Inputs&&>(input)...); }, kept);
    pass->watch_outputs(outputs);
    return outputs;
  }

 private:
  struct Use {
    Use(UnitKeeper& keeper, std::size_t unit) : keeper_(keeper), unit_(unit) { keeper.gather(unit); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { keeper_.release(unit_); }
    UnitKeeper& keeper_;
    std::size_t unit_;
  };

  std::weak_ptr<UnitKeeper> keeper_;
  std::size_t unit_ = 0;
};

template <class Impl, class Forward = typename module_units::ForwardOf<Impl>::type>
class UnitOf : public Impl, public UnitModule {
 public:
  using Impl::Impl;
  template <class... Inputs>
  auto forward(Inputs&&... inputs) {
    const auto call = [this](auto&&... with) { return Impl::forward(std::forward<decltype(with)>(with)...); };
    return this->template compute<Inputs...>(call, std::forward<Inputs>(inputs)...);
  }
};
// One type of forward(), as Sequential wants to see it.
template <class Impl, class Class, class Output, class... Inputs>
class UnitOf<Impl, Output (Class::*)(Inputs...)> : public Impl, public UnitModule {
 public:
  using Impl::Impl;
  Output forward(Inputs... inputs) {
    const auto call = [this](Inputs... with) { return Impl::forward(std::forward<Inputs>(with)...); };
    return this->template compute<Inputs...>(call, std::forward<Inputs>(inputs)...);
  }
};
template <class Impl, class Class, class Output, class... Inputs>
class UnitOf<Impl, Output (Class::*)(Inputs...) const> : public UnitOf<Impl, Output (Class::*)(Inputs...)> {
 public:
  using UnitOf<Impl, Output (Class::*)(Inputs...)>::UnitOf;
};

// The units of a module that have parameters to train, an outer one before those inside, and whose each parameter is.
class ModuleUnits {
 public:
  ModuleUnits() = default;
  explicit ModuleUnits(torch::nn::Module& module) {
    visit(module, nullptr);
    std::erase_if(units_, [&](const UnitModule* unit) {
      return std::none_of(owners_.begin(), owners_.end(), [&](const auto& owner) { return owner.second == unit; });
    });
  }

  std::size_t size() const { return units_.size(); }
  // size() where the parameter is in no unit.
  std::size_t unit_of(const at::Tensor& parameter) const {
    const auto owner = owners_.find(parameter.unsafeGetTensorImpl());
    const UnitModule* unit = owner == owners_.end() ? nullptr : owner->second;
    return static_cast<std::size_t>(std::find(units_.begin(), units_.end(), unit) - units_.begin());
  }
  void attach(const std::weak_ptr<UnitKeeper>& keeper) const {
    for (std::size_t unit = 0; unit < size(); ++unit) units_[unit]->attach(keeper, unit);
  }

 private:
  void visit(torch::nn::Module& module, UnitModule* unit) {
    if (auto* inner = dynamic_cast<UnitModule*>(&module)) {
      unit = inner;
      units_.push_back(inner);
    }
    for (const auto& named : module.named_parameters(/*recurse=*/false)) {
      if (!named.value().requires_grad()) continue;
      const auto [owner, is_new] = owners_.emplace(named.value().unsafeGetTensorImpl(), unit);
      if (!is_new && owner->second != unit) {
        throw Error(ErrorCode::invalid_argument,
                    "two units share the weight \"" + named.key() + "\"; let one unit hold both modules that use it");
      }
    }
    for (const auto& child : module.children()) visit(*child, unit);
  }

  std::vector<UnitModule*> units_;
  std::map<const at::TensorImpl*, UnitModule*> owners_;
};

// Of a module as TORCH_MODULE names it: Unit<torch::nn::Linear>. For others, std::make_shared<UnitOf<Net>>(...).
template <class Holder>
using Unit = torch::nn::ModuleHolder<UnitOf<typename Holder::ContainedType>>;

}  // namespace tutti::train
