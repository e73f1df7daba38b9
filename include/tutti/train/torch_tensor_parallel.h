// Tensor and sequence parallel for modules of libtorch: layers cut over the ranks of an axis, with their backward.
//
//   auto tp = std::make_shared<tutti::train::TensorParallel>(mesh.along("tp"));
//   up = register_module("up", ColumnParallelLinear(tp, torch::nn::Linear(width, 4 * width)));
//   down = register_module("down", RowParallelLinear(tp, torch::nn::Linear(4 * width, width)));
//   ...
//   x = x + down(torch::gelu(up(norm(x))));           // one all_reduce forward, one backward
//
// Every module is made of the whole one and keeps this rank's part of it, under the same names: from one seed all ranks
// make the same whole, so that the number of ranks does not change where training starts. Between a product cut by
// columns and one cut by rows a rank has its part of the hidden numbers; everywhere else all ranks have the same.
//
// Sequence parallel: with TensorParallelOptions::sequence tokens are cut, too, wherever all ranks would have the same.
// Tokens are all dimensions but the last, as rows: a rank has an even part of them, {tokens / ranks, width}. Weights
// that all ranks hold there see only some tokens: their gradients are summed (SequenceLayerNorm, summed_gradient()).
//
// Header-only, needs libtorch. Gradients of a weight are complete when autograd has set them, so that any strategy over
// another axis takes them as they are; ModuleStrategy knows which parameters are cut, and counts each once in the norm.
// Threads: as the communicator of the axis; forward and backward of all modules over one TensorParallel by one thread.
#pragma once

#include <torch/csrc/autograd/custom_function.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/torch.h"
#include "tutti/train/parameters.h"
#include "tutti/train/tensor_parallel.h"

