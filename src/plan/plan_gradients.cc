// What ranks say that have the same parameters: gradients and values by stage of ZeRO, as tutti::train cuts them into
// buckets and units, how far replicas came that exchange now and then, and what servers and actors are sent.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/plan_maker.h"
#include "plan/training.h"
#include "strategy/bucket_cap.h"
#include "strategy/timeline.h"
#include "strategy/units.h"

namespace tutti::plan {
namespace {

// Of a trajectory: the version of its weights; a token, its reward, log-probability and value.
constexpr double kVersionBytes = sizeof(std::int64_t), kTokenBytes = 4 * sizeof(float);

DType type_of(double bytes) { return bytes == sizeof(float) ? DType::float32 : DType::bfloat16; }

// How often stage 3 gathers each unit in a step: behind the first micro-batch all are alike.
std::vector<double> gathers_in_step(std::size_t units, double microbatches) {
  const std::size_t held = TrainingShape().gathered_units;
  const std::vector<std::size_t> one = gathers_of(passes_over(units, 1), units, held),
                                 two = gathers_of(passes_over(units, 2), units, held);
  std::vector<double> gathers;
  for (std::size_t unit = 0; unit < units; ++unit)
    gathers.push_back(static_cast<double>(one[unit]) +
                      (microbatches - 1) * (static_cast<double>(two[unit]) - static_cast<double>(one[unit])));
  return gathers;
}

}  // namespace

double PlanMaker::seconds_in_step(Verb verb, const GroupSpan& span, double bytes, double elements) {
  return prices_.seconds(verb, span, bytes) * prices_.factor_in_step(shape_.zero, span, job_.gradient_bytes * elements,
                                                                     job_.gradient_bytes * stage_elements_);
}

// How often a pass forward and backward gathers a layer, in the mean over layers and micro-batches: 2, but for units
// that are still there.
double PlanMaker::gathers_of_layer() const {
  const int layers = (job_.model.layers + shape_.pp - 1) / shape_.pp, ends = shape_.pp == 1 ? 1 : 0;
  const double m = microbatches();
  const std::vector<double> gathers = gathers_in_step(static_cast<std::size_t>(layers + 2 * ends), m);
  return std::accumulate(gathers.begin() + ends, gathers.end() - ends, 0.0) / (m * layers);
}

// Gradients, values and the optimizer's step, of the busiest stage.
void PlanMaker::plan_gradients() {
  const StageElements& part = parts_[busiest_];
  const double owned = shape_.zero >= 1
                           ? part.elements / shape_.replicas() + part.expert_elements / shape_.expert_replicas()
                           : part.elements + part.expert_elements;
  plan_.time.optimizer = optimizer_seconds(job_, owned);
  if (shape_.servers > 0) return plan_servers(part);
  if (shape_.local_steps > 0) plan_local_updates(part);
  if (dp_.ranks() == 1) return;
  if (shape_.zero == 3) return say_units();
  say_gradients(part);
}

void PlanMaker::say_gradients(const StageElements& part) {
  const Verb verb = shape_.zero == 0 ? Verb::all_reduce : Verb::reduce_scatter;
  // Stage 2 reduces behind the backward of every micro-batch.
  const double rounds = shape_.zero == 2 ? microbatches() : 1;
  const strategy::BucketLayout layout = lay_out_buckets(verb);
  play_timeline(verb, layout);
  double exposed = 0, whole = 0, bytes = 0;
  for (const train::BucketTimes& bucket : plan_.timeline) {
    exposed += rounds * bucket.exposed_us * 1e-6;
    whole += (bucket.end_us - bucket.start_us) * 1e-6;
    bytes += static_cast<double>(bucket.bytes);
  }
  const double count = static_cast<double>(plan_.timeline.size());
  JobPhrase& phrase = say(verb, "gradients", dp_name_, dp_, bytes / count, count * rounds);
  phrase.call_s = whole / count;
  phrase.exposed_s = exposed;
  if (part.expert_elements > 0 && expert_dp_.ranks() > 1) {
    const double calls = calls_for_experts(part.expert_elements);
    JobPhrase& experts = say(verb, "gradients of experts", dp_name_, expert_dp_,
                             gradient_bytes() * part.expert_elements / calls, calls * rounds);
    const double hidden = job_.overlap.dp ? rounds * busiest().backward_s : 0;
    experts.exposed_s = std::max(0.0, experts.total_s() - hidden);
    exposed += experts.exposed_s;
  }
  plan_.time.dp += exposed;
  if (shape_.zero > 0) say_values(part, layout);
}

// Stages 1 and 2 gather every bucket once its owners have updated it; experts have owners of their own.
void PlanMaker::say_values(const StageElements& part, const strategy::BucketLayout& layout) {
  double elements = 0;
  for (const strategy::Bucket& bucket : layout.buckets) elements += static_cast<double>(bucket.elements);
  const double seconds = values_s(layout);
  const double count = static_cast<double>(layout.buckets.size());
  const std::size_t begin = plan_.sentence.size();
  say(Verb::all_gather, "values", dp_name_, dp_, job_.value_bytes * elements / count, count).call_s = seconds / count;
  if (part.expert_elements > 0 && expert_dp_.ranks() > 1) {
    const double calls = calls_for_experts(part.expert_elements);
    say(Verb::all_gather, "values of experts", dp_name_, expert_dp_, job_.value_bytes * part.expert_elements / calls,
        calls);
  }
  double left = job_.overlap.dp ? busiest().forward_s : 0;
  for (std::size_t i = begin; i < plan_.sentence.size(); ++i) {
    JobPhrase& phrase = plan_.sentence[i];
    phrase.exposed_s = std::max(0.0, phrase.total_s() - left);
    left = std::max(0.0, left - phrase.total_s());
    plan_.time.dp += phrase.exposed_s;
  }
}

// Calls for experts' tensors, which are all alike, a bucket at a time.
double PlanMaker::calls_for_experts(double elements) const {
  const auto found = std::ranges::find(tensors_, true, &ModelTensor::of_experts);
  const double each = static_cast<double>(found->elements), cap = plan_.job.bucket_bytes / job_.gradient_bytes;
  return std::ceil(elements / each / std::max(1.0, std::floor(cap / each)));
}

// Replicas exchange how far they came in 32 bits and one fragment, behind their step: nothing hides that.
void PlanMaker::plan_local_updates(const StageElements& part) {
  const int near = shape_.tp * shape_.cp, far = near * shape_.ep * shape_.pp;
  const RanksApart others{shape_.dp / shape_.ep, far};
  const auto exchange = [&](const char* what, const GroupSpan& span, double elements) {
    if (elements == 0 || span.ranks() == 1) return;
    JobPhrase& phrase = say(Verb::all_reduce, what, "dp", span, sizeof(float) * elements / job_.compress, 1);
    phrase.every = shape_.local_steps;
    phrase.exposed_s = phrase.total_s();
    plan_.time.dp += phrase.exposed_s;
  };
  exchange("how far replicas came", span_of_blocks({shape_.ep, near}, others), part.elements);
  exchange("how far experts of replicas came", span_of_blocks({}, others), part.expert_elements);
}

// A worker pushes to every server and pulls from it, in 32 bits, a tensor or its part at a time; a server has all that
// workers push on its link. What a worker waits for is whichever is longer. The clock ends with both: none is hidden.
void PlanMaker::plan_servers(const StageElements& part) {
  const double elements = part.elements + part.expert_elements;
  plan_.time.optimizer = optimizer_seconds(job_, elements / shape_.servers);
  const train::Sentence sentence = server_sentence(job_.model, shape_.servers);
  const auto say_all = [&](const char* what, const char* kind, double compress, double sent) {
    double bytes = 0, calls = 0;
    for (const train::Phrase& phrase : sentence) {
      if (!phrase.what.starts_with(kind)) continue;
      calls += static_cast<double>(phrase.times);
      bytes += static_cast<double>(phrase.times * phrase.bytes) / compress;
    }
    JobPhrase& phrase = say(Verb::send_recv, what, "ps", partners_, bytes / calls, calls);
    const double all = std::max(bytes, bytes * shape_.dp / shape_.servers);
    phrase.call_s = prices_.seconds(Verb::send_recv, partners_, all) / calls;
    phrase.exposed_s = phrase.total_s();
    phrase.sent = sent;
    plan_.time.dp += phrase.exposed_s;
  };
  say_all("gradients pushed to servers", "push", job_.compress, 1);
  say_all("values pulled from servers", "pull", 1, 0);
  say_all("the clock ends, the next one may begin", "the ", 1, 0.5);
  MemoryBill server{.capacity = plan_.memory.capacity};
  server.parameters = job_.value_bytes * elements / shape_.servers;
  server.gradients = job_.gradient_bytes * elements / shape_.servers;
  server.optimizer = plan_.memory.optimizer / shape_.servers;
  server.reserved = plan_.memory.reserved;
  for (std::size_t i = 0; i < plan_.stages.size(); ++i) {  // of workers
    StagePlan& stage = plan_.stages[i];
    const double experts = parts_[i].expert_elements;
    stage.memory_bytes -= memory_of(job_, static_cast<int>(i), stage.layers, stage.parameters, experts).optimizer;
  }
  plan_.memory.optimizer = 0;
  if (server.sum() > plan_.memory.sum()) plan_.memory = server;
}

// Weights go out to every actor behind the step, in 32 bits, by a learner of its own where there are as many, and
// trajectories, which are tokens, come back.
void PlanMaker::plan_actors() {
  if (shape_.actors == 0) return;
  const double each = std::ceil(static_cast<double>(shape_.actors) / shape_.replicas());
  const double learner_s = plan_.time.sum();
  JobPhrase& weights = say(Verb::send_recv, "weights to actors", "actors", partners_,
                           sizeof(float) * (parts_[busiest_].elements + parts_[busiest_].expert_elements), each);
  weights.exposed_s = std::max(0.0, weights.total_s() - learner_s);
  plan_.time.dp += weights.exposed_s;
  const double tokens = static_cast<double>(job_.global_batch) * job_.sequence / shape_.actors;
  JobPhrase& trajectories =
      say(Verb::send_recv, "trajectories of actors", "actors", partners_, kVersionBytes + kTokenBytes * tokens, each);
  trajectories.exposed_s = 0;  // the queue is filled while the step before is computed
  trajectories.sent = 0;
}

// Stage 3 gathers a unit (the embedding, a layer, what stands behind the last) before it is used, and reduces its
// gradients once in every micro-batch.
void PlanMaker::say_units() {
  const double m = microbatches();
  const std::vector<ModelTensor> tensors = shared_tensors();
  std::vector<strategy::TensorSize> sizes;
  std::vector<std::size_t> units;  // by tensor
  std::vector<int> layers;         // by unit
  for (const ModelTensor& tensor : tensors) {
    if (layers.empty() || layers.back() != tensor.layer) layers.push_back(tensor.layer);
    units.push_back(layers.size() - 1);
    sizes.push_back({tensor.elements, type_of(job_.value_bytes)});
  }
  const std::vector<double> gathers = gathers_in_step(layers.size(), m);
  double gathered = 0, held = 0, calls = 0, expert_calls = 0, expert_layers = 0, gather_s = 0, reduce_s = 0;
  for (const strategy::Bucket& bucket : lay_out_units(sizes, units, dp_.ranks()).buckets) {
    const double times = gathers[units[bucket.parameters.front()]];
    const auto elements = static_cast<double>(bucket.elements);
    calls += times;
    gathered += times * elements;
    held += elements;
    gather_s += times * seconds_in_step(Verb::all_gather, dp_, job_.value_bytes * elements, elements);
    reduce_s += seconds_in_step(Verb::reduce_scatter, dp_, gradient_bytes() * elements, elements);
  }
  for (std::size_t unit = 0; unit < layers.size(); ++unit) {
    if (layers[unit] < 0 || layers[unit] >= job_.model.layers || !job_.model.has_experts(layers[unit])) continue;
    expert_calls += gathers[unit];
    ++expert_layers;
  }
  const double count = static_cast<double>(layers.size());
  const std::size_t begin = plan_.sentence.size();
  const auto say_of_units = [&](Verb verb, const char* what, double bytes, double times, double seconds) {
    JobPhrase& phrase = say(verb, what, dp_name_, dp_, bytes, times);
    phrase.call_s = seconds / times;
    phrase.exposed_s = phrase.total_s();
  };
  say_of_units(Verb::all_gather, "values of a layer", job_.value_bytes * gathered / calls, calls, gather_s);
  say_of_units(Verb::reduce_scatter, "gradients of a layer", gradient_bytes() * held / count, m * count, m * reduce_s);
  if (expert_layers > 0 && expert_dp_.ranks() > 1) {
    const double each = parts_[busiest_].expert_elements / expert_layers;
    say(Verb::all_gather, "values of a layer's experts", dp_name_, expert_dp_, job_.value_bytes * each, expert_calls);
    say(Verb::reduce_scatter, "gradients of a layer's experts", dp_name_, expert_dp_, gradient_bytes() * each,
        m * expert_layers);
  }
  double whole = 0;
  for (std::size_t i = begin; i < plan_.sentence.size(); ++i) whole += plan_.sentence[i].total_s();
  for (std::size_t i = begin; i < plan_.sentence.size() && whole > 0; ++i)
    plan_.sentence[i].exposed_s *= std::min(1.0, plan_.time.dp / whole);
}

std::vector<ModelTensor> PlanMaker::shared_tensors() const {
  const int first = firsts_[busiest_], last = first + busiest().layers, layers = job_.model.layers;
  const bool has_last = last == layers;
  std::vector<ModelTensor> shared;
  for (const ModelTensor& tensor : tensors_) {
    const bool here = (tensor.layer >= first && tensor.layer < last) || (tensor.layer == layers && has_last) ||
                      (tensor.layer < 0 && first == 0) || (tensor.is_embedding() && has_last && job_.model.tied);
    if (here && !tensor.of_experts) shared.push_back(tensor);
  }
  return shared;
}

// Buckets of the busiest stage, as tutti::train lays them out.
strategy::BucketLayout PlanMaker::lay_out_buckets(Verb verb) {
  std::vector<strategy::TensorSize> sizes;
  for (const ModelTensor& tensor : shared_tensors()) sizes.push_back({tensor.elements, type_of(job_.gradient_bytes)});
  const std::vector<std::size_t> order = strategy::reverse_order(sizes.size());
  auto cap = static_cast<std::size_t>(job_.bucket_bytes);
  if (cap == 0) {
    cap = strategy::cheapest_cap(sizes, order, dp_.ranks(),
                                 [&](const strategy::BucketLayout& layout) { return exposed_us(verb, layout); });
    plan_.job.bucket_bytes = static_cast<double>(cap);
  }
  return lay_out(sizes, order, {.cap_bytes = cap, .ranks = dp_.ranks()});
}

// What is cut along replicas travels with what fills its shards up.
double PlanMaker::bytes_of_bucket(Verb verb, const strategy::Bucket& bucket) const {
  return static_cast<double>(verb == Verb::all_reduce ? bucket.filled : bucket.elements) * gradient_bytes();
}

double PlanMaker::bucket_s(Verb verb, const strategy::Bucket& bucket) {
  return seconds_in_step(verb, dp_, bytes_of_bucket(verb, bucket), static_cast<double>(bucket.elements));
}

// Of all buckets of a layout, which stages 1 and 2 gather behind the update.
double PlanMaker::values_s(const strategy::BucketLayout& layout) {
  double seconds = 0;
  for (const strategy::Bucket& bucket : layout.buckets) {
    const auto elements = static_cast<double>(bucket.elements);
    seconds += seconds_in_step(Verb::all_gather, dp_, job_.value_bytes * elements, elements);
  }
  return seconds;
}

// What a step would show of gradients and values in these buckets.
double PlanMaker::exposed_us(Verb verb, const strategy::BucketLayout& layout) {
  const double backward_us = job_.overlap.dp ? busiest().backward_s * 1e6 : 0;
  const double rounds = shape_.zero == 2 ? microbatches() : 1;
  const auto price = [&](const strategy::Bucket& bucket) { return bucket_s(verb, bucket) * 1e6; };
  const double gradients = rounds * strategy::exposed_us(layout, price, backward_us);
  if (shape_.zero == 0) return gradients;
  return gradients + std::max(0.0, values_s(layout) - (job_.overlap.dp ? busiest().forward_s : 0)) * 1e6;
}

// Over the backward of the last micro-batch.
void PlanMaker::play_timeline(Verb verb, const strategy::BucketLayout& layout) {
  plan_.backward_us = busiest().backward_s * 1e6;
  double elements = 0, so_far = 0;
  for (const strategy::Bucket& bucket : layout.buckets) elements += static_cast<double>(bucket.filled);
  std::vector<strategy::PricedBucket> buckets;
  for (const strategy::Bucket& bucket : layout.buckets) {
    so_far += static_cast<double>(bucket.filled);
    const double ready = job_.overlap.dp ? plan_.backward_us * so_far / elements : plan_.backward_us;
    buckets.push_back({static_cast<std::uint64_t>(bytes_of_bucket(verb, bucket)), bucket.parameters.size(), ready,
                       bucket_s(verb, bucket) * 1e6});
  }
  plan_.timeline = strategy::play_buckets(buckets, plan_.backward_us);
}

}  // namespace tutti::plan
