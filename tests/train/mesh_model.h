// A model on arrays that is cut over all axes of a mesh at once: blocks lie on stages along pp, layers are cut along
// tp, experts lie along ep, and ranks along dp and ep have examples of their own. On a mesh of one rank it is the model
// of one process.
//
//   a block    z = x + tanh(x A + a) B + b;   y = z + sum over the best experts of weight * tanh(z E)
//   at the end logits y C, and their cross entropy
//
// A and C are cut by columns, B by rows; weights are the softmax of the best of z R. Micro-batches have the same tokens
// whatever the mesh, so that routers drop the same ones.
#pragma once

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.h"
#include "train/array_engine.h"
#include "train/matrices.h"
#include "train/ones.h"
#include "tutti/train/experts.h"
#include "tutti/train/mesh.h"
#include "tutti/train/pipeline.h"
#include "tutti/train/tensor_parallel.h"

namespace tutti::testing {

struct MeshModelShape {
  std::size_t tokens = 4, width = 4, hidden = 4, vocabulary = 5;  // tokens of a micro-batch
  std::size_t layers = 1;
  train::RouterOptions router = {.experts = 2, .top_k = 2};
  int microbatches = 1;  // of a replica
  unsigned seed = 1;
};

// A reduction that is left out, for tests that must find it.
enum class Forgotten {
  nothing,
  mean_of_replicas,
  mean_of_expert,
  share_of_expert,
  sum_of_input,
  sum_of_tokens,
  gradients_of_rows
};

// How it is trained, which changes no result.
struct MeshTraining {
  train::PipelineSchedule schedule = train::PipelineSchedule::one_f_one_b;
  int chunks = 1;
  bool sequence = false;          // tokens are cut along tp, too
  std::optional<int> stage = {};  // of ZeRO, by train::Strategy; without it gradients are averaged by hand
  Forgotten forgotten = Forgotten::nothing;
};

// So low, and weights at first so small, that rounding does not grow from step to step.
inline constexpr double kMeshRate = 0.1;

template <class T>
class MeshModel {
 public:
  // Weights of a block in their order; number `layers * kKinds` is C.
  enum Kind : std::size_t { kA, kAdded, kB, kBias, kRouter, kExperts, kKinds };
  using Weights = std::map<std::size_t, Array<T>>;  // by number

  // Collective over the mesh, which has the axes dp, tp, pp and ep.
  MeshModel(train::Mesh& mesh, const MeshModelShape& shape, const MeshTraining& training)
      : shape_(shape),
        training_(training),
        tp_(mesh.along("tp")),
        dp_(mesh.along("dp")),
        ep_(mesh.along("ep")),
        pp_(mesh.along("pp")),
        replicas_(mesh.group({"dp", "ep"})),
        experts_(ep_, shape.router.experts, shape.width),
        pipeline_(pp_, engine(),
                  {.schedule = training.schedule, .microbatches = shape.microbatches, .chunks = training.chunks}) {
    const auto places = static_cast<std::size_t>(pp_.size() * training.chunks);
    for (int chunk = 0; chunk < training.chunks; ++chunk) {
      const auto place = static_cast<std::size_t>(chunk * pp_.size() + pp_.rank());
      chunks_.push_back({shape.layers * place / places, shape.layers * (place + 1) / places});
      for (std::size_t layer = chunks_.back().first; layer < chunks_.back().second; ++layer)
        for (std::size_t kind = 0; kind < kKinds; ++kind) take(layer * kKinds + kind);
      if (pipeline_.is_last(chunk)) take(shape.layers * kKinds);
    }
    if (training.stage) make_strategies(*training.stage);
  }
  MeshModel(const MeshModel&) = delete;
  MeshModel& operator=(const MeshModel&) = delete;

  // All of a weight, as it is at the beginning, and what this rank has of it.
  static Array<T> whole(const MeshModelShape& shape, std::size_t number) {
    const std::size_t w = shape.width, e = static_cast<std::size_t>(shape.router.experts);
    const std::size_t sizes[] = {w * shape.hidden, shape.hidden, shape.hidden * w, w, w * e, e * w * w};
    Array<T> values(number == shape.layers * kKinds ? w * shape.vocabulary : sizes[number % kKinds]);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<T>(noise(shape.seed, static_cast<int>(number), i) / 2);
    return values;
  }
  Array<T> cut(std::size_t number, const Array<T>& whole) const {
    const auto extent = [](std::size_t size) { return static_cast<std::int64_t>(size); };
    if (is_head(number)) return columns_of(whole, shape_.vocabulary, tp_.part_of(extent(shape_.vocabulary)));
    switch (number % kKinds) {
      case kA:
      case kAdded: return columns_of(whole, shape_.hidden, tp_.even_part_of(extent(shape_.hidden), "the hidden size"));
      case kB: return even_rows_of(whole, tp_.size(), tp_.rank());
      case kExperts: return even_rows_of(whole, ep_.size(), ep_.rank());
      default: return whole;
    }
  }
  const Weights& weights() const { return weights_; }