namespace tutti::train {

using TensorRanks = std::shared_ptr<TensorParallel>;

struct TensorParallelOptions {
  bool sequence = false;  // what all ranks would have alike is cut by tokens
  // Matrices that lie one behind the other in a weight's rows and are cut each by itself: 3 for the queries, keys and
  // values of attention. ColumnParallelLinear alone.
  std::int64_t stacked = 1;
  // ColumnParallelLinear: its outputs are a vocabulary's, which need not be cut evenly.
  bool vocabulary = false;
  // RowParallelLinear: its result is computed and summed in so many pieces, each on its way while the next is computed.
  // Can pay where somebody else than the rank's own core moves bytes; bench/torch_train.py compares.
  std::int64_t pieces = 1;
};

namespace tensor_parallel {

// What a node of autograd keeps of a crossing or a layer.
struct Kept : torch::CustomClassHolder {
  Kept(TensorRanks by_ranks, Crossing by, TensorParallelOptions with)
      : ranks(std::move(by_ranks)), crossing(by), options(with) {}
  TensorRanks ranks;
  Crossing crossing;
  TensorParallelOptions options;
};

inline void keep(torch::autograd::AutogradContext* context, const TensorRanks& ranks, Crossing crossing,
                 const TensorParallelOptions& options = {}) {
  context->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(ranks, crossing, options));
}
inline const Kept& kept_of(torch::autograd::AutogradContext* context) {
  // The capsule keeps it as long as the context lives.
  return static_cast<const Kept&>(*context->saved_data["kept"].toCapsule());
}

inline CutArray array_of(const at::Tensor& whole, std::int64_t dimension) {
  CutArray array{.type = element_of(whole).dtype()};
  for (std::int64_t i = 0; i < whole.dim(); ++i) {
    const auto length = static_cast<std::size_t>(whole.size(i));
    (i < dimension ? array.before : i == dimension ? array.extent : array.behind) *= length;
  }
  return array;
}

// The crossing of a tensor along a dimension, into a new one. No gradients.
inline at::Tensor crossed(TensorParallel& ranks, Crossing crossing, const at::Tensor& input, std::int64_t dimension) {
  if (ranks.size() == 1 || crossing == Crossing::copy) return input;
  const tensor_memory::Lent from("a crossing", input, tensor_memory::Use::read);
  std::vector<std::int64_t> sizes = input.sizes().vec();
  const bool gathers = crossing == Crossing::gather || crossing == Crossing::gather_sequence;
  if (gathers) {
    sizes[static_cast<std::size_t>(dimension)] *= ranks.size();
  } else if (crossing != Crossing::reduce) {
    sizes[static_cast<std::size_t>(dimension)] =
        ranks.even_part_of(input.size(dimension), "dimension " + std::to_string(dimension) + " of an activation").count;
  }
  at::Tensor output = at::empty(sizes, input.options());
  ranks.cross(crossing, from.data(), output.data_ptr(), array_of(gathers ? output : input, dimension));
  return output;
}

// Every rank has some of it.
inline CutPart vocabulary_part(const TensorParallel& ranks, std::int64_t vocabulary) {
  if (vocabulary >= ranks.size()) return ranks.part_of(vocabulary);
  throw Error(ErrorCode::invalid_argument, "axis \"" + ranks.axis() + "\" of " + std::to_string(ranks.size()) +
                                               " ranks cannot cut a vocabulary of " + std::to_string(vocabulary) +
                                               "; every rank needs some of it");
}

// Nobody has what lies outside, and a number that nobody has would be taken for one of chance zero.
inline void check_numbers(const at::Tensor& numbers, std::int64_t vocabulary, const char* what) {
  if (numbers.numel() == 0) return;
  const std::int64_t least = numbers.min().item<std::int64_t>(), most = numbers.max().item<std::int64_t>();
  if (least >= 0 && most < vocabulary) return;
  throw Error(ErrorCode::invalid_argument, std::string(what) + " " + std::to_string(least < 0 ? least : most) +
                                               " is not in a vocabulary of " + std::to_string(vocabulary) +
                                               "; leave out rows that are not to count");
}

inline void check_at_least_one(std::int64_t number, const char* what) {
  if (number >= 1) return;
  throw Error(ErrorCode::invalid_argument,
              std::string("TensorParallelOptions: ") + what + " of " + std::to_string(number) + "; give 1 at least");
}

// Rows in one piece.
inline at::Tensor rows_of(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}).contiguous(); }
inline at::Tensor with_last(const at::Tensor& rows, const at::Tensor& like) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes.back() = rows.size(-1);
  return rows.view(sizes);
}

struct Cross : torch::autograd::Function<Cross> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const TensorRanks& ranks, Crossing crossing, std::int64_t dimension) {
    keep(context, ranks, crossing);
    context->saved_data["dimension"] = dimension;
    return crossed(*ranks, crossing, input, dimension);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const Kept& kept = kept_of(context);
    return {crossed(*kept.ranks, conjugate(kept.crossing), gradients[0], context->saved_data["dimension"].toInt()),
            {},
            {},
            {}};
  }
};

// y = x Aᵀ + b with this rank's rows of A. Gradients of x are on their way while that of A is computed; in sequence
// parallel x is gathered once more for it, which takes the place of keeping the whole.
struct ColumnProduct : torch::autograd::Function<ColumnProduct> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias, const TensorRanks& ranks,
                            const TensorParallelOptions& options) {
    keep(context, ranks, Crossing::copy, options);
    const at::Tensor rows = rows_of(input);
    context->save_for_backward({rows, weight});
    context->saved_data["shape"] = input.sizes().vec();
    context->saved_data["bias"] = bias.has_value();
    const at::Tensor whole = options.sequence ? crossed(*ranks, Crossing::gather_sequence, rows, 0) : rows;
    const at::Tensor product = at::linear(whole, weight, bias);
    return options.sequence ? product : with_last(product, input);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const Kept& kept = kept_of(context);
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &weight = saved[1];
    const at::Tensor given = rows_of(gradients[0]);
    const bool sequence = kept.options.sequence && kept.ranks->size() > 1;
    at::Tensor whole = rows, summed, input;
    std::vector<Work> works(1);  // behind all that they read and write
    if (sequence) {
      whole = at::empty({given.size(0), rows.size(1)}, rows.options());
      works[0] = kept.ranks->start(Crossing::gather_sequence, rows.data_ptr(), whole.data_ptr(), array_of(whole, 0));
    }
    input = given.mm(weight);
    wait_all(works);
    if (sequence) {
      summed = at::empty_like(rows);
      works[0] =
          kept.ranks->start(Crossing::reduce_scatter_sequence, input.data_ptr(), summed.data_ptr(), array_of(input, 0));
    } else {
      summed = input;
      works[0] = kept.ranks->start(Crossing::reduce, input.data_ptr(), input.data_ptr(), array_of(input, 0));
    }
    const at::Tensor of_weight = given.t().mm(whole);
    const at::Tensor of_bias = context->saved_data["bias"].toBool() ? given.sum(0) : at::Tensor();
    wait_all(works);
    return {summed.view(context->saved_data["shape"].toIntVector()), of_weight, of_bias, {}, {}};
  }
};

