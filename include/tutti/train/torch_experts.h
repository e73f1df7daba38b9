// A mixture of experts over ranks as a libtorch module: a router, experts that lie on different ranks, and autograd
// through the exchange of rows.
//
//   tutti::train::Mixture<Feed> layer(mesh.along("ep"), width, {.experts = 8, .top_k = 2, .capacity_factor = 1.25},
//                                     [&](int) { return Feed(width); });     // expert by number, on all ranks alike
//   x = x + layer->forward(norm(x));                // a token that is dropped everywhere passes through the residual
//
// Header-only, needs libtorch; tutti/train/experts.h has the router's options and what is said. Rows travel in the type
// of x, of any float; the router chooses by float32 probabilities, and the weights of choices are of the type of x.
//
// Experts of all ranks are made in their order, and those of other ranks dropped at once: whatever the number of ranks,
// the same seed gives the same model. Their parameters are named expert0, expert1 ... by their number in the model.
//
// Every rank has tokens of its own, so the ranks of an ep axis are ranks of data parallel for all other weights. What
// backward makes of an expert is the sum over the axis; it is divided by the ranks there. So with losses that are means
// of as many examples on every rank, averages are: of the experts' gradients over the ranks that hold the same expert
// (the dp axis), of all others over all ranks of both axes:
//
//   ModuleStrategy others(both, *model, 0, AdamW{}, {}, [](const std::string& name) { return !is_expert(name); });
//   ModuleStrategy experts(mesh.along("dp"), *model, 0, AdamW{}, {}, is_expert);   // both: mesh.group({"dp", "ep"})
//
// All ranks of the axis run the same layers in the same order, forward and backward, one thread each; one without
// tokens takes part, too. Several forwards may come before their backward.
#pragma once

#include <torch/csrc/autograd/custom_function.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/torch.h"
#include "tutti/train/experts.h"
#include "tutti/train/torch_joined_loss.h"

namespace tutti::train {

// Whether a parameter of a model belongs to an expert of a Mixture, by its name.
inline bool is_expert(std::string_view name) {
  for (std::size_t at = name.find("expert"); at != std::string_view::npos; at = name.find("expert", at + 1)) {
    const std::size_t digits = at + std::string_view("expert").size(),
                      end = name.find_first_not_of("0123456789", digits);
    const bool begins = at == 0 || name[at - 1] == '.';
    if (begins && end != digits && end != std::string_view::npos && name[end] == '.') return true;
  }
  return false;
}

namespace module_experts {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One dispatch, which autograd keeps for the way back.
struct Trip final : torch::CustomClassHolder {
  Trip(std::shared_ptr<Experts> over, const Routing& routing) : experts(std::move(over)), plan(experts->plan(routing)) {
    const std::size_t choices = routing.experts.size(), top = static_cast<std::size_t>(routing.options.top_k);
    std::vector<std::int64_t> token_of, row_of(choices, static_cast<std::int64_t>(plan.order.size()));
    for (std::size_t i = 0; i < plan.order.size(); ++i) {
      token_of.push_back(static_cast<std::int64_t>(plan.order[i] / top));
      row_of[plan.order[i]] = static_cast<std::int64_t>(i);
    }
    tokens = torch::tensor(token_of, at::kLong);
    rows = torch::tensor(row_of, at::kLong);
    order = torch::tensor(std::vector<std::int64_t>(plan.order.begin(), plan.order.end()), at::kLong);
    drops = plan.order.size() < choices;
    top_k = static_cast<std::int64_t>(top);
  }

  at::Tensor to_experts(const at::Tensor& near) const {
    const at::Tensor sent = near.contiguous();
    at::Tensor far = at::empty({static_cast<std::int64_t>(plan.rows()), near.size(1)}, near.options());
    experts->to_experts(plan, sent.data_ptr(), far.data_ptr(), element_of(far));
    return far;
  }
  // By choice, and zeros where it was dropped.
  at::Tensor to_choices(const at::Tensor& far) const {
    const at::Tensor sent = far.contiguous();
    at::Tensor near = at::empty({order.size(0) + (drops ? 1 : 0), far.size(1)}, far.options());
    experts->to_tokens(plan, sent.data_ptr(), near.data_ptr(), element_of(near));
    if (drops) near[order.size(0)].zero_();
    return near.index_select(0, rows);
  }

