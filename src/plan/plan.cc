#include "plan/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/compute.h"
#include "strategy/buckets.h"
#include "strategy/timeline.h"

namespace tutti::plan {
namespace {

// Tensor parallelism that overlaps cuts a product into so many pieces; one piece's communication has nothing before it.
constexpr double kTensorPieces = 4;
constexpr double kTokenBytes = 4 * sizeof(float);  // of a trajectory: the token, its reward, log-probability and value

struct StageElements {
  double elements = 0, expert_elements = 0;  // of a rank
};

class PlanMaker {
 public:
  PlanMaker(const Job& job, CollectivePrices& prices) : job_(job), prices_(prices), shape_(job.parallel) {
    plan_.job = job;
    tensors_ = counted_tensors_of(job.model, shape_.tp, shape_.ep);
    const int near = shape_.tp * shape_.cp;
    tp_ = span_of(job.cluster, shape_.tp, 1);
    cp_ = span_of(job.cluster, shape_.cp, shape_.tp);
    ep_ = span_of(job.cluster, shape_.ep, near);
    dp_ = span_of_dp(near);
    expert_dp_ = span_of(job.cluster, shape_.dp / shape_.ep, near * shape_.ep * shape_.pp);
    pair_ = span_of(job.cluster, 2, near * shape_.ep);
    partners_ = span_of(job.cluster, 2, job.cluster.hosts > 1 ? job.cluster.devices_per_host() : 1);
  }

  JobPlan make() {
    plan_layers();
    plan_stages();
    plan_pipeline();
    plan_gradients();
    plan_actors();
    plan_flops();
    sum_up();
    return std::move(plan_);
  }

 private:
  // What is hidden slows computing; what tensor parallelism hides is moved by copy engines, which need no cores.
  void sum_up() {
    for (const JobPhrase& phrase : plan_.sentence) {
      plan_.communication_s += phrase.total_s();
      if (phrase.group == "tp") continue;
      plan_.time.contention += job_.accelerator.contention * std::max(0.0, phrase.total_s() - phrase.exposed_s);
    }
  }

  // Of a dp group: ep neighbours lie near, the others behind the stages.
  GroupSpan span_of_dp(int near) const {
    if (shape_.ep == 1) return span_of(job_.cluster, shape_.dp * 1, near * shape_.pp);
    const GroupSpan inner = span_of(job_.cluster, shape_.ep, near);
    const GroupSpan outer = span_of(job_.cluster, shape_.dp / shape_.ep, near * shape_.ep * shape_.pp);
    return {inner.per_host * outer.per_host, inner.hosts * outer.hosts};
  }

  double microbatches() const { return job_.microbatches(); }

  // A phrase that is said `times` in a step; `hidden_s` of each call is hidden.
  JobPhrase& say(Verb verb, std::string what, const char* group, const GroupSpan& span, double bytes, double times) {
    JobPhrase phrase;
    phrase.verb = verb;
    phrase.what = std::move(what);
    phrase.group = group;
    phrase.span = span;
    phrase.links = links_of(job_.cluster, span);
    phrase.bytes = bytes;
    phrase.times = times;
    phrase.algorithm = prices_.algorithm(verb, span, bytes);
    phrase.call_s = prices_.seconds(verb, span, bytes);
    phrase.exposed_s = phrase.call_s * times;
    plan_.sentence.push_back(std::move(phrase));
    return plan_.sentence.back();
  }

  // Kinds of layers: with and without experts.
  struct LayerPlan {
    PassSeconds seconds;
    WorkSeconds again;
    double tp_forward = 0, tp_backward = 0, cp_forward = 0, cp_backward = 0, ep_forward = 0, ep_backward = 0;
    double gather_forward = 0, gather_backward = 0;  // exposed, of stage 3

    double exposed_forward() const { return tp_forward + cp_forward + ep_forward + gather_forward; }
    double exposed_backward() const { return tp_backward + cp_backward + ep_backward + gather_backward; }
    double forward() const { return seconds.forward.sum() + exposed_forward(); }
    double backward() const { return seconds.backward.sum() + again.sum() + exposed_backward(); }
  };

  double exposed_of_tensor_parallel(double communication_s, double products_s) const {
    if (!job_.overlap.tp) return communication_s;
    return std::max(communication_s / kTensorPieces, communication_s - products_s);
  }