// y = sum over ranks of x Bᵀ, with this rank's columns of B.
struct RowProduct : torch::autograd::Function<RowProduct> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const TensorRanks& ranks, const TensorParallelOptions& options) {
    keep(context, ranks, options.sequence ? Crossing::reduce_scatter_sequence : Crossing::reduce, options);
    const at::Tensor rows = rows_of(input);
    context->save_for_backward({rows, weight});
    context->saved_data["shape"] = input.sizes().vec();
    if (options.sequence) return crossed(*ranks, Crossing::reduce_scatter_sequence, rows.mm(weight.t()), 0);
    return with_last(summed_product(*ranks, rows, weight, options.pieces), input);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const Kept& kept = kept_of(context);
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor given = crossed(*kept.ranks, conjugate(kept.crossing), rows_of(gradients[0]), 0);
    return {given.mm(saved[1]).view(context->saved_data["shape"].toIntVector()), given.t().mm(saved[0]), {}, {}};
  }

 private:
  static at::Tensor summed_product(TensorParallel& ranks, const at::Tensor& rows, const at::Tensor& weight,
                                   std::int64_t pieces) {
    at::Tensor output = at::empty({rows.size(0), weight.size(0)}, rows.options());
    const at::Tensor turned = weight.t();
    std::vector<Work> works;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t begin = rows.size(0) * piece / pieces, end = rows.size(0) * (piece + 1) / pieces;
      if (begin == end) continue;
      at::Tensor part = output.slice(0, begin, end);
      at::mm_out(part, rows.slice(0, begin, end), turned);
      const CutArray array = array_of(part, 0);
      if (pieces == 1) {
        ranks.cross(Crossing::reduce, part.data_ptr(), part.data_ptr(), array);
      } else {
        works.push_back(ranks.start(Crossing::reduce, part.data_ptr(), part.data_ptr(), array));
      }
    }
    wait_all(works);
    return output;
  }
};

struct SumGradients : torch::autograd::Function<SumGradients> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, at::TensorList inputs,
                                                const TensorRanks& ranks) {
    keep(context, ranks, Crossing::copy);
    return inputs.vec();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    std::vector<at::Tensor> flat;
    std::vector<std::int64_t> lengths;
    for (const at::Tensor& gradient : gradients) {
      flat.push_back(gradient.reshape({-1}));
      lengths.push_back(gradient.numel());
    }
    const at::Tensor sum = crossed(*kept_of(context).ranks, Crossing::reduce, at::cat(flat), 0);
    torch::autograd::variable_list summed = sum.split_with_sizes(lengths);
    for (std::size_t i = 0; i < summed.size(); ++i) summed[i] = summed[i].view(gradients[i].sizes());
    summed.emplace_back();
    return summed;
  }
};