  // Collective: the mean loss of all replicas, on all ranks.
  double step(int number) {
    step_ = number;
    loss_ = 0;
    if (dense_) read_values();
    for (const auto& [weight, values] : weights_) gradients_[weight].assign(values.size(), T(0));
    pipeline_.step();
    for (auto& [weight, gradient] : gradients_) finish(weight, gradient);
    if (dense_)
      update_by_strategies();
    else
      update_by_hand();
    double loss = loss_;
    pp_.all_reduce(one(loss));  // others than the last stage have 0
    replicas_.all_reduce(one(loss), ReduceOp::average);
    return loss;
  }
  // What was called so far along an axis: by strategies, layers, stages or experts.
  VerbCounters counted(std::string_view axis) const {
    if (axis == "tp") return tp_.counters()[Verb::all_reduce];
    if (axis == "pp") return pipeline_.counters()[Verb::send_recv];
    if (axis == "ep") return experts_.counters()[Verb::all_to_all];
    VerbCounters both = dense_->counters()[Verb::all_reduce];
    const VerbCounters of_experts = of_experts_->counters()[Verb::all_reduce];
    both.calls += of_experts.calls;
    both.bytes += of_experts.bytes;
    return both;
  }
  // How far the worst expert that a token took was before the best that it did not, in probability, at least.
  double closest_choice() const { return closest_choice_; }

 private:
  // What backward needs of a block.
  struct KeptBlock {
    Array<T> all_x, h, z, came, outputs, returned, weights;  // rows of experts here, outputs for choices here
    train::Routing routing;
    train::DispatchPlan plan;
  };
  struct KeptPass {
    std::vector<KeptBlock> blocks;
    Array<T> all_y, logit_gradient;
    Weights gradients;  // that weight_gradient() adds
  };

  bool is_head(std::size_t number) const { return number == shape_.layers * kKinds; }
  bool is_expert(std::size_t number) const { return !is_head(number) && number % kKinds == kExperts; }
  bool forgets(Forgotten what) const { return training_.forgotten == what; }
  std::size_t own_tokens() const {
    return training_.sequence ? shape_.tokens / static_cast<std::size_t>(tp_.size()) : shape_.tokens;
  }
  void take(std::size_t number) { weights_[number] = cut(number, whole(shape_, number)); }

  Array<T> crossed(train::Crossing crossing, const Array<T>& from, std::size_t tokens) {
    Array<T> to(tokens * shape_.width);
    tp_.cross(crossing, from.data(), to.data(),
              {.type = Element::of<T>().dtype(), .before = 1, .extent = shape_.tokens, .behind = shape_.width});
    return to;
  }
  train::Crossing into() const { return training_.sequence ? train::Crossing::gather_sequence : train::Crossing::copy; }
  train::Crossing out() const {
    return training_.sequence ? train::Crossing::reduce_scatter_sequence : train::Crossing::reduce;
  }

  // ---- Forward.

  // The tokens of a micro-batch and what is to come out, numbered over all replicas.
  std::pair<Array<T>, std::vector<std::int64_t>> examples(int microbatch) const {
    const int number = replicas_.rank() * shape_.microbatches + microbatch;
    const auto seed = shape_.seed + 1000 * static_cast<unsigned>(1 + step_);
    Array<T> x(shape_.tokens * shape_.width);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(noise(seed, number, i));
    std::mt19937 random(seed + static_cast<unsigned>(number));
    std::vector<std::int64_t> targets(shape_.tokens);
    for (std::int64_t& target : targets) target = static_cast<std::int64_t>(random() % shape_.vocabulary);
    return {training_.sequence ? even_rows_of(x, tp_.size(), tp_.rank()) : x, targets};
  }