  void plan_layers() {
    for (const bool experts : {false, true}) {
      LayerPlan& kind = kinds_[experts ? 1 : 0];
      const int layer = layer_of_kind(experts);
      if (layer < 0) continue;
      kind.seconds = layer_seconds(job_, layer);
      kind.again = again_seconds(job_, kind.seconds);
      const bool full = job_.recompute == Recompute::full;
      const double hidden_bytes = job_.value_bytes * tokens_on_rank(job_) * job_.model.hidden;
      if (shape_.tp > 1) {
        const double reduce = prices_.seconds(Verb::all_reduce, tp_, hidden_bytes);
        const double cut = prices_.seconds(Verb::all_gather, tp_, hidden_bytes) +
                           prices_.seconds(Verb::reduce_scatter, tp_, hidden_bytes);
        // Sequence parallel gathers what it keeps cut once more in backward.
        const double again = prices_.seconds(Verb::all_gather, tp_, hidden_bytes);
        const double forward = 2 * (shape_.sp ? cut : reduce);
        const double backward = shape_.sp ? 2 * cut + 2 * again : 2 * reduce;
        kind.tp_forward = exposed_of_tensor_parallel(forward, kind.seconds.forward.products);
        kind.tp_backward =
            exposed_of_tensor_parallel(backward, kind.seconds.backward.products) + (full ? kind.tp_forward : 0);
      }
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
        kind.ep_forward = 2 * prices_.seconds(Verb::all_to_all, ep_, bytes_of_dispatch());
        kind.ep_backward = kind.ep_forward * (full ? 2 : 1);
      }
      if (shape_.zero == 3 && shape_.dp > 1) plan_gathers(kind, elements_of_layer(layer));
    }
  }

  // Stage 3 gathers a layer while the one before it computes, forward and backward, and reduces behind backward.
  void plan_gathers(LayerPlan& kind, const StageElements& layer) {
    const double gather = prices_.seconds(Verb::all_gather, dp_, job_.value_bytes * layer.elements) +
                          prices_.seconds(Verb::all_gather, expert_dp_, job_.value_bytes * layer.expert_elements);
    const double reduce = prices_.seconds(Verb::reduce_scatter, dp_, gradient_bytes() * layer.elements) +
                          prices_.seconds(Verb::reduce_scatter, expert_dp_, gradient_bytes() * layer.expert_elements);
    const double hides = job_.overlap.dp ? prices_.stack().prefetch : 0;
    kind.gather_forward = std::max(0.0, gather - hides * kind.seconds.forward.sum());
    kind.gather_backward = std::max(0.0, gather + reduce - hides * (kind.seconds.backward.sum() + kind.again.sum()));
  }

  double gradient_bytes() const { return job_.gradient_bytes / job_.compress; }
  double bytes_of_keys() const {
    return 2 * job_.value_bytes * tokens_on_rank(job_) * shape_.cp * job_.model.kv_width() / shape_.tp;
  }
  double bytes_of_dispatch() const {
    const ModelShape& model = job_.model;
    return job_.value_bytes * tokens_on_rank(job_) * model.top_k * model.hidden * model.capacity_factor *
           model.imbalance / (shape_.sp ? shape_.tp : 1);
  }

  int layer_of_kind(bool experts) const {
    for (int layer = 0; layer < job_.model.layers; ++layer)
      if (job_.model.has_experts(layer) == experts) return layer;
    return -1;
  }

  StageElements elements_of_layer(int layer) const {
    StageElements part;
    for (const ModelTensor& tensor : tensors_) {
      if (tensor.layer != layer) continue;
      (tensor.of_experts ? part.expert_elements : part.elements) += tensor.all_elements();
    }
    return part;
  }

  void plan_stages() {
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
      const auto add = [&](const StageElements& more) {
        part.elements += more.elements;
        part.expert_elements += more.expert_elements;
      };
      for (int layer = first; layer < first + made.layers; ++layer) {
        const LayerPlan& kind = kinds_[job_.model.has_experts(layer) ? 1 : 0];
        made.forward_s += kind.forward();
        made.backward_s += kind.backward();
        add(by_layer[static_cast<std::size_t>(layer + 1)]);
      }
      if (stage == 0) {
        made.forward_s += embedding.forward.sum() + vocabulary_s();
        made.backward_s += embedding.backward.sum();
        add(by_layer.front());
      }
      if (stage == shape_.pp - 1) {
        made.forward_s += logits.forward.sum();
        made.backward_s += logits.backward.sum() + vocabulary_s();
        add(by_layer.back());
        if (job_.model.tied && shape_.pp > 1) add(by_layer.front());
      }
      made.parameters = part.elements + part.expert_elements;
      const MemoryBill memory = memory_of(job_, stage, made.layers, made.parameters, part.expert_elements);
      made.memory_bytes = memory.sum();
      if (stage == 0 || memory.sum() > plan_.memory.sum()) plan_.memory = memory;
      const double so_far = plan_.stages.empty() ? -1 : busiest().forward_s + busiest().backward_s;
      plan_.stages.push_back(made);
      parts_.push_back(part);
      firsts_.push_back(first);
      if (made.forward_s + made.backward_s > so_far) busiest_ = static_cast<std::size_t>(stage);
      first += made.layers;
    }
  }

