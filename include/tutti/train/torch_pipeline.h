// Pipelines of libtorch modules: a stage is a function of tensors, and autograd is its backward.
//
//   tutti::train::ModulePipeline pipeline(mesh.along("pp"), [&](int microbatch, int chunk, const at::Tensor& input) {
//     const at::Tensor x = pipeline_begins ? embed(examples[microbatch]) : input;    // undefined at the first place
//     return blocks->forward(x);                                                     // the last place returns its loss
//   }, {.schedule = tutti::train::PipelineSchedule::one_f_one_b, .microbatches = 8});
//   for (...) {
//     const double loss = pipeline.step();   // gradients add up in the parameters, as of loss.backward()
//     optimizer.step(); optimizer.zero_grad();
//   }
//
// Header-only, needs libtorch, as tutti/torch.h; tutti/train/pipeline.h has the model of use and the settings.
//
// What autograd keeps of a micro-batch for its backward goes when that has run, so a stage holds as much as its
// schedule states. What a stage returns may be sent without a copy: it must not be changed afterwards. Losses of
// micro-batches add up: one that is a mean is divided by the number of micro-batches in the stage's function.
//
// zb-h1 needs backward in two parts. The first goes from the output to the input alone, and remembers the gradient at
// every node that weights hang on; the second begins at those nodes and goes to the weights alone. So no product is
// computed twice, but in a stage that uses one weight at several places: between these gradients are computed again.
// Hooks of tensors inside of a stage run in both parts. Units of stage 3 (torch_units.h) have their weights for one
// backward only: take another schedule for them.
//
// With a ModuleStrategy over the dp axis (tutti/train/torch.h), strategy.set_passes(microbatches) has gradients travel
// as soon as the last micro-batch has added to them.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tutti/torch.h"
#include "tutti/train/pipeline.h"

namespace tutti::train {

// Through one chunk of a stage, as PipelineEngine::forward.
using ModuleStage = std::function<at::Tensor(int microbatch, int chunk, const at::Tensor& input)>;

namespace module_pipeline {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

[[noreturn]] inline void refuse(const std::string& words) { throw Error(ErrorCode::invalid_argument, words); }

inline at::ScalarType scalar_type_of(DType type) {
  switch (type) {
    case DType::float16: return at::kHalf;
    case DType::bfloat16: return at::kBFloat16;
    case DType::float32: return at::kFloat;
    case DType::float64: return at::kDouble;
    case DType::complex64: return at::kComplexFloat;
    case DType::complex128: return at::kComplexDouble;
    default: refuse("activations of type " + std::string(name_of(type)) + " have no gradients; hand on floats");
  }
}

// The tensor's own memory, where its elements lie in order.
inline PipelineArray array_of(const at::Tensor& tensor) {
  tensor_memory::check("a stage's tensor", tensor, tensor_memory::Use::read);
  if (!tensor.is_floating_point() && !tensor.is_complex())
    refuse(std::string("a stage made a tensor of type ") + c10::toString(tensor.scalar_type()) +
           ", which has no gradient; hand on floats");
  const auto kept = std::make_shared<at::Tensor>(tensor.detach().resolve_conj().resolve_neg().contiguous());
  return {{element_of(*kept).dtype(), kept->sizes().vec()}, std::shared_ptr<void>(kept, kept->data_ptr())};
}

inline at::Tensor tensor_of(const PipelineArray& array) {
  if (array.empty()) return {};
  return torch::from_blob(
      array.memory.get(), array.shape.extents, [memory = array.memory](void* /*tensor*/) {},
      at::TensorOptions().dtype(scalar_type_of(array.shape.type)));
}

// From roots to everything, or to the ends alone; gradients are added to leaves, or else returned by end.
inline variable_list run_back(const edge_list& roots, const variable_list& gradients, bool keeps_graph, bool adds,
                              const edge_list& ends = {}) {
  return torch::autograd::Engine::get_default_engine().execute(roots, gradients, keeps_graph, /*create_graph=*/false,
                                                               adds, ends);
}

// Remembers the gradients that come to a node first. Whenever it runs again those are what it gets.
class RememberedGradients final : public torch::autograd::FunctionPreHook {
 public:
  explicit RememberedGradients(std::shared_ptr<variable_list> kept) : kept_(std::move(kept)) {}
  variable_list operator()(const variable_list& gradients) override {
    if (kept_->empty()) *kept_ = gradients;
    return *kept_;
  }

