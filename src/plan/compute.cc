#include "plan/compute.h"

#include <algorithm>

namespace tutti::plan {
namespace {

constexpr double kElementBytes = 2;
// Bytes through memory for a token and each of its hidden numbers, in a layer: two norms (4 forward, 6 backward each),
// two residuals with dropout and bias (7 and 5), and where gradients of residuals come together (12).
constexpr double kHiddenForward = 2 * 4 + 2 * 7, kHiddenBackward = 2 * 6 + 2 * 5 + 12;
// For each number between the matrices of a layer: the activation reads and writes it.
constexpr double kActivationForward = 4, kActivationBackward = 6, kGatedForward = 6, kGatedBackward = 10;
// For each score of unfused attention: softmax and dropout, and the scores between the two products.
constexpr double kScoreForward = 9, kScoreBackward = 11, kScoreProducts = 4;
// Of attention in one kernel: what is masked is left out; backward has five products for two.
constexpr double kCausalShare = 0.5, kFlashBackward = 2.5;
// For each logit: in 16 bits out of the product, in 32 through maximum, exponential and sum.
constexpr double kLogitForward = 18, kLogitBackward = 10;

class MachineTimes {
 public:
  explicit MachineTimes(const Accelerator& of) : of_(of) {}

  double product(double rows, double columns, double depth) const {
    return 2 * rows * columns * (depth + of_.edge_depth) / (of_.flops_per_s * of_.product_share) +
           memory(kElementBytes * (rows * columns + columns * depth + rows * depth));
  }
  double memory(double bytes) const { return bytes / (of_.memory_bytes_per_s * of_.memory_share) + of_.kernel_s; }
  double attention(double flops, Attention kind) const {
    const double share = kind == Attention::flash1 ? of_.first_attention_share : of_.attention_share;
    return flops / (of_.flops_per_s * share) + of_.kernel_s;
  }

 private:
  const Accelerator& of_;
};

void add_products(const Job& job, int layer, const MachineTimes& machine, PassSeconds& seconds) {
  const ModelShape& model = job.model;
  const double tokens = tokens_on_rank(job);
  for (const ModelMatrix& matrix : matrices_of(model, layer)) {
    const double cut = matrix.pieces(job.parallel.tp);
    const double in = matrix.cut_in ? matrix.in / cut : matrix.in, out = matrix.cut_in ? matrix.out : matrix.out / cut;
    double each = machine.product(tokens, out, in), copies = 1;
    if (matrix.of_experts) {
      copies = static_cast<double>(model.experts) / job.parallel.ep;
      const double of_expert = tokens * job.parallel.ep * model.top_k / model.experts;
      each = machine.product(of_expert * fullest_expert(model), out, in);
    }
    seconds.forward.products += each * copies;
    seconds.backward.products += 2 * each * copies;
  }
}

void add_attention_seconds(const Job& job, const MachineTimes& machine, PassSeconds& seconds) {
  const ModelShape& model = job.model;
  const double tokens = tokens_on_rank(job), cut = job.parallel.tp;
  const double flops = 2 * tokens * job.sequence * (model.query_width() + model.value_width()) / cut;
  if (job.attention != Attention::unfused) {
    seconds.forward.attention = machine.attention(kCausalShare * flops, job.attention);
    seconds.backward.attention = machine.attention(kCausalShare * kFlashBackward * flops, job.attention);
    return;
  }
  const double scores = tokens * job.sequence * model.heads / cut;
  const double products =
      flops / (job.accelerator.flops_per_s * job.accelerator.product_share) + machine.memory(kScoreProducts * scores);
  seconds.forward.attention = products + machine.memory(kScoreForward * scores);
  seconds.backward.attention = 2 * products + machine.memory(kScoreBackward * scores);
}

}  // namespace

PassSeconds layer_seconds(const Job& job, int layer) {
  const MachineTimes machine(job.accelerator);
  const ModelShape& model = job.model;
  PassSeconds seconds;
  add_products(job, layer, machine, seconds);
  add_attention_seconds(job, machine, seconds);
  const double tokens = tokens_on_rank(job);
  const double hidden = tokens * model.hidden / (job.parallel.sp ? job.parallel.tp : 1);
  const double ffn = model.has_experts(layer)
                         ? model.expert_ffn * (model.top_k * fullest_expert(model) + model.shared_experts)
                         : model.ffn;
  const double between = tokens * ffn / job.parallel.tp;
  seconds.forward.pointwise =
      machine.memory(kHiddenForward * hidden + (model.gated ? kGatedForward : kActivationForward) * between);
  seconds.backward.pointwise =
      machine.memory(kHiddenBackward * hidden + (model.gated ? kGatedBackward : kActivationBackward) * between);
  return seconds;
}

PassSeconds embedding_seconds(const Job& job) {
  const MachineTimes machine(job.accelerator);
  const double numbers = tokens_on_rank(job) * job.model.hidden;
  PassSeconds seconds;
  seconds.forward.pointwise = machine.memory(2 * kElementBytes * numbers);
  seconds.backward.pointwise = machine.memory(4 * kElementBytes * numbers);
  return seconds;
}

PassSeconds logits_seconds(const Job& job) {
  const MachineTimes machine(job.accelerator);
  const double tokens = tokens_on_rank(job), words = static_cast<double>(job.model.vocab) / job.parallel.tp;
  PassSeconds seconds;
  seconds.forward.products = machine.product(tokens, words, job.model.hidden);
  seconds.backward.products = 2 * seconds.forward.products;
  seconds.forward.pointwise = machine.memory(kLogitForward * tokens * words);
  seconds.backward.pointwise = machine.memory(kLogitBackward * tokens * words);
  return seconds;
}

WorkSeconds again_seconds(const Job& job, const PassSeconds& layer) {
  if (job.recompute == Recompute::full) return layer.forward;
  // Attention in one kernel computes its scores again in backward anyway.
  if (job.recompute == Recompute::selective && job.attention == Attention::unfused)
    return {0, layer.forward.attention, 0};
  return {};
}

double optimizer_seconds(const Job& job, double parameters) {
  // Master, two states read and written, the gradient read, the 16-bit parameter written.
  const double bytes = 3 * 8 + job.gradient_bytes + kElementBytes;
  return MachineTimes(job.accelerator).memory(bytes * parameters);
}

}  // namespace tutti::plan