  Array<T> forward(std::size_t layer, const Array<T>& x, KeptBlock& kept) {
    const std::size_t first = layer * kKinds, tokens = shape_.tokens, width = shape_.width;
    const Array<T>& added = weights_[first + kAdded];
    kept.all_x = crossed(into(), x, tokens);
    kept.h.resize(tokens * added.size());
    for (std::size_t i = 0; i < kept.h.size(); ++i) kept.h[i] = added[i % added.size()];
    multiply(kept.all_x.data(), weights_[first + kA].data(), kept.h.data(), tokens, width, added.size());
    for (T& value : kept.h) value = std::tanh(value);
    Array<T> term(tokens * width);
    multiply(kept.h.data(), weights_[first + kB].data(), term.data(), tokens, added.size(), width);
    kept.z = crossed(out(), term, own_tokens());
    for (std::size_t i = 0; i < kept.z.size(); ++i) kept.z[i] += x[i] + weights_[first + kBias][i % width];
    return through_experts(first, kept);
  }

  Array<T> through_experts(std::size_t first, KeptBlock& kept) {
    const std::size_t width = shape_.width, tokens = kept.z.size() / width;
    route_tokens(first, kept);
    kept.plan = experts_.plan(kept.routing);
    kept.came.resize(kept.plan.rows() * width);
    kept.outputs.assign(kept.came.size(), T(0));
    kept.returned.resize(kept.plan.order.size() * width);
    const Array<T> sent = rows_of(kept, [&](std::size_t choice, std::size_t i) { return kept.z[at(choice) + i]; });
    experts_.to_experts(kept.plan, sent.data(), kept.came.data(), Element::of<T>());
    each_expert(kept.plan, [&](std::size_t expert, std::size_t begin, std::size_t rows) {
      multiply(kept.came.data() + begin, weights_[first + kExperts].data() + expert * width * width,
               kept.outputs.data() + begin, rows, width, width);
    });
    for (T& value : kept.outputs) value = std::tanh(value);
    experts_.to_tokens(kept.plan, kept.outputs.data(), kept.returned.data(), Element::of<T>());
    Array<T> y = kept.z;
    for (std::size_t row = 0; row < kept.plan.order.size(); ++row) {
      const std::size_t choice = kept.plan.order[row];
      for (std::size_t i = 0; i < width; ++i)
        y[at(choice) + i] += kept.weights[choice] * kept.returned[row * width + i];
    }
    require(y.size() == tokens * width, "as many tokens as came");
    return y;
  }

  // Choices by float32, as routers do; weights in the type of the model, before any is dropped.
  void route_tokens(std::size_t first, KeptBlock& kept) {
    const std::size_t width = shape_.width, tokens = kept.z.size() / width;
    const auto experts = static_cast<std::size_t>(shape_.router.experts),
               top = static_cast<std::size_t>(shape_.router.top_k);
    Array<T> logits(tokens * experts);
    multiply(kept.z.data(), weights_[first + kRouter].data(), logits.data(), tokens, width, experts);
    kept.routing = train::route(std::vector<float>(logits.begin(), logits.end()), shape_.router);
    kept.weights.resize(tokens * top);
    for (std::size_t token = 0; token < tokens; ++token) {
      T sum = 0;
      for (std::size_t c = token * top; c < (token + 1) * top; ++c)
        sum += kept.weights[c] = std::exp(logits[token * experts + chosen(kept, c)]);
      for (std::size_t c = token * top; c < (token + 1) * top; ++c) kept.weights[c] /= sum;
      look_how_close(kept.routing, token);
    }
  }
  void look_how_close(const train::Routing& routing, std::size_t token) {
    const auto experts = static_cast<std::size_t>(shape_.router.experts),
               top = static_cast<std::size_t>(shape_.router.top_k);
    std::vector<float> sorted(routing.probabilities.begin() + static_cast<std::ptrdiff_t>(token * experts),
                              routing.probabilities.begin() + static_cast<std::ptrdiff_t>((token + 1) * experts));
    std::sort(sorted.rbegin(), sorted.rend());
    for (std::size_t i = 1; i <= top && i < experts; ++i)
      closest_choice_ = std::min(closest_choice_, static_cast<double>(sorted[i - 1] - sorted[i]));
  }
  static std::size_t chosen(const KeptBlock& kept, std::size_t choice) {
    return static_cast<std::size_t>(kept.routing.experts[choice]);
  }
  // Where a choice's token begins.
  std::size_t at(std::size_t choice) const {
    return choice / static_cast<std::size_t>(shape_.router.top_k) * shape_.width;
  }
  template <class Number>
  Array<T> rows_of(const KeptBlock& kept, const Number& number) const {
    Array<T> rows;
    for (const std::size_t choice : kept.plan.order)
      for (std::size_t i = 0; i < shape_.width; ++i) rows.push_back(number(choice, i));
    return rows;
  }
  template <class Part>
  void each_expert(const train::DispatchPlan& plan, const Part& part) const {
    for (std::size_t expert = 0; expert + 1 < plan.begins.size(); ++expert)
      part(expert, plan.begins[expert] * shape_.width, plan.begins[expert + 1] - plan.begins[expert]);
  }

