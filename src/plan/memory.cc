// The bytes of a rank: model states by stage of ZeRO, activations by what backward keeps, and what is only in passing.
#include <algorithm>

#include "plan/compute.h"
#include "plan/plan.h"
#include "strategy/pipeline.h"

namespace tutti::plan {
namespace {

constexpr double kAdamBytes = 8, kMasterBytes = 4;  // two states in fp32, and the weights where they are not that
constexpr double kOuterBytes = 8;                   // of local updates: where replicas set out, outer momentum

// What backward needs of a layer and a micro-batch, in bytes: 8 for each hidden number of a token that tensor
// parallelism leaves whole and 2 for masks of dropout, what lies between matrices, and the scores of unfused attention,
// which dropout has twice and with a mask.
double kept_of_layer(const Job& job, int layer) {
  const ModelShape& model = job.model;
  const double tokens = tokens_on_rank(job), tp = job.parallel.tp, whole = job.parallel.sp ? tp : 1;
  const bool experts = model.has_experts(layer);
  const double ffn =
      experts ? static_cast<double>(model.expert_ffn) * (model.top_k * model.capacity_factor + model.shared_experts)
              : model.ffn;
  const double between = (2.0 * (model.query_width() + model.value_width()) + (model.gated ? 6 : 4) * ffn) / tp +
                         4.0 * model.kv_width() / model.kv_pieces(job.parallel.tp);
  const bool keeps_scores = job.attention == Attention::unfused && job.recompute != Recompute::selective;
  const double scores = keeps_scores ? (model.dropout ? 5.0 : 2.0) * model.heads * job.sequence : 0;
  const double dispatched = experts ? 2.0 * model.hidden * model.top_k * model.capacity_factor : 0;
  const double widened = job.value_bytes / 2;
  const double masks = model.dropout ? 2.0 * model.hidden / whole : 0;
  return tokens * (masks + widened * (8.0 * model.hidden / whole + between + scores / tp + dispatched));
}

// Of all chunks of a stage.
double held_microbatches(const Job& job, int stage) {
  const ParallelShape& shape = job.parallel;
  strategy::PipelineShape pipeline{.stages = shape.pp, .chunks = shape.interleave};
  if (shape.interleave > 1) pipeline.schedule = train::PipelineSchedule::interleaved;
  pipeline.microbatches = static_cast<int>(std::min<std::int64_t>(job.microbatches(), 2LL * shape.pp));  // or as many
  return static_cast<double>(activations_held(pipeline, stage)) / shape.interleave;
}

}  // namespace

MemoryBill memory_of(const Job& job, int stage, int layers, double parameters, double expert_parameters) {
  const ParallelShape& shape = job.parallel;
  MemoryBill bill;
  const double states =
      kAdamBytes + (job.value_bytes < 4 ? kMasterBytes : 0) + (shape.local_steps > 0 ? kOuterBytes : 0);
  const auto add = [&](double count, int ranks) {
    bill.parameters += job.value_bytes * count / (shape.zero == 3 ? ranks : 1);
    bill.gradients += job.gradient_bytes * count / (shape.zero >= 2 ? ranks : 1);
    bill.optimizer += states * count / (shape.zero >= 1 ? ranks : 1);
  };
  add(parameters - expert_parameters, shape.replicas());
  add(expert_parameters, shape.expert_replicas());
  const double kept = kept_of_layer(job, job.model.layers - 1);
  const double input = job.value_bytes * tokens_on_rank(job) * job.model.hidden / (shape.sp ? shape.tp : 1);
  const bool full = job.recompute == Recompute::full;
  bill.activations = held_microbatches(job, stage) * layers * (full ? input : kept);
  if (full) bill.working += kept;  // of the layer that is computed again
  if (stage == shape.pp - 1) bill.working += 6 * tokens_on_rank(job) * job.model.vocab / shape.tp;
  if (shape.zero == 3 && shape.replicas() > 1) {  // units that are gathered, of layers as they are on average
    const int gathered = std::min(job.stack.held_layers, layers + 1);
    bill.working += gathered * job.value_bytes * parameters / std::max(1, layers);
  }
  bill.reserved = job.accelerator.reserved_bytes;
  bill.capacity = job.accelerator.memory_bytes;
  return bill;
}

}  // namespace tutti::plan