  // The all_reduce of the vocabulary-parallel embedding, and of the gradient of logits.
  double vocabulary_s() {
    return shape_.tp == 1
               ? 0
               : prices_.seconds(Verb::all_reduce, tp_, job_.value_bytes * tokens_on_rank(job_) * job_.model.hidden);
  }

  const StagePlan& busiest() const { return plan_.stages[busiest_]; }

  void plan_pipeline() {
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
    time.tp += m * vocabulary_s() * ((has_first ? 1 : 0) + (has_last ? 1 : 0));
    say_layers(stage.layers);
    if (shape_.tp > 1 && (has_first || has_last))
      say(Verb::all_reduce, "outputs of the embedding, gradients before the output layer", "tp", tp_,
          job_.value_bytes * tokens_on_rank(job_) * job_.model.hidden, m * ((has_first ? 1 : 0) + (has_last ? 1 : 0)));
    if (shape_.pp == 1) return;
    double others = 0;
    for (const StagePlan& other : plan_.stages) others += other.forward_s + other.backward_s;
    others -= stage.forward_s + stage.backward_s;
    time.bubble = others / shape_.interleave;
    const bool middle = !has_first && !has_last;
    const double crossings = 2 * shape_.interleave * (middle ? 2.0 : 1.0) * m;
    const double whole = job_.value_bytes * tokens_on_rank(job_) * job_.model.hidden;
    const bool gathered = prices_.stack().cuts_messages && shape_.tp > 1 && !shape_.sp;
    say_between_stages(Verb::send_recv, "activations and their gradients between stages", pair_,
                       whole / (shape_.sp || gathered ? shape_.tp : 1), crossings);
    // As many come as go.
    if (gathered)
      say_between_stages(Verb::all_gather, "activations that came from another stage", tp_, whole, crossings);
  }

  // A stage sends while it receives; what the first and last micro-batches wait for is in nobody's shadow.
  void say_between_stages(Verb verb, const char* what, const GroupSpan& span, double bytes, double times) {
    JobPhrase& phrase = say(verb, what, "pp", span, bytes, times);
    const double steady = job_.overlap.pp ? 0 : 2 * shape_.interleave * microbatches() * phrase.call_s;
    phrase.exposed_s = steady + 2 * (shape_.pp - 1) * phrase.call_s;
    plan_.time.pp += phrase.exposed_s;
  }

  void add_work(const PassSeconds& seconds) {
    WorkSeconds both = seconds.forward;
    both += seconds.backward;
    plan_.time.products += microbatches() * both.products;
    plan_.time.attention += microbatches() * both.attention;
    plan_.time.pointwise += microbatches() * both.pointwise;
  }

  // What layers of the busiest stage say in a step.
  void say_layers(int layers) {
    const double m = microbatches();
    const bool full = job_.recompute == Recompute::full;
    const double hidden_bytes = job_.value_bytes * tokens_on_rank(job_) * job_.model.hidden;
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
    if (expert_layers > 0 && shape_.ep > 1)
      say(Verb::all_to_all, "tokens to experts and back", "ep", ep_, bytes_of_dispatch(),
          m * expert_layers * (full ? 6 : 4));
  }