 private:
  std::shared_ptr<variable_list> kept_;
};

// A backward in two parts: from the output to the input, and from where weights hang on that way to the weights.
class SplitBackward {
 public:
  SplitBackward(Edge output, Edge input) : output_(std::move(output)), input_(std::move(input)) {
    find_users();
    find_way();
    for (const Edge& leaf : leaves_) add_leaf(leaf);
  }

  at::Tensor input_gradient(const at::Tensor& gradient) {
    return run_back({output_}, {gradient}, /*keeps_graph=*/true, /*adds=*/false, {input_})[0];
  }
  void weight_gradient() {
    for (const Group& group : groups_) {
      edge_list roots;
      variable_list gradients;
      for (const auto& [node, kept] : group.beginnings) {
        for (std::size_t i = 0; i < kept->size(); ++i) {
          if (!(*kept)[i].defined()) continue;
          roots.emplace_back(owners_.at(node), static_cast<std::uint32_t>(i));
          gradients.push_back((*kept)[i]);
        }
      }
      if (!roots.empty()) run_back(roots, gradients, /*keeps_graph=*/true, /*adds=*/true, group.weights);
    }
  }

 private:
  using NodePointer = decltype(Edge::function);
  // Weights that hang on the same nodes.
  struct Group {
    std::map<Node*, std::shared_ptr<variable_list>> beginnings;
    edge_list weights;
  };

  // Who hands gradients to whom, from the output on; leaves in the order in which they are found.
  void find_users() {
    std::vector<Node*> open{output_.function.get()};
    owners_[open.back()] = output_.function;
    while (!open.empty()) {
      Node* const node = open.back();
      open.pop_back();
      for (const Edge& next : node->next_edges()) {
        if (!next.is_valid()) continue;
        Node* const to = next.function.get();
        users_[to].push_back(node);
        if (!owners_.emplace(to, next.function).second) continue;
        open.push_back(to);
        if (dynamic_cast<torch::autograd::AccumulateGrad*>(to) != nullptr && to != input_.function.get())
          leaves_.emplace_back(next.function, 0);
      }
    }
  }
  // Nodes from which gradients come to the input.
  void find_way() {
    std::vector<Node*> open{input_.function.get()};
    while (!open.empty()) {
      Node* const node = open.back();
      open.pop_back();
      if (!way_.insert(node).second) continue;
      for (Node* const user : users_[node]) open.push_back(user);
    }
  }
  // Finds the nodes of the way that hand gradients to the leaf, and puts it beside those that hang on them, too.
  void add_leaf(const Edge& leaf) {
    std::unordered_set<Node*> seen, beginnings;
    std::vector<Node*> open{leaf.function.get()};
    while (!open.empty()) {
      Node* const node = open.back();
      open.pop_back();
      if (!seen.insert(node).second) continue;
      if (way_.contains(node)) {
        beginnings.insert(node);
        continue;
      }
      for (Node* const user : users_[node]) open.push_back(user);
    }
    Group joined;
    joined.weights.push_back(leaf);
    std::vector<Group> others;
    for (Group& group : groups_) {
      bool shares = false;
      for (Node* const node : beginnings) shares = shares || group.beginnings.contains(node);
      if (!shares) {
        others.push_back(std::move(group));
        continue;
      }
      joined.beginnings.merge(group.beginnings);
      joined.weights.insert(joined.weights.end(), group.weights.begin(), group.weights.end());
    }
    groups_ = std::move(others);
    for (Node* const node : beginnings) {
      if (joined.beginnings.contains(node)) continue;
      const auto kept = std::make_shared<variable_list>();
      joined.beginnings[node] = kept;
      node->add_pre_hook(std::make_unique<RememberedGradients>(kept));
    }
    groups_.push_back(std::move(joined));
  }