  std::shared_ptr<Experts> experts;
  DispatchPlan plan;
  at::Tensor tokens, order;  // by row: its token, and its choice
  at::Tensor rows;           // by choice: its row, or the one behind the last
  bool drops = false;
  std::int64_t top_k = 1;
};
using TripPointer = c10::intrusive_ptr<Trip>;

inline void keep(AutogradContext* context, const TripPointer& trip) {
  context->saved_data["trip"] = c10::IValue::make_capsule(trip);
}
inline const Trip& kept(AutogradContext* context) {
  return static_cast<const Trip&>(*context->saved_data["trip"].toCapsule());
}

// Rows of tokens to rows of this rank's experts.
struct Dispatch : torch::autograd::Function<Dispatch> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tokens, const TripPointer& trip) {
    keep(context, trip);
    return trip->to_experts(tokens.index_select(0, trip->tokens));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Trip& trip = kept(context);
    const at::Tensor by_choice = trip.to_choices(gradients[0]);
    return {by_choice.view({by_choice.size(0) / trip.top_k, trip.top_k, by_choice.size(1)}).sum(1), at::Tensor()};
  }
};

// Outputs of this rank's experts to rows by choice of this rank's tokens.
struct Return : torch::autograd::Function<Return> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& outputs, const TripPointer& trip) {
    keep(context, trip);
    return trip->to_choices(outputs);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Trip& trip = kept(context);
    return {trip.to_experts(gradients[0].index_select(0, trip.order)), at::Tensor()};
  }
};

// The value as it is, and in backward another loss gets its gradient: 1 times the factor.
struct WithLoss : torch::autograd::Function<WithLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value, const at::Tensor& loss, double factor) {
    context->saved_data["loss"] = loss.detach();
    context->saved_data["factor"] = factor;
    return value.view_as(value);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor loss = context->saved_data["loss"].toTensor();
    return {gradients[0], at::full_like(loss, context->saved_data["factor"].toDouble()), at::Tensor()};
  }
};

}  // namespace module_experts

struct MixtureOptions {
  int experts = 1;
  int top_k = 1;
  std::optional<double> capacity_factor = {};  // as RouterOptions has them
  DropPolicy drop = DropPolicy::arrival;
  bool renormalise = true;
  // So many times the balance loss of each forward joins the loss: in backward, wherever the layer lies in a pipeline.
  // It counts as of one backward of the loss; with micro-batches, divide it by their number. A loss scale of the
  // ModuleStrategy that trains the layer scales it, too.
  double balance = 0;
  ExpertsOptions exchange = {};

  RouterOptions router() const { return {experts, top_k, capacity_factor, drop, renormalise}; }
};

// `Expert` is a module as TORCH_MODULE names it, whose forward() takes rows and returns as many of the same width.
template <class Expert>
class MixtureImpl : public torch::nn::Module, public JoinsLoss {
 public:
  // Collective over the axis.
  MixtureImpl(Communicator& axis, std::int64_t width, const MixtureOptions& options,
              const std::function<Expert(int number)>& make)
      : options_(options),
        experts_(std::make_shared<Experts>(axis, options.experts, static_cast<std::size_t>(width), options.exchange)) {
    static_cast<void>(route(std::vector<float>(static_cast<std::size_t>(options.experts)), options.router()));
    router = register_module("router", torch::nn::Linear(torch::nn::LinearOptions(width, options.experts).bias(false)));
    const int first = axis.rank() * experts_->local_experts();
    const double share = 1.0 / axis.size();
    for (int number = 0; number < options.experts; ++number) {
      Expert expert = make(number);
      if (number < first || number >= first + experts_->local_experts()) continue;
      own.push_back(register_module("expert" + std::to_string(number), expert));
      if (axis.size() == 1) continue;
      for (const at::Tensor& parameter : expert->parameters())
        if (parameter.requires_grad())
          parameter.register_hook([share](const at::Tensor& gradient) { return gradient * share; });
    }
  }