  // Gradients, values and the optimizer's step, of the busiest stage.
  void plan_gradients() {
    const StageElements& part = parts_[busiest_];
    const double owned = shape_.zero >= 1 ? part.elements / shape_.dp + part.expert_elements / (shape_.dp / shape_.ep)
                                          : part.elements + part.expert_elements;
    plan_.time.optimizer = optimizer_seconds(job_, owned);
    if (shape_.servers > 0) return plan_servers(part);
    if (shape_.dp == 1) return;
    if (shape_.zero == 3) return say_gathers(part);
    const double rounds = shape_.zero == 2 ? microbatches() : 1;
    const double every = std::max(1, shape_.local_steps);
    const Verb verb = shape_.zero == 0 ? Verb::all_reduce : Verb::reduce_scatter;
    play_timeline(verb);
    double exposed = 0, whole = 0;
    for (const train::BucketTimes& bucket : plan_.timeline) {
      exposed += bucket.exposed_us * 1e-6;
      whole += (bucket.end_us - bucket.start_us) * 1e-6;
    }
    // Stage 2 reduces behind the backward of every micro-batch.
    exposed *= rounds;
    const double count = static_cast<double>(plan_.timeline.size());
    if (part.elements > 0) {
      JobPhrase& phrase = say(verb, shape_.local_steps > 0 ? "how far replicas came" : "gradients", "dp", dp_,
                              gradient_bytes() * part.elements / count, count * rounds);
      phrase.call_s = whole / count;
      phrase.every = every;
      phrase.exposed_s = exposed / every;
    }
    if (part.expert_elements > 0 && shape_.dp > shape_.ep) {
      JobPhrase& phrase =
          say(verb, "gradients of experts", "dp", expert_dp_, gradient_bytes() * part.expert_elements, rounds);
      phrase.every = every;
      const double hidden = job_.overlap.dp ? busiest().backward_s : 0;
      phrase.exposed_s = rounds * std::max(0.0, phrase.call_s - hidden) / every;
      exposed += phrase.exposed_s * every;
    }
    if (shape_.zero > 0) {
      JobPhrase& values = say(Verb::all_gather, "values", "dp", dp_, job_.value_bytes * part.elements, 1);
      values.exposed_s = job_.overlap.dp ? std::max(0.0, values.call_s - busiest().forward_s) : values.call_s;
      plan_.time.dp += values.exposed_s;
    }
    plan_.time.dp += exposed / every;
  }

  // A worker pushes to every server and pulls from it; a server has the pushes of all workers on its link. What a
  // worker waits for is whichever is longer. The clock ends with both: nothing is hidden.
  void plan_servers(const StageElements& part) {
    const double elements = part.elements + part.expert_elements;
    plan_.time.optimizer = optimizer_seconds(job_, elements / shape_.servers);
    const auto both = [&](const char* what, double bytes_each) {
      const double bytes = bytes_each * elements;
      JobPhrase& phrase = say(Verb::send_recv, what, "ps", partners_, bytes / shape_.servers, shape_.servers);
      const double all = std::max(bytes, bytes * shape_.dp / shape_.servers);
      phrase.call_s = prices_.seconds(Verb::send_recv, partners_, all) / shape_.servers;
      phrase.exposed_s = phrase.total_s();
      plan_.time.dp += phrase.exposed_s;
    };
    both("gradients pushed to servers", gradient_bytes());
    both("values pulled from servers", job_.value_bytes);
    MemoryBill server{.capacity = plan_.memory.capacity};
    server.parameters = job_.value_bytes * elements / shape_.servers;
    server.gradients = job_.gradient_bytes * elements / shape_.servers;
    server.optimizer = plan_.memory.optimizer / shape_.servers;
    server.reserved = plan_.memory.reserved;
    plan_.memory.optimizer = 0;  // of a worker
    if (server.sum() > plan_.memory.sum()) plan_.memory = server;
  }

  // Weights go out to every actor behind the step, by a learner of its own where there are as many, and trajectories,
  // which are tokens, come back.
  void plan_actors() {
    if (shape_.actors == 0) return;
    const double each = std::ceil(static_cast<double>(shape_.actors) / shape_.computing());
    const double learner_s = plan_.time.sum();
    JobPhrase& weights = say(Verb::send_recv, "weights to actors", "actors", partners_,
                             job_.value_bytes * (parts_[busiest_].elements + parts_[busiest_].expert_elements), each);
    weights.exposed_s = std::max(0.0, weights.total_s() - learner_s);
    plan_.time.dp += weights.exposed_s;
    const double tokens = static_cast<double>(job_.global_batch) * job_.sequence / shape_.actors;
    JobPhrase& trajectories =
        say(Verb::send_recv, "trajectories of actors", "actors", partners_, kTokenBytes * tokens, each);
    trajectories.exposed_s = 0;  // the queue is filled while the step before is computed
  }