  // This micro-batch's part of the mean loss, and the gradient of its logits.
  void lose(const Array<T>& y, const std::vector<std::int64_t>& targets, KeptPass& kept) {
    const std::size_t tokens = shape_.tokens, width = shape_.width;
    const Array<T>& head = weights_[shape_.layers * kKinds];
    kept.all_y = crossed(into(), y, tokens);
    Array<T> logits(tokens * head.size() / width), losses(tokens);
    multiply(kept.all_y.data(), head.data(), logits.data(), tokens, width, head.size() / width);
    kept.logit_gradient.resize(logits.size());
    train::vocabulary_cross_entropy(tp_, std::span<const T>(logits), targets,
                                    static_cast<std::int64_t>(shape_.vocabulary), std::span(losses),
                                    std::span(kept.logit_gradient));
    const auto share = T(1) / static_cast<T>(tokens * static_cast<std::size_t>(shape_.microbatches));
    for (T& value : kept.logit_gradient) value *= share;
    loss_ += static_cast<double>(std::accumulate(losses.begin(), losses.end(), T(0)) * share);
  }

  // ---- Backward. Gradients of weights go to `gradients`.

  Array<T> backward_of_loss(const KeptPass& kept, Weights& gradients) {
    const std::size_t tokens = shape_.tokens, width = shape_.width, number = shape_.layers * kKinds;
    const std::size_t columns = weights_[number].size() / width;
    Array<T>& gradient = gradients[number];
    gradient.resize(width * columns);
    multiply(turned(kept.all_y, width).data(), kept.logit_gradient.data(), gradient.data(), width, tokens, columns);
    Array<T> d_all_y(tokens * width);
    multiply(kept.logit_gradient.data(), turned(weights_[number], columns).data(), d_all_y.data(), tokens, columns,
             width);
    return crossed(conjugate(into()), d_all_y, own_tokens());
  }

  Array<T> backward(std::size_t layer, const KeptBlock& kept, const Array<T>& dy, Weights& gradients) {
    const std::size_t first = layer * kKinds, tokens = shape_.tokens, width = shape_.width;
    const std::size_t hidden = weights_[first + kAdded].size();
    for (std::size_t kind = 0; kind < kKinds; ++kind)
      gradients[first + kind].assign(weights_[first + kind].size(), T(0));
    const Array<T> dz = backward_of_experts(first, kept, dy, gradients);
    for (std::size_t i = 0; i < dz.size(); ++i) gradients[first + kBias][i % width] += dz[i];
    const Array<T> d_term = crossed(conjugate(out()), dz, tokens);
    multiply(turned(kept.h, hidden).data(), d_term.data(), gradients[first + kB].data(), hidden, tokens, width);
    Array<T> dh(kept.h.size()), d_all_x(tokens * width);
    multiply(d_term.data(), turned(weights_[first + kB], width).data(), dh.data(), tokens, width, hidden);
    for (std::size_t i = 0; i < dh.size(); ++i) {
      dh[i] *= 1 - kept.h[i] * kept.h[i];
      gradients[first + kAdded][i % hidden] += dh[i];
    }
    multiply(turned(kept.all_x, width).data(), dh.data(), gradients[first + kA].data(), width, tokens, hidden);
    multiply(dh.data(), turned(weights_[first + kA], hidden).data(), d_all_x.data(), tokens, hidden, width);
    Array<T> dx = forgets(Forgotten::sum_of_input) && !training_.sequence
                      ? d_all_x
                      : crossed(conjugate(into()), d_all_x, own_tokens());
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += dz[i];
    return dx;
  }