  Edge output_, input_;
  std::unordered_map<Node*, NodePointer> owners_;
  std::unordered_map<Node*, std::vector<Node*>> users_;
  std::unordered_set<Node*> way_;
  edge_list leaves_;
  std::vector<Group> groups_;
};

// What is kept of a micro-batch in a chunk, from its forward to the end of its backward. Not the output itself: where
// autograd does not need it, it goes when it has been sent.
struct KeptPass {
  at::Tensor input;
  Edge output;  // none where nothing in the stage has a gradient
  at::Tensor gradient;
  std::optional<SplitBackward> split;
};

}  // namespace module_pipeline

class ModulePipeline {
 public:
  // Collective.
  ModulePipeline(Communicator& stages, ModuleStage stage, const PipelineOptions& options)
      : state_(std::make_unique<State>()), pipeline_(make_pipeline(stages, std::move(stage), options, *state_)) {}

  // Collective: all micro-batches, forward and backward. Returns the sum of their losses on the last stage, else 0.
  double step() {
    state_->begin();
    pipeline_.step();
    return state_->loss;
  }
  // Collective: forward alone, without gradients; the sum of losses as of step().
  double evaluate() {
    state_->begin();
    pipeline_.evaluate();
    return state_->loss;
  }
  // Collective over the first and the last stage, behind step(), with the weight that both have (tied embeddings): its
  // gradient becomes the sum of both. Others need not call, and do nothing. Under a ModuleStrategy the weight is held:
  // strategy.hold(weight) once, and behind this strategy.ready(weight).
  void reduce_tied(const at::Tensor& weight) {
    const bool is_end = pipeline_.is_first() || pipeline_.is_last(pipeline_.options().chunks - 1);
    if (pipeline_.stages() == 1 || !is_end) return;
    if (!weight.grad().defined()) weight.mutable_grad() = at::zeros_like(weight);
    const tensor_memory::Lent memory("reduce_tied", weight.grad(), tensor_memory::Use::written);
    pipeline_.reduce_tied({.verb = Verb::all_reduce,
                           .input = memory.data(),
                           .output = memory.data(),
                           .input_count = memory.count(),
                           .output_count = memory.count(),
                           .element = memory.element()});
    memory.give_back();
  }

  // For what it says and has called, and where this rank is.
  const Pipeline& pipeline() const { return pipeline_; }
  // Micro-batches that something is kept of for backward, at most, since it was made.
  std::size_t most_kept() const { return state_->most_kept; }

 private:
  struct State {
    void begin() {
      loss = 0;
      kept.clear();
    }

    PipelineArray forward(int microbatch, int chunk, const PipelineArray& array, bool is_last) {
      const torch::AutoGradMode records(true);
      module_pipeline::KeptPass& pass = kept[{microbatch, chunk}];
      most_kept = std::max(most_kept, kept.size());
      pass.input = module_pipeline::tensor_of(array);
      if (pass.input.defined()) pass.input.set_requires_grad(true);
      const at::Tensor output = stage(microbatch, chunk, pass.input);
      if (output.defined() && output.requires_grad()) pass.output = torch::autograd::impl::gradient_edge(output);
      if (!is_last) return module_pipeline::array_of(output);
      add_loss(output);
      pass.gradient = at::ones_like(output, output.options().requires_grad(false));
      return {};
    }
    PipelineArray evaluate(int microbatch, int chunk, const PipelineArray& array, bool is_last) {
      const at::NoGradGuard quiet;
      const at::Tensor output = stage(microbatch, chunk, module_pipeline::tensor_of(array));
      if (!is_last) return module_pipeline::array_of(output);
      add_loss(output);
      return {};
    }
    void add_loss(const at::Tensor& output) {
      if (!output.defined() || output.numel() != 1)
        module_pipeline::refuse("the last place of the model returned " +
                                (output.defined() ? std::to_string(output.numel()) + " numbers" : "nothing") +
                                "; it returns its loss, one number");
      loss += output.item<double>();
    }