  // Collective over the axis, and so is its backward. x is [..., width].
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor tokens = x.reshape({-1, x.size(-1)});
    const at::Tensor logits = router(tokens);
    const at::Tensor probabilities = logits.softmax(1);
    choose(logits);
    const auto trip = c10::make_intrusive<module_experts::Trip>(experts_, routing_);
    const at::Tensor rows = module_experts::Dispatch::apply(tokens, trip);
    std::vector<at::Tensor> outputs;
    for (std::size_t e = 0; e < own.size(); ++e) {
      const std::size_t begin = trip->plan.begins[e], end = trip->plan.begins[e + 1];
      // Without rows, too: its gradients are zeros then, and come.
      outputs.push_back(
          own[e]->forward(rows.slice(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end))));
    }
    const at::Tensor by_choice = module_experts::Return::apply(at::cat(outputs), trip);
    const at::Tensor weights = weights_of(probabilities);
    at::Tensor result =
        (by_choice.view({tokens.size(0), options_.top_k, tokens.size(1)}) * weights.unsqueeze(2)).sum(1);
    balance_loss_ = balance_loss_of(probabilities);
    if (options_.balance != 0 && at::GradMode::is_enabled())
      result = module_experts::WithLoss::apply(result, balance_loss_, options_.balance * loss_scale());
    return result.view(x.sizes());
  }

  // Of the last forward.
  const Routing& routing() const { return routing_; }
  const at::Tensor& balance_loss() const { return balance_loss_; }
  const Experts& exchange() const { return *experts_; }
  void set_balance(double balance) { options_.balance = balance; }

  torch::nn::Linear router{nullptr};
  std::vector<Expert> own;  // of this rank

 private:
  void choose(const at::Tensor& logits) {
    const at::Tensor floats = logits.detach().to(at::kFloat).contiguous();
    routing_ = route(std::span(floats.data_ptr<float>(), static_cast<std::size_t>(floats.numel())), options_.router());
  }
  // By token and choice; 0 of what was dropped.
  at::Tensor weights_of(const at::Tensor& probabilities) const {
    const auto tokens = static_cast<std::int64_t>(routing_.tokens);
    const at::Tensor experts =
        torch::tensor(std::vector<std::int64_t>(routing_.experts.begin(), routing_.experts.end()), at::kLong);
    at::Tensor weights = probabilities.gather(1, experts.view({tokens, options_.top_k}));
    if (options_.renormalise) weights = weights / weights.sum(1, /*keepdim=*/true);
    if (routing_.dropped() == 0) return weights;
    const at::Tensor kept = torch::tensor(std::vector<std::int64_t>(routing_.kept.begin(), routing_.kept.end()));
    return weights * kept.view({tokens, options_.top_k}).to(weights.scalar_type());
  }
  at::Tensor balance_loss_of(const at::Tensor& probabilities) const {
    std::vector<double> shares;
    for (const std::size_t chosen : routing_.chosen)
      shares.push_back(
          routing_.tokens == 0 ? 0 : static_cast<double>(chosen) / static_cast<double>(routing_.experts.size()));
    const at::Tensor factors = torch::tensor(shares, at::kDouble).to(probabilities.scalar_type());
    const auto tokens = static_cast<double>(std::max<std::size_t>(1, routing_.tokens));
    return (probabilities.sum(0) * factors).sum() * (options_.experts / tokens);
  }

  MixtureOptions options_;
  std::shared_ptr<Experts> experts_;
  Routing routing_;
  at::Tensor balance_loss_;
};

template <class Expert>
using Mixture = torch::nn::ModuleHolder<MixtureImpl<Expert>>;

}  // namespace tutti::train