// The mean over rows; the gradient of the logits is made in forward, in the place of their exponentials.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, const TensorRanks& ranks, std::int64_t vocabulary) {
    const CutPart part = ranks->part_of(vocabulary);
    if (logits.dim() != 2 || logits.size(1) != part.count || targets.dim() != 1 || targets.size(0) != logits.size(0)) {
      throw Error(ErrorCode::invalid_argument,
                  "vocabulary_cross_entropy: logits are {rows, columns of this rank} and targets {rows}; of a "
                  "vocabulary of " +
                      std::to_string(vocabulary) + " this rank of axis \"" + ranks->axis() + "\" has " +
                      std::to_string(part.count) + " columns, and logits have " + std::to_string(logits.size(-1)));
    }
    check_numbers(targets, vocabulary, "vocabulary_cross_entropy: target");
    at::Tensor largest = logits.amax(1, /*keepdim=*/true);
    const auto type = element_of(logits).dtype();
    const auto rows = static_cast<std::size_t>(logits.size(0));
    ranks->reduce(largest.data_ptr(), rows, type, ReduceOp::maximum);
    at::Tensor shares = logits - largest;
    const at::Tensor own = targets - part.first, is_own = own.ge(0).logical_and(own.lt(part.count));
    const at::Tensor column = own.clamp(0, std::max<std::int64_t>(0, part.count - 1)).unsqueeze(1);
    at::Tensor sums = at::empty({2, logits.size(0)}, logits.options());
    sums[1].copy_(shares.gather(1, column).squeeze(1).masked_fill(is_own.logical_not(), 0));
    shares.exp_();
    sums[0].copy_(shares.sum(1));
    ranks->reduce(sums.data_ptr(), 2 * rows, type, ReduceOp::sum);
    const at::Tensor loss = (sums[0].log() - sums[1]).mean();
    shares.div_(sums[0].unsqueeze(1));
    shares.scatter_add_(1, column, is_own.to(logits.scalar_type()).neg().unsqueeze(1));
    context->save_for_backward({shares.div_(static_cast<double>(rows))});
    return loss;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {context->get_saved_variables()[0] * gradients[0], {}, {}, {}};
  }
};

}  // namespace tensor_parallel

// ---- Functions.

// A crossing of a tensor along a dimension, with its conjugate as backward.
inline at::Tensor cross(const TensorRanks& ranks, Crossing crossing, const at::Tensor& input,
                        std::int64_t dimension = 0) {
  if (ranks->size() == 1) return input;
  return tensor_parallel::Cross::apply(input, ranks, crossing, dimension < 0 ? dimension + input.dim() : dimension);
}

// The same weights, whose gradients become the sum of all ranks': for weights that all of them hold and use for
// different tokens.
inline std::vector<at::Tensor> summed_gradients(const TensorRanks& ranks, const std::vector<at::Tensor>& weights) {
  if (ranks->size() == 1) return weights;
  return tensor_parallel::SumGradients::apply(at::TensorList(weights), ranks);
}
inline at::Tensor summed_gradient(const TensorRanks& ranks, const at::Tensor& weight) {
  return summed_gradients(ranks, {weight})[0];
}

// The mean over rows of logits whose columns are cut as TensorParallel::part_of(vocabulary) does it; the same on all
// ranks, and so are the targets.
inline at::Tensor vocabulary_cross_entropy(const TensorRanks& ranks, const at::Tensor& logits,
                                           const at::Tensor& targets, std::int64_t vocabulary) {
  return tensor_parallel::CrossEntropy::apply(logits, targets, ranks, vocabulary);
}

// This rank's tokens of what all ranks have, as rows.
inline at::Tensor own_tokens(const TensorRanks& ranks, const at::Tensor& tokens) {
  const CutPart part = ranks->even_part_of(tokens.size(0), "the tokens of a batch");
  return tokens.slice(0, part.first, part.first + part.count);
}

// ---- Modules.

// A module some of whose parameters are parts of larger ones.
class CutModule {
 public:
  virtual ~CutModule() = default;
  const std::map<std::string, ParameterPart>& cut_parameters() const { return cut_; }
  const TensorRanks& ranks() const { return ranks_; }