  // From the gradient behind the experts to that before them.
  Array<T> backward_of_experts(std::size_t first, const KeptBlock& kept, const Array<T>& dy, Weights& gradients) {
    const std::size_t width = shape_.width;
    const Array<T> sent =
        rows_of(kept, [&](std::size_t choice, std::size_t i) { return kept.weights[choice] * dy[at(choice) + i]; });
    Array<T> inner(kept.came.size()), d_rows(kept.came.size()), d_sent(sent.size()), dz = dy;
    experts_.to_experts(kept.plan, sent.data(), inner.data(), Element::of<T>());
    for (std::size_t i = 0; i < inner.size(); ++i) inner[i] *= 1 - kept.outputs[i] * kept.outputs[i];
    each_expert(kept.plan, [&](std::size_t expert, std::size_t begin, std::size_t rows) {
      const T* const weight = weights_[first + kExperts].data() + expert * width * width;
      multiply(turned(kept.came.data() + begin, rows, width).data(), inner.data() + begin,
               gradients[first + kExperts].data() + expert * width * width, width, rows, width);
      multiply(inner.data() + begin, turned(weight, width, width).data(), d_rows.data() + begin, rows, width, width);
    });
    experts_.to_tokens(kept.plan, d_rows.data(), d_sent.data(), Element::of<T>());
    Array<T> d_weights(kept.weights.size());
    for (std::size_t row = 0; row < kept.plan.order.size(); ++row) {
      const std::size_t choice = kept.plan.order[row];
      for (std::size_t i = 0; i < width; ++i) {
        if (!forgets(Forgotten::gradients_of_rows)) dz[at(choice) + i] += d_sent[row * width + i];
        d_weights[choice] += dy[at(choice) + i] * kept.returned[row * width + i];
      }
    }
    backward_of_router(first, kept, d_weights, gradients, dz);
    return dz;
  }

  void backward_of_router(std::size_t first, const KeptBlock& kept, const Array<T>& d_weights, Weights& gradients,
                          Array<T>& dz) {
    const std::size_t width = shape_.width, tokens = kept.z.size() / width;
    const auto experts = static_cast<std::size_t>(shape_.router.experts),
               top = static_cast<std::size_t>(shape_.router.top_k);
    Array<T> d_logits(tokens * experts);
    for (std::size_t token = 0; token < tokens; ++token) {
      T mean = 0;
      for (std::size_t c = token * top; c < (token + 1) * top; ++c) mean += kept.weights[c] * d_weights[c];
      for (std::size_t c = token * top; c < (token + 1) * top; ++c)
        d_logits[token * experts + chosen(kept, c)] = kept.weights[c] * (d_weights[c] - mean);
    }
    multiply(turned(kept.z, width).data(), d_logits.data(), gradients[first + kRouter].data(), width, tokens, experts);
    multiply(d_logits.data(), turned(weights_[first + kRouter], experts).data(), dz.data(), tokens, experts, width);
  }

  // ---- Stages.

  train::PipelineEngine engine() {
    train::PipelineEngine engine;
    engine.forward = [this](int microbatch, int chunk, const train::PipelineArray& input) {
      return forward_of_chunk(microbatch, chunk, input);
    };
    engine.input_gradient = [this](int microbatch, int chunk, const train::PipelineArray& gradient) {
      return backward_of_chunk(microbatch, chunk, gradient);
    };
    engine.weight_gradient = [this](int microbatch, int chunk) { add_gradients(microbatch, chunk); };
    engine.backward = [this](int microbatch, int chunk, const train::PipelineArray& gradient) {
      train::PipelineArray made = backward_of_chunk(microbatch, chunk, gradient);
      add_gradients(microbatch, chunk);
      return made;
    };
    return engine;
  }
  static Array<T> copied(const train::PipelineArray& array) {
    return {array.as<T>(), array.as<T>() + array.shape.elements()};
  }
  train::PipelineArray array_from(const Array<T>& values) const {
    train::PipelineArray array = array_of<T>(values.size() / shape_.width, shape_.width);
    std::copy(values.begin(), values.end(), array.as<T>());
    return array;
  }