    PipelineArray backward(int microbatch, int chunk, const PipelineArray& array) {
      module_pipeline::KeptPass pass = std::move(kept.extract({microbatch, chunk}).mapped());
      if (!array.empty()) pass.gradient = module_pipeline::tensor_of(array);
      if (pass.output.is_valid())
        module_pipeline::run_back({pass.output}, {pass.gradient}, /*keeps_graph=*/false, /*adds=*/true);
      return pass.input.defined() ? array_or_zeros(pass.input.grad(), pass.input) : PipelineArray();
    }
    // At the first place there is no input to have a gradient, and the second part is all of it.
    PipelineArray input_gradient(int microbatch, int chunk, const PipelineArray& array) {
      module_pipeline::KeptPass& pass = kept.at({microbatch, chunk});
      if (!array.empty()) pass.gradient = module_pipeline::tensor_of(array);
      if (!pass.input.defined()) return {};
      if (!pass.output.is_valid()) return array_or_zeros({}, pass.input);
      pass.split.emplace(pass.output, torch::autograd::impl::gradient_edge(pass.input));
      return array_or_zeros(pass.split->input_gradient(pass.gradient), pass.input);
    }
    void weight_gradient(int microbatch, int chunk) {
      module_pipeline::KeptPass pass = std::move(kept.extract({microbatch, chunk}).mapped());
      if (pass.split) {
        pass.split->weight_gradient();
      } else if (pass.output.is_valid()) {
        module_pipeline::run_back({pass.output}, {pass.gradient}, /*keeps_graph=*/false, /*adds=*/true);
      }
    }

    // What does not depend on its input has a gradient of zeros.
    static PipelineArray array_or_zeros(const at::Tensor& gradient, const at::Tensor& input) {
      return module_pipeline::array_of(gradient.defined() ? gradient : at::zeros_like(input.detach()));
    }

    ModuleStage stage;
    std::map<std::pair<int, int>, module_pipeline::KeptPass> kept;  // by micro-batch and chunk
    std::size_t most_kept = 0;
    double loss = 0;
  };

  static Pipeline make_pipeline(Communicator& stages, ModuleStage stage, const PipelineOptions& options, State& state) {
    state.stage = std::move(stage);
    const auto is_last = [last = stages.rank() + 1 == stages.size(), chunks = options.chunks](int chunk) {
      return last && chunk + 1 == chunks;
    };
    PipelineEngine engine;
    engine.forward = [&state, is_last](int microbatch, int chunk, const PipelineArray& input) {
      return state.forward(microbatch, chunk, input, is_last(chunk));
    };
    engine.evaluate = [&state, is_last](int microbatch, int chunk, const PipelineArray& input) {
      return state.evaluate(microbatch, chunk, input, is_last(chunk));
    };
    engine.backward = [&state](int microbatch, int chunk, const PipelineArray& gradient) {
      return state.backward(microbatch, chunk, gradient);
    };
    engine.input_gradient = [&state](int microbatch, int chunk, const PipelineArray& gradient) {
      return state.input_gradient(microbatch, chunk, gradient);
    };
    engine.weight_gradient = [&state](int microbatch, int chunk) { state.weight_gradient(microbatch, chunk); };
    return Pipeline(stages, std::move(engine), options);
  }

  std::unique_ptr<State> state_;
  Pipeline pipeline_;
};

}  // namespace tutti::train