 protected:
  explicit CutModule(TensorRanks ranks) : ranks_(std::move(ranks)) {}

  // This rank's part of a parameter, seen as {before, extent, behind}, in memory of its own.
  at::Tensor part_of(const std::string& name, const at::Tensor& whole, std::int64_t before, std::int64_t extent,
                     const CutPart& part) {
    const std::int64_t behind = whole.numel() / std::max<std::int64_t>(1, before * extent);
    const auto numbers = [&](std::int64_t places) { return static_cast<std::size_t>(places * behind); };
    cut_[name] = {whole.sizes().vec(), numbers(extent), numbers(part.first), numbers(part.count)};
    return whole.detach().reshape({before, extent, behind}).narrow(1, part.first, part.count).clone();
  }

  TensorRanks ranks_;
  std::map<std::string, ParameterPart> cut_;
};

// All cut parameters of a module, by their names there, and the ranks that they are cut over; nullptr where none is.
struct CutParameters {
  std::map<std::string, ParameterPart> by_name;
  TensorRanks ranks;

  explicit CutParameters(const torch::nn::Module& module) { visit(module, ""); }

 private:
  // One rank has wholes.
  void take(const CutModule& cut, const std::string& prefix) {
    if (cut.ranks()->size() == 1) return;
    if (ranks && ranks != cut.ranks()) {
      throw Error(ErrorCode::invalid_argument, "\"" + prefix + "\" is cut over axis \"" + cut.ranks()->axis() +
                                                   "\" by another TensorParallel than the modules before; make one "
                                                   "for a model, and give it to all its modules");
    }
    for (const auto& [name, parameter] : cut.cut_parameters()) by_name[prefix + name] = parameter;
    ranks = cut.ranks();
  }
  void visit(const torch::nn::Module& module, const std::string& prefix) {
    if (const auto* cut = dynamic_cast<const CutModule*>(&module)) take(*cut, prefix);
    for (const auto& child : module.named_children()) visit(*child.value(), prefix + child.key() + ".");
  }
};

// Each rank has some of the outputs. What goes in is the same on all ranks, or this rank's tokens.
class ColumnParallelLinearImpl : public torch::nn::Module, public CutModule {
 public:
  ColumnParallelLinearImpl(TensorRanks ranks, const torch::nn::Linear& whole, const TensorParallelOptions& options = {})
      : CutModule(std::move(ranks)), options_(options) {
    const std::int64_t outputs = whole->weight.size(0), inputs = whole->weight.size(1);
    tensor_parallel::check_at_least_one(options_.stacked, "stacked");
    const std::int64_t extent = outputs / options_.stacked;
    if (extent * options_.stacked != outputs)
      throw Error(ErrorCode::invalid_argument, std::to_string(outputs) + " outputs are not " +
                                                   std::to_string(options_.stacked) +
                                                   " stacked layers of one size; give a number that divides them");
    const CutPart part = options_.vocabulary ? tensor_parallel::vocabulary_part(*ranks_, extent)
                                             : ranks_->even_part_of(extent, "the outputs of a product cut by columns");
    weight = register_parameter("weight", part_of("weight", whole->weight, options_.stacked, extent, part)
                                              .reshape({options_.stacked * part.count, inputs}));
    if (!whole->bias.defined()) return;
    bias = register_parameter("bias", part_of("bias", whole->bias, options_.stacked, extent, part).reshape({-1}));
  }
  at::Tensor forward(const at::Tensor& input) {
    return tensor_parallel::ColumnProduct::apply(input, weight, bias.defined() ? std::optional(bias) : std::nullopt,
                                                 ranks_, options_);
  }

  at::Tensor weight, bias;

 private:
  TensorParallelOptions options_;
};
TORCH_MODULE(ColumnParallelLinear);