  train::PipelineArray forward_of_chunk(int microbatch, int chunk, const train::PipelineArray& input) {
    KeptPass& kept = passes_[{microbatch, chunk}];
    const auto [own, targets] = examples(microbatch);
    Array<T> x = pipeline_.is_first(chunk) ? own : copied(input);
    const auto [first, end] = chunks_[static_cast<std::size_t>(chunk)];
    for (std::size_t layer = first; layer < end; ++layer) x = forward(layer, x, kept.blocks.emplace_back());
    if (!pipeline_.is_last(chunk)) return array_from(x);
    lose(x, targets, kept);
    return {};
  }
  train::PipelineArray backward_of_chunk(int microbatch, int chunk, const train::PipelineArray& gradient) {
    KeptPass& kept = passes_.at({microbatch, chunk});
    Array<T> dy = pipeline_.is_last(chunk) ? backward_of_loss(kept, kept.gradients) : copied(gradient);
    const auto [first, end] = chunks_[static_cast<std::size_t>(chunk)];
    for (std::size_t layer = end; layer-- > first;)
      dy = backward(layer, kept.blocks[layer - first], dy, kept.gradients);
    return pipeline_.is_first(chunk) ? train::PipelineArray() : array_from(dy);
  }
  void add_gradients(int microbatch, int chunk) {
    for (const auto& [number, gradient] : passes_.at({microbatch, chunk}).gradients)
      for (std::size_t i = 0; i < gradient.size(); ++i) gradients_[number][i] += gradient[i];
    passes_.erase({microbatch, chunk});
  }

  // ---- Updates.

  // What tokens of this rank alone have left, and of experts what tokens of several replicas have.
  void finish(std::size_t number, Array<T>& gradient) {
    const std::size_t kind = number % kKinds;
    const bool of_own_tokens = !is_head(number) && (kind == kBias || kind == kRouter || kind == kExperts);
    if (training_.sequence && of_own_tokens && !forgets(Forgotten::sum_of_tokens))
      tp_.reduce(gradient.data(), gradient.size(), Element::of<T>().dtype(), ReduceOp::sum);
    if (!is_expert(number) || forgets(Forgotten::share_of_expert)) return;
    for (T& value : gradient) value /= static_cast<T>(ep_.size());
  }
  void update_by_hand() {
    for (auto& [number, gradient] : gradients_) {
      const bool left_out = forgets(is_expert(number) ? Forgotten::mean_of_expert : Forgotten::mean_of_replicas);
      if (!left_out) (is_expert(number) ? dp_ : replicas_).all_reduce(gradient, ReduceOp::average);
      Array<T>& values = weights_[number];
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= static_cast<T>(kMeshRate) * gradient[i];
    }
  }

  // A strategy for all that is the same on all replicas, and one for the experts of this rank.
  void make_strategies(int stage) {
    train::Parameters parameters[2];
    for (const auto& [number, values] : weights_) {
      train::Parameters& own = parameters[is_expert(number) ? 1 : 0];
      numbers_[is_expert(number) ? 1 : 0].push_back(number);
      own.push_back({.name = std::to_string(number),
                     .type = Element::of<T>().dtype(),
                     .shape = {static_cast<std::int64_t>(values.size())},
                     .values = values.data(),
                     .unit = own.size()});
    }
    const train::Optimizer plain = train::Sgd{.learning_rate = kMeshRate};
    dense_.emplace(make(stage, replicas_, parameters[0], {}, plain));
    of_experts_.emplace(make(stage, dp_, parameters[1], {}, plain));
  }
  template <class Part>
  void each_parameter(const Part& part) {
    train::Strategy* const strategies[] = {&*dense_, &*of_experts_};
    for (std::size_t which = 0; which < 2; ++which)
      for (std::size_t i = 0; i < numbers_[which].size(); ++i) part(*strategies[which], i, numbers_[which][i]);
  }
  void read_values() {
    each_parameter([&](train::Strategy& strategy, std::size_t i, std::size_t number) {
      strategy.gather(i);
      const std::span<const T> values = strategy.values_as<T>(i);
      weights_[number].assign(values.begin(), values.end());
      strategy.release(i);
    });
  }
  void update_by_strategies() {
    each_parameter([&](train::Strategy& strategy, std::size_t i, std::size_t number) {
      strategy.set_gradient(i, gradients_[number].data());
      strategy.ready(i);
    });
    dense_->step();
    of_experts_->step();
    read_values();
  }

  MeshModelShape shape_;
  MeshTraining training_;
  train::TensorParallel tp_;
  Communicator &dp_, &ep_, &pp_;
  Communicator replicas_;
  train::Experts experts_;
  train::Pipeline pipeline_;
  std::vector<std::pair<std::size_t, std::size_t>> chunks_;  // layers of each
  Weights weights_, gradients_;
  std::map<std::pair<int, int>, KeptPass> passes_;  // by micro-batch and chunk
  std::optional<train::Strategy> dense_, of_experts_;
  std::vector<std::size_t> numbers_[2];  // of weights, by strategy, by parameter
  int step_ = 0;
  double loss_ = 0, closest_choice_ = 1;
};

}  // namespace tutti::testing
