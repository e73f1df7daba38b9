#include "plan/plan.h"

#include <algorithm>
#include <cmath>

#include "plan/compute.h"
#include "plan/plan_maker.h"
#include "strategy/pipeline_sentence.h"

namespace tutti::plan {
namespace {

// Tensor parallelism that overlaps cuts a product into so many pieces; one piece's communication has nothing before it.
constexpr double kTensorPieces = 4;

}  // namespace

PlanMaker::PlanMaker(const Job& job, CollectivePrices& prices, const CountedModel& counted)
    : job_(job), prices_(prices), shape_(job.parallel), tensors_(counted.tensors) {
  plan_.job = job;
  plan_.parameters = counted.parameters;
  for (const ModelTensor& tensor : tensors_) stage_elements_ += tensor.all_elements() / shape_.pp;
  const int near = shape_.tp * shape_.cp, far = near * shape_.ep * shape_.pp;
  tp_ = span_of(job.cluster, shape_.tp, 1);
  cp_ = span_of(job.cluster, shape_.cp, shape_.tp);
  ep_ = span_of(job.cluster, shape_.ep, near);
  // Ranks that share a sequence have the same parameters, as those of dp have: gradients go among all of them.
  dp_ = span_of_blocks({shape_.cp * shape_.ep, shape_.tp}, {shape_.dp / shape_.ep, far});
  expert_dp_ = span_of_blocks({shape_.cp, shape_.tp}, {shape_.dp / shape_.ep, far});
  if (shape_.cp > 1) dp_name_ = "dp.cp";
  if (shape_.local_steps > 0) {  // a replica is all ranks of its sequences, and the others are met now and then
    dp_ = expert_dp_ = cp_;
    dp_name_ = "cp";
  }
  // A pipeline goes as fast as its slowest boundary.
  const int stage = near * shape_.ep;
  pair_ = stage * shape_.pp > job.cluster.devices_per_host() ? GroupSpan{1, 2} : span_of(job.cluster, 2, stage);
  partners_ = span_of(job.cluster, 2, job.cluster.hosts > 1 ? job.cluster.devices_per_host() : 1);
}

JobPlan PlanMaker::make() {
  plan_layers();
  plan_stages();
  plan_pipeline();
  plan_gradients();
  plan_actors();
  plan_flops();
  sum_up();
  return std::move(plan_);
}

// What is hidden slows computing; what tensor parallelism hides is moved by copy engines, which need no cores.
void PlanMaker::sum_up() {
  for (const JobPhrase& phrase : plan_.sentence) {
    plan_.communication_s += phrase.total_s();
    if (phrase.group == "tp") continue;
    plan_.time.contention += job_.accelerator.contention * std::max(0.0, phrase.total_s() - phrase.exposed_s);
  }
}

// Of blocks of neighbours, and as many blocks, apart.
GroupSpan PlanMaker::span_of_blocks(const RanksApart& block, const RanksApart& blocks) const {
  const GroupSpan inner = span_of(job_.cluster, block.ranks, block.stride);
  const GroupSpan outer = span_of(job_.cluster, blocks.ranks, blocks.stride);
  return {inner.per_host * outer.per_host, inner.hosts * outer.hosts};
}

JobPhrase& PlanMaker::put(Verb verb, std::string what, const char* group, const GroupSpan& span, double bytes,
                          double times) {
  JobPhrase phrase;
  phrase.verb = verb;
  phrase.what = std::move(what);
  phrase.group = group;
  phrase.span = span;
  phrase.links = links_of(job_.cluster, span);
  phrase.bytes = bytes;
  phrase.times = times;
  plan_.sentence.push_back(std::move(phrase));
  return plan_.sentence.back();
}

JobPhrase& PlanMaker::say(Verb verb, std::string what, const char* group, const GroupSpan& span, double bytes,
                          double times) {
  JobPhrase& phrase = put(verb, std::move(what), group, span, bytes, times);
  phrase.algorithm = prices_.algorithm(verb, span, bytes);
  phrase.call_s = prices_.seconds(verb, span, bytes);
  phrase.exposed_s = phrase.total_s();
  return phrase;
}

double PlanMaker::exposed_of_tensor_parallel(double communication_s, double products_s) const {
  if (!job_.overlap.tp) return communication_s;
  return std::max(communication_s / kTensorPieces, communication_s - products_s);
}

void PlanMaker::plan_tensor_parallel(LayerPlan& kind) {
  const bool full = job_.recompute == Recompute::full;
  const double bytes = bytes_of_hidden();
  const double reduce = prices_.seconds(Verb::all_reduce, tp_, bytes);
  const double cut = prices_.seconds(Verb::all_gather, tp_, bytes) + prices_.seconds(Verb::reduce_scatter, tp_, bytes);
  // Sequence parallel gathers what it keeps cut once more in backward.
  const double again = prices_.seconds(Verb::all_gather, tp_, bytes);
  const double forward = 2 * (shape_.sp ? cut : reduce);
  const double backward = shape_.sp ? 2 * cut + 2 * again : 2 * reduce;
  kind.tp_forward = exposed_of_tensor_parallel(forward, kind.seconds.forward.products);
  kind.tp_backward =
      exposed_of_tensor_parallel(backward, kind.seconds.backward.products) + (full ? kind.tp_forward : 0);
  if (shape_.sp) kind.norms = norms_s();
}

// Of a layer's two norms and two products cut by rows.
double PlanMaker::norms_s() {
  return 2 * (exposed_sum_s(bytes_of_norm()) + (job_.model.biases ? exposed_sum_s(bytes_of_bias()) : 0));
}

// Of a gradient that is summed along tp: nothing but the update waits for it.
double PlanMaker::exposed_sum_s(double bytes) {
  return job_.overlap.tp ? 0 : prices_.seconds(Verb::all_reduce, tp_, bytes);
}

void PlanMaker::plan_layers() {
  const bool full = job_.recompute == Recompute::full;
  for (const bool experts : {false, true}) {
    LayerPlan& kind = kinds_[experts ? 1 : 0];
    const int layer = layer_of_kind(experts);
    if (layer < 0) continue;
    kind.seconds = layer_seconds(job_, layer);
    kind.again = again_seconds(job_, kind.seconds);
    if (shape_.tp > 1) plan_tensor_parallel(kind);
    if (shape_.cp > 1) {
      const double all = prices_.seconds(Verb::all_gather, cp_, bytes_of_keys());
      const double back = prices_.seconds(Verb::reduce_scatter, cp_, bytes_of_keys());
      const auto left = [&](double seconds, double behind) {
        return job_.overlap.tp ? std::max(0.0, seconds - behind) : seconds;
      };
      kind.cp_forward = left(all, kind.seconds.forward.attention);
      kind.cp_backward = left(all + back, kind.seconds.backward.attention) + (full ? kind.cp_forward : 0);
    }
    if (experts && shape_.ep > 1) {
      const double there_and_back = 2 * prices_.seconds(Verb::all_to_all, ep_, bytes_of_dispatch());
      kind.ep_forward = there_and_back + prices_.seconds(Verb::all_to_all, ep_, bytes_of_expert_counts());
      kind.ep_backward = there_and_back + (full ? kind.ep_forward : 0);
    }
    if (shape_.zero == 3 && dp_.ranks() > 1) plan_gathers(kind, elements_of_layer(layer));
  }
}

// Stage 3 gathers a layer while the one before it computes, forward and in most of backward, and reduces behind
// backward.
void PlanMaker::plan_gathers(LayerPlan& kind, const StageElements& layer) {
  const auto both = [&](Verb verb, double bytes) {
    return seconds_in_step(verb, dp_, bytes * layer.elements, layer.elements) +
           seconds_in_step(verb, expert_dp_, bytes * layer.expert_elements, layer.expert_elements);
  };
  const double gather = both(Verb::all_gather, job_.value_bytes);
  const double reduce = both(Verb::reduce_scatter, gradient_bytes());
  const double hides = job_.overlap.dp ? prices_.stack().prefetch : 0;
  const double behind = hides * (kind.seconds.backward.sum() + kind.again.sum());
  const auto left = [](double seconds, double hidden) { return std::max(0.0, seconds - hidden); };
  // A unit that is still there is not gathered again.
  const double again = gathers_of_layer() - 1;
  kind.gather_forward = left(gather, hides * kind.seconds.forward.sum());
  kind.gather_backward = again * left(gather + reduce, behind) + (1 - again) * left(reduce, behind);
}

double PlanMaker::bytes_of_keys() const {
  return 2 * job_.value_bytes * tokens_on_rank(job_) * shape_.cp * job_.model.kv_width() /
         job_.model.kv_pieces(shape_.tp);
}

double PlanMaker::bytes_of_dispatch() const {
  const ModelShape& model = job_.model;
  return job_.value_bytes * tokens_on_rank(job_) * model.top_k * model.hidden * fullest_expert(model) /
         (shape_.sp ? shape_.tp : 1);
}

double PlanMaker::elements_of_embedding() const {
  return std::ranges::find_if(tensors_, &ModelTensor::is_embedding)->all_elements();
}

int PlanMaker::layer_of_kind(bool experts) const {
  for (int layer = 0; layer < job_.model.layers; ++layer)
    if (job_.model.has_experts(layer) == experts) return layer;
  return -1;
}

StageElements PlanMaker::elements_of_layer(int layer) const {
  StageElements part;
  for (const ModelTensor& tensor : tensors_) {
    if (tensor.layer != layer) continue;
    (tensor.of_experts ? part.expert_elements : part.elements) += tensor.all_elements();
  }
  return part;
}

void PlanMaker::plan_stages() {
  const std::vector<int> layers = layers_of_stages(job_);
  const PassSeconds embedding = embedding_seconds(job_), logits = logits_seconds(job_);
  std::vector<StageElements> by_layer(static_cast<std::size_t>(job_.model.layers) + 2);
  for (const ModelTensor& tensor : tensors_) {
    StageElements& part = by_layer[static_cast<std::size_t>(tensor.layer + 1)];
    (tensor.of_experts ? part.expert_elements : part.elements) += tensor.all_elements();
  }
  int first = 0;
  for (int stage = 0; stage < shape_.pp; ++stage) {
    StagePlan made;
    made.layers = layers[static_cast<std::size_t>(stage)];
    StageElements part;
    for (int layer = first; layer < first + made.layers; ++layer) {
      const LayerPlan& kind = kinds_[job_.model.has_experts(layer) ? 1 : 0];
      made.forward_s += kind.forward();
      made.backward_s += kind.backward();
      part += by_layer[static_cast<std::size_t>(layer + 1)];
    }
    if (stage == 0) {
      made.forward_s += embedding.forward.sum() + embedding_tp_s();
      made.backward_s += embedding.backward.sum();
      part += by_layer.front();
    }
    if (stage == shape_.pp - 1) {
      made.forward_s += logits.forward.sum();
      made.backward_s += logits.backward.sum() + output_tp_s();
      part += by_layer.back();
      if (job_.model.tied && shape_.pp > 1) part.elements += elements_of_embedding();
    }
    close_stage(made, part, first);
    first += made.layers;
  }
}

void PlanMaker::close_stage(StagePlan made, const StageElements& part, int first) {
  const int stage = static_cast<int>(plan_.stages.size());
  made.parameters = part.elements + part.expert_elements;
  const MemoryBill memory = memory_of(job_, stage, made.layers, made.parameters, part.expert_elements);
  made.memory_bytes = memory.sum();
  if (stage == 0 || memory.sum() > plan_.memory.sum()) plan_.memory = memory;
  const double so_far = plan_.stages.empty() ? -1 : busiest().forward_s + busiest().backward_s;
  plan_.stages.push_back(made);
  parts_.push_back(part);
  firsts_.push_back(first);
  if (made.forward_s + made.backward_s > so_far) busiest_ = static_cast<std::size_t>(stage);
}

// Of a micro-batch: what the embedding, cut by the vocabulary, leaves, and what comes back.
double PlanMaker::embedding_tp_s() {
  if (shape_.tp == 1) return 0;
  const double bytes = bytes_of_hidden();
  if (!shape_.sp) return prices_.seconds(Verb::all_reduce, tp_, bytes);
  return prices_.seconds(Verb::reduce_scatter, tp_, bytes) + prices_.seconds(Verb::all_gather, tp_, bytes) +
         (job_.model.positions > 0 ? exposed_sum_s(bytes_of_places()) : 0);
}

// What the output layer is given, and what comes back, with the losses and the last norm.
double PlanMaker::output_tp_s() {
  if (shape_.tp == 1) return 0;
  const double bytes = bytes_of_hidden(), losses = 2 * prices_.seconds(Verb::all_reduce, tp_, bytes_of_losses());
  if (!shape_.sp) return losses + prices_.seconds(Verb::all_reduce, tp_, bytes);
  return losses + prices_.seconds(Verb::reduce_scatter, tp_, bytes) +
         2 * prices_.seconds(Verb::all_gather, tp_, bytes) + exposed_sum_s(bytes_of_norm());
}

void PlanMaker::plan_pipeline() {
  const StagePlan& stage = busiest();
  const double m = microbatches();
  TimeBill& time = plan_.time;
  for (int layer = firsts_[busiest_]; layer < firsts_[busiest_] + stage.layers; ++layer) {
    const LayerPlan& kind = kinds_[job_.model.has_experts(layer) ? 1 : 0];
    add_work(kind.seconds);
    time.again += m * kind.again.sum();
    time.tp += m * (kind.tp_forward + kind.tp_backward);
    time.cp += m * (kind.cp_forward + kind.cp_backward);
    time.ep += m * (kind.ep_forward + kind.ep_backward);
    time.dp += m * (kind.gather_forward + kind.gather_backward);
  }
  const bool has_first = busiest_ == 0, has_last = static_cast<int>(busiest_) == shape_.pp - 1;
  if (has_first) add_work(embedding_seconds(job_));
  if (has_last) add_work(logits_seconds(job_));
  say_layers(stage.layers);
  if (shape_.tp > 1) {
    const std::size_t begin = plan_.sentence.size();
    say_ends_of_model(has_first, has_last);
    if (shape_.sp) say_norms(stage.layers, has_first, has_last);
    for (std::size_t i = begin; i < plan_.sentence.size(); ++i) time.tp += plan_.sentence[i].exposed_s;
  }
  if (shape_.pp == 1) return;
  double others = 0;
  for (const StagePlan& other : plan_.stages) others += other.forward_s + other.backward_s;
  others -= stage.forward_s + stage.backward_s;
  time.bubble = others / shape_.interleave;
  say_stages();
}

void PlanMaker::say_ends_of_model(bool has_first, bool has_last) {
  const double m = microbatches(), first = has_first ? 1 : 0, last = has_last ? 1 : 0, bytes = bytes_of_hidden();
  if (!has_first && !has_last) return;
  if (shape_.sp) {
    say(Verb::all_gather, "inputs of the output layer, gradients of the embedding", "tp", tp_, bytes,
        m * (first + 2 * last));
    say(Verb::reduce_scatter, "outputs of the embedding, gradients before the output layer", "tp", tp_, bytes,
        m * (first + last));
  } else {
    say(Verb::all_reduce, "outputs of the embedding, gradients before the output layer", "tp", tp_, bytes,
        m * (first + last));
  }
  if (has_last)
    say(Verb::all_reduce, "largest logits, sums and logits of targets", "tp", tp_, bytes_of_losses(), 2 * m);
}

// Ranks hold them whole, and each uses them for tokens of its own.
void PlanMaker::say_norms(int layers, bool has_first, bool has_last) {
  const double m = microbatches(), twice = 2.0 * layers;
  const std::size_t begin = plan_.sentence.size();
  say(Verb::all_reduce, "gradients of norms", "tp", tp_, bytes_of_norm(), m * (twice + (has_last ? 1 : 0)));
  if (job_.model.biases)
    say(Verb::all_reduce, "gradients of biases of products cut by rows", "tp", tp_, bytes_of_bias(), m * twice);
  if (job_.model.positions > 0 && has_first)
    say(Verb::all_reduce, "gradients of positions", "tp", tp_, bytes_of_places(), m);
  for (std::size_t i = begin; i < plan_.sentence.size() && job_.overlap.tp; ++i) plan_.sentence[i].exposed_s = 0;
}

// Ends have nobody before the first chunk or behind the last one.
void PlanMaker::say_stages() {
  const bool middle = busiest_ > 0 && static_cast<int>(busiest_) < shape_.pp - 1;
  const double crossings = (4.0 * shape_.interleave - (middle ? 0 : 2)) * microbatches();
  const bool gathered = prices_.stack().cuts_messages && shape_.tp > 1 && !shape_.sp;
  say_between_stages(Verb::send_recv, "activations and their gradients between stages", pair_,
                     bytes_of_hidden() / (shape_.sp || gathered ? shape_.tp : 1), crossings);
  plan_.sentence.back().sent = 0.5;
  // As many come as go.
  if (gathered)
    say_between_stages(Verb::all_gather, "activations that came from another stage", tp_, bytes_of_hidden(),
                       crossings / 2);
  if (job_.model.tied) say_tied_embedding();
  say_end_of_stages();
}

// The first stage looks tokens up in it, the last one multiplies by it: each has gradients of its own for the same
// values, and the update waits for their sum.
void PlanMaker::say_tied_embedding() {
  plan_.time.pp += say(Verb::all_reduce, "gradients of what embedding and output layer share, reduce_tied()", "pp",
                       pair_, job_.gradient_bytes * elements_of_embedding(), 1)
                       .exposed_s;
}

// A few bytes, and a message in every round: no schedule is simulated for that.
void PlanMaker::say_end_of_stages() {
  const GroupSpan stages = span_of(job_.cluster, shape_.pp, shape_.tp * shape_.cp * shape_.ep);
  const double bytes = static_cast<double>(strategy::kOutcomeBytes) * shape_.pp;
  const char* what = "whether all stages have ended well";
  if (job_.host) {
    plan_.time.pp += say(Verb::all_gather, what, "pp", stages, bytes, 1).exposed_s;
    return;
  }
  JobPhrase& phrase = put(Verb::all_gather, what, "pp", stages, bytes, 1);
  phrase.algorithm = "bruck";
  phrase.call_s = std::ceil(std::log2(shape_.pp)) * prices_.seconds(Verb::send_recv, pair_, bytes);
  phrase.exposed_s = phrase.call_s;
  plan_.time.pp += phrase.exposed_s;
}

// A stage sends while it receives; what the first and last micro-batches wait for is in nobody's shadow. Of that the
// other stages' share is nothing that this rank says: it waits, as in the rest of the bubble.
void PlanMaker::say_between_stages(Verb verb, const char* what, const GroupSpan& span, double bytes, double times) {
  JobPhrase& phrase = say(verb, what, "pp", span, bytes, times);
  const double steady = job_.overlap.pp ? 0 : std::min(times, 2 * shape_.interleave * microbatches()) * phrase.call_s;
  const double exposed = steady + 2 * (shape_.pp - 1) * phrase.call_s;
  phrase.exposed_s = std::min(exposed, phrase.total_s());
  plan_.time.pp += phrase.exposed_s;
  plan_.time.bubble += exposed - phrase.exposed_s;
}

void PlanMaker::add_work(const PassSeconds& seconds) {
  WorkSeconds both = seconds.forward;
  both += seconds.backward;
  plan_.time.products += microbatches() * both.products;
  plan_.time.attention += microbatches() * both.attention;
  plan_.time.pointwise += microbatches() * both.pointwise;
}

// What layers of the busiest stage say in a step.
void PlanMaker::say_layers(int layers) {
  const double m = microbatches();
  const bool full = job_.recompute == Recompute::full;
  const double hidden_bytes = bytes_of_hidden();
  int expert_layers = 0;
  for (int layer = firsts_[busiest_]; layer < firsts_[busiest_] + layers; ++layer)
    expert_layers += job_.model.has_experts(layer) ? 1 : 0;
  const auto share = [](JobPhrase& phrase, double exposed_s, double whole_s) {
    if (whole_s > 0) phrase.exposed_s *= std::min(1.0, exposed_s / whole_s);
  };
  if (shape_.tp > 1) {
    const std::size_t begin = plan_.sentence.size();
    if (shape_.sp) {
      say(Verb::all_gather, "activations before products", "tp", tp_, hidden_bytes, m * layers * (full ? 8 : 6));
      say(Verb::reduce_scatter, "activations behind products", "tp", tp_, hidden_bytes, m * layers * (full ? 6 : 4));
    } else {
      say(Verb::all_reduce, "activations and their gradients", "tp", tp_, hidden_bytes, m * layers * (full ? 6 : 4));
    }
    double whole = 0;
    for (std::size_t i = begin; i < plan_.sentence.size(); ++i) whole += plan_.sentence[i].total_s();
    for (std::size_t i = begin; i < plan_.sentence.size(); ++i) share(plan_.sentence[i], plan_.time.tp, whole);
  }
  if (shape_.cp > 1) {
    JobPhrase& gather =
        say(Verb::all_gather, "keys and values", "cp", cp_, bytes_of_keys(), m * layers * (full ? 3 : 2));
    const double gathered = gather.total_s();
    JobPhrase& reduce =
        say(Verb::reduce_scatter, "gradients of keys and values", "cp", cp_, bytes_of_keys(), m * layers);
    const double whole = gathered + reduce.total_s();
    share(reduce, plan_.time.cp, whole);
    share(plan_.sentence[plan_.sentence.size() - 2], plan_.time.cp, whole);
  }
  if (expert_layers > 0 && shape_.ep > 1) {
    say(Verb::all_to_all, "tokens to experts and back", "ep", ep_, bytes_of_dispatch(),
        m * expert_layers * (full ? 6 : 4));
    say(Verb::all_to_all, "rows for each expert", "ep", ep_, bytes_of_expert_counts(),
        m * expert_layers * (full ? 2 : 1));
  }
}

void PlanMaker::plan_flops() {
  const ForwardFlops forward = forward_flops(job_.model, job_.sequence);
  plan_.model_flops = 3 * forward.sum() * job_.global_batch;
  plan_.hardware_flops = plan_.model_flops;
  if (job_.recompute == Recompute::full)
    plan_.hardware_flops += (forward.matrices + forward.attention) * job_.global_batch;
  if (job_.recompute == Recompute::selective && job_.attention == Attention::unfused)
    plan_.hardware_flops += forward.attention * job_.global_batch;
}

std::vector<int> layers_of_stages(const Job& job) {
  const int stages = job.parallel.pp, layers = job.model.layers;
  std::vector<int> of(static_cast<std::size_t>(stages), layers / stages);
  // Stages in the middle have nothing but layers: they take what is over, then the first.
  std::vector<int> order;
  for (int stage = 1; stage + 1 < stages; ++stage) order.push_back(stage);
  order.push_back(0);
  for (int i = 0; i < layers % stages; ++i) ++of[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
  return of;
}

CollectivePrices prices_for(const Job& job) {
  if (job.host) return {job.cluster, job.accelerator, job.stack, *job.host};
  return {job.cluster, job.accelerator, job.stack};
}

JobPlan plan_job(const Job& job, CollectivePrices& prices, const CountedModel& counted) {
  return PlanMaker(job, prices, counted).make();
}
JobPlan plan_job(const Job& job, CollectivePrices& prices) {
  return plan_job(job, prices, CountedModel(job.model, job.parallel.tp, job.parallel.ep));
}

}  // namespace tutti::plan