// Each rank has some of the inputs, the outputs that a ColumnParallelLinear left it with.
class RowParallelLinearImpl : public torch::nn::Module, public CutModule {
 public:
  RowParallelLinearImpl(TensorRanks ranks, const torch::nn::Linear& whole, const TensorParallelOptions& options = {})
      : CutModule(std::move(ranks)), options_(options) {
    const std::int64_t outputs = whole->weight.size(0), inputs = whole->weight.size(1);
    tensor_parallel::check_at_least_one(options_.pieces, "pieces");
    const CutPart part = ranks_->even_part_of(inputs, "the inputs of a product cut by rows");
    weight = register_parameter("weight",
                                part_of("weight", whole->weight, outputs, inputs, part).reshape({outputs, part.count}));
    if (whole->bias.defined()) bias = register_parameter("bias", whole->bias.detach().clone());
  }
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor sum = tensor_parallel::RowProduct::apply(input, weight, ranks_, options_);
    if (!bias.defined()) return sum;
    return sum + (options_.sequence ? summed_gradient(ranks_, bias) : bias);
  }

  at::Tensor weight, bias;

 private:
  TensorParallelOptions options_;
};
TORCH_MODULE(RowParallelLinear);

// Each rank has the rows of some of the vocabulary, which need not be evenly cut. Ids, of any shape, are the same on
// all ranks; the result has one more dimension, or is this rank's tokens as rows.
class VocabularyParallelEmbeddingImpl : public torch::nn::Module, public CutModule {
 public:
  VocabularyParallelEmbeddingImpl(TensorRanks ranks, const torch::nn::Embedding& whole,
                                  const TensorParallelOptions& options = {})
      : CutModule(std::move(ranks)),
        options_(options),
        vocabulary_(whole->weight.size(0)),
        part_(tensor_parallel::vocabulary_part(*ranks_, vocabulary_)) {
    const std::int64_t rows = whole->weight.size(0), width = whole->weight.size(1);
    weight =
        register_parameter("weight", part_of("weight", whole->weight, 1, rows, part_).reshape({part_.count, width}));
  }
  at::Tensor forward(const at::Tensor& ids) {
    if (ranks_->size() == 1)
      return options_.sequence ? at::embedding(weight, ids.flatten()) : at::embedding(weight, ids);
    tensor_parallel::check_numbers(ids, vocabulary_, "VocabularyParallelEmbedding: id");
    const at::Tensor own = (options_.sequence ? ids.flatten() : ids) - part_.first;
    const at::Tensor others = own.lt(0).logical_or(own.ge(part_.count));
    const at::Tensor found = at::embedding(weight, own.masked_fill(others, 0)).masked_fill(others.unsqueeze(-1), 0);
    return cross(ranks_, options_.sequence ? Crossing::reduce_scatter_sequence : Crossing::reduce, found);
  }

  at::Tensor weight;

 private:
  TensorParallelOptions options_;
  std::int64_t vocabulary_;
  CutPart part_;
};
TORCH_MODULE(VocabularyParallelEmbedding);

// A norm of tokens, whose factors all ranks hold: in sequence parallel each has its own tokens, and gradients are
// summed.
class SequenceLayerNormImpl : public torch::nn::Module {
 public:
  SequenceLayerNormImpl(TensorRanks ranks, const torch::nn::LayerNorm& whole, const TensorParallelOptions& options = {})
      : ranks_(std::move(ranks)), options_(options), epsilon_(whole->options.eps()) {
    weight = register_parameter("weight", whole->weight.detach().clone());
    bias = register_parameter("bias", whole->bias.detach().clone());
  }
  at::Tensor forward(const at::Tensor& input) {
    std::vector<at::Tensor> both{weight, bias};
    if (options_.sequence) both = summed_gradients(ranks_, both);
    return at::layer_norm(input, {input.size(-1)}, both[0], both[1], epsilon_);
  }

  at::Tensor weight, bias;

 private:
  TensorRanks ranks_;
  TensorParallelOptions options_;
  double epsilon_;
};
TORCH_MODULE(SequenceLayerNorm);

}  // namespace tutti::train
