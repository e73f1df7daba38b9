// How a plan is made: what layers, stages and replicas of a job compute and say, phrase by phrase. plan.cc has a step
// up to its pipeline, plan_gradients.cc what replicas exchange and what servers and actors do.
#pragma once

#include <string>
#include <vector>

#include "plan/compute.h"
#include "plan/plan.h"
#include "strategy/buckets.h"

namespace tutti::plan {

struct StageElements {
  double elements = 0, expert_elements = 0;  // of a rank

  StageElements& operator+=(const StageElements& more) {
    elements += more.elements;
    expert_elements += more.expert_elements;
    return *this;
  }
};

class PlanMaker {
 public:
  PlanMaker(const Job& job, CollectivePrices& prices, const CountedModel& counted);

  JobPlan make();

 private:
  // Kinds of layers: with and without experts.
  struct LayerPlan {
    PassSeconds seconds;
    WorkSeconds again;
    double tp_forward = 0, tp_backward = 0, cp_forward = 0, cp_backward = 0, ep_forward = 0, ep_backward = 0;
    double gather_forward = 0, gather_backward = 0;  // exposed, of stage 3
    double norms = 0;                                // exposed, of what sequence parallel holds whole

    double exposed_forward() const { return tp_forward + cp_forward + ep_forward + gather_forward; }
    double exposed_backward() const { return tp_backward + norms + cp_backward + ep_backward + gather_backward; }
    double forward() const { return seconds.forward.sum() + exposed_forward(); }
    double backward() const { return seconds.backward.sum() + again.sum() + exposed_backward(); }
  };

  // A phrase that is said `times` in a step; `say` has its price as well, all of it exposed so far.
  JobPhrase& put(Verb verb, std::string what, const char* group, const GroupSpan& span, double bytes, double times);
  JobPhrase& say(Verb verb, std::string what, const char* group, const GroupSpan& span, double bytes, double times);
  struct RanksApart {
    int ranks = 1, stride = 1;  // in devices
  };
  GroupSpan span_of_blocks(const RanksApart& block, const RanksApart& blocks) const;

  double microbatches() const { return job_.microbatches(); }
  double gradient_bytes() const { return job_.gradient_bytes / job_.compress; }
  // Of a call about a bucket, or a unit, of so many elements, as long as it is under way in a step.
  double seconds_in_step(Verb verb, const GroupSpan& span, double bytes, double elements);
  double bytes_of_hidden() const { return job_.value_bytes * tokens_on_rank(job_) * job_.model.hidden; }
  double bytes_of_keys() const;
  double bytes_of_dispatch() const;
  double bytes_of_expert_counts() const { return static_cast<double>(sizeof(std::uint64_t)) * job_.model.experts; }
  double bytes_of_bias() const { return job_.value_bytes * job_.model.hidden; }
  double bytes_of_norm() const { return (job_.model.biases ? 2 : 1) * bytes_of_bias(); }
  double bytes_of_places() const { return job_.model.positions * bytes_of_bias(); }
  // Of the two calls of a cross entropy, in the mean: the largest logit, a sum and the target's logit of each token.
  double bytes_of_losses() const { return 1.5 * job_.value_bytes * tokens_on_rank(job_); }
  const StagePlan& busiest() const { return plan_.stages[busiest_]; }

  void plan_layers();
  void plan_tensor_parallel(LayerPlan& kind);
  double exposed_of_tensor_parallel(double communication_s, double products_s) const;
  void plan_gathers(LayerPlan& kind, const StageElements& layer);
  double gathers_of_layer() const;
  int layer_of_kind(bool experts) const;
  double elements_of_embedding() const;
  StageElements elements_of_layer(int layer) const;
  void plan_stages();
  void close_stage(StagePlan made, const StageElements& part, int first);
  double norms_s();
  double exposed_sum_s(double bytes);
  double embedding_tp_s();
  double output_tp_s();
  void plan_pipeline();
  void add_work(const PassSeconds& seconds);
  void say_layers(int layers);
  void say_ends_of_model(bool has_first, bool has_last);
  void say_norms(int layers, bool has_first, bool has_last);
  void say_stages();
  void say_between_stages(Verb verb, const char* what, const GroupSpan& span, double bytes, double times);
  void say_tied_embedding();
  void say_end_of_stages();
  void plan_flops();
  void sum_up();

  // What replicas, servers and actors say (plan_gradients.cc).
  void plan_gradients();
  void say_gradients(const StageElements& part);
  void say_values(const StageElements& part, const strategy::BucketLayout& layout);
  void say_units();
  void plan_local_updates(const StageElements& part);
  void plan_servers(const StageElements& part);
  void plan_actors();
  // Tensors of the busiest stage that all its replicas have.
  std::vector<ModelTensor> shared_tensors() const;
  strategy::BucketLayout lay_out_buckets(Verb verb);
  double bytes_of_bucket(Verb verb, const strategy::Bucket& bucket) const;
  double bucket_s(Verb verb, const strategy::Bucket& bucket);
  double values_s(const strategy::BucketLayout& layout);
  double exposed_us(Verb verb, const strategy::BucketLayout& layout);
  void play_timeline(Verb verb, const strategy::BucketLayout& layout);
  double calls_for_experts(double elements) const;

  const Job& job_;
  CollectivePrices& prices_;
  const ParallelShape& shape_;
  JobPlan plan_;
  const std::vector<ModelTensor>& tensors_;
  GroupSpan tp_, cp_, ep_;
  GroupSpan dp_, expert_dp_;  // that have the same parameters, and exchange gradients in every step
  GroupSpan pair_,
      partners_;  // two stages, as far apart as any neighbours are; a worker and its server, a learner and its actor
  const char* dp_name_ = "dp";
  LayerPlan kinds_[2];
  double stage_elements_ = 0;         // of the mean stage, on a rank
  std::vector<StageElements> parts_;  // by stage
  std::vector<int> firsts_;           // by stage: its first layer
  std::size_t busiest_ = 0;
};

}  // namespace tutti::plan