  void say_gathers(const StageElements& part) {
    const double m = microbatches(), layers = busiest().layers;
    const std::size_t begin = plan_.sentence.size();
    const auto both = [&](const GroupSpan& span, double elements, const char* of) {
      if (elements == 0) return;
      say(Verb::all_gather, std::string("values of a layer") + of, "dp", span, job_.value_bytes * elements / layers,
          2 * m * layers);
      say(Verb::reduce_scatter, std::string("gradients of a layer") + of, "dp", span,
          gradient_bytes() * elements / layers, m * layers);
    };
    both(dp_, part.elements, "");
    both(expert_dp_, part.expert_elements, "'s experts");
    double whole = 0;
    for (std::size_t i = begin; i < plan_.sentence.size(); ++i) whole += plan_.sentence[i].total_s();
    for (std::size_t i = begin; i < plan_.sentence.size() && whole > 0; ++i)
      plan_.sentence[i].exposed_s *= std::min(1.0, plan_.time.dp / whole);
  }

  // Buckets of the busiest stage, as tutti::train lays them out, over the backward of its last micro-batch.
  void play_timeline(Verb verb) {
    std::vector<strategy::TensorSize> sizes;
    const int first = firsts_[busiest_], last = first + busiest().layers;
    double elements = 0;
    for (const ModelTensor& tensor : tensors_) {
      const bool here = (tensor.layer >= first && tensor.layer < last) || (tensor.layer < 0 && first == 0) ||
                        (tensor.layer == job_.model.layers && last == job_.model.layers);
      if (!here || tensor.of_experts) continue;
      sizes.push_back({tensor.elements, DType::bfloat16});
      elements += static_cast<double>(tensor.elements);
    }
    // Elements count as two bytes here, whatever they travel as.
    const double widened = 2 / job_.gradient_bytes;
    plan_.backward_us = busiest().backward_s * 1e6;
    auto cap = static_cast<std::size_t>(job_.bucket_bytes * widened);
    if (cap == 0) {
      cap = strategy::cheapest_cap(
          static_cast<std::size_t>(2 * elements),
          [&](std::size_t bytes) {
            return prices_.seconds(verb, dp_, static_cast<double>(bytes) * gradient_bytes() / 2) * 1e6;
          },
          job_.overlap.dp ? plan_.backward_us : 0);
      plan_.job.bucket_bytes = static_cast<double>(cap) / widened;
    }
    const strategy::BucketLayout layout =
        strategy::lay_out(sizes, strategy::reverse_order(sizes.size()), {.cap_bytes = cap, .ranks = shape_.dp});
    std::vector<strategy::PricedBucket> buckets;
    double so_far = 0;
    for (const strategy::Bucket& bucket : layout.buckets) {
      so_far += static_cast<double>(bucket.filled);
      const double bytes = static_cast<double>(bucket.filled) * gradient_bytes();
      const double ready = job_.overlap.dp ? plan_.backward_us * std::min(1.0, so_far / elements) : plan_.backward_us;
      buckets.push_back({static_cast<std::uint64_t>(bytes), bucket.parameters.size(), ready,
                         prices_.seconds(verb, dp_, bytes) * 1e6});
    }
    plan_.timeline = strategy::play_buckets(buckets, plan_.backward_us);
  }

  void plan_flops() {
    const ForwardFlops forward = forward_flops(job_.model, job_.sequence);
    plan_.model_flops = 3 * forward.sum() * job_.global_batch;
    plan_.hardware_flops = plan_.model_flops;
    if (job_.recompute == Recompute::full)
      plan_.hardware_flops += (forward.matrices + forward.attention) * job_.global_batch;
    if (job_.recompute == Recompute::selective && job_.attention == Attention::unfused)
      plan_.hardware_flops += forward.attention * job_.global_batch;
    plan_.parameters = parameters_of(job_.model).all;
  }

  const Job& job_;
  CollectivePrices& prices_;
  const ParallelShape& shape_;
  JobPlan plan_;
  std::vector<ModelTensor> tensors_;
  GroupSpan tp_, cp_, ep_, dp_, expert_dp_;
  GroupSpan pair_, partners_;  // neighbouring stages; a worker and its server, a learner and its actor
  LayerPlan kinds_[2];
  std::vector<StageElements> parts_;  // by stage
  std::vector<int> firsts_;           // by stage: its first layer
  std::size_t busiest_ = 0;
};

}  // namespace

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

JobPlan plan_job(const Job& job, CollectivePrices& prices) { return PlanMaker(job, prices).make(); }

}  // namespace tutti::plan
