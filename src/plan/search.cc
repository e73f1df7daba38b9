#include "plan/search.h"

#include <algorithm>

#include "tutti/error.h"

namespace tutti::plan {
namespace {

bool is_possible(const Job& job) {
  try {
    require_possible(job);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool is_better(const JobPlan& a, const JobPlan& b) {
  if (a.fits() != b.fits()) return a.fits();
  return a.fits() ? a.tokens_per_s() > b.tokens_per_s() : a.memory.sum() < b.memory.sum();
}

std::vector<int> divisors_up_to(int number, int most) {
  std::vector<int> divisors;
  for (int i = 1; i <= std::min(number, most); ++i)
    if (number % i == 0) divisors.push_back(i);
  return divisors;
}

// Powers of two that divide it.
std::vector<int> halvings(int number, int most) {
  std::vector<int> powers;
  for (int i = 1; i <= most && number % i == 0; i *= 2) powers.push_back(i);
  return powers;
}

// Chunks that stages of so many layers are cut into: a few, and what cuts them evenly.
std::vector<int> usual_chunks(int layers) {
  constexpr int kMostChunks = 12;
  std::vector<int> chunks = divisors_up_to(layers, kMostChunks);
  for (const int usual : {1, 2, 4})
    if (std::ranges::find(chunks, usual) == chunks.end()) chunks.push_back(usual);
  return chunks;
}

// What is fixed, alone, or all that are usual.
std::vector<int> choices(const std::optional<int>& fixed, std::vector<int> usual) {
  return fixed ? std::vector<int>{*fixed} : usual;
}

class StrategySearch {
 public:
  StrategySearch(const Job& job, CollectivePrices& prices, std::size_t wanted, const FixedWords& fixed)
      : job_(job), prices_(prices), wanted_(wanted), fixed_(fixed) {}

  Found run() {
    const bool is_long = job_.sequence >= kLongSequence;
    try_all(is_long ? halvings(kMostContext, kMostContext) : std::vector<int>{1});
    // Where activations leave no room, short sequences are worth cutting as well.
    if (!is_long && !keeps_all_) try_all({2, 4, kMostContext});
    if (found_.tried == 0) refuse_all();
    if (found_.best.empty()) found_.best.push_back(plan_job(*least_, prices_));
    return std::move(found_);
  }

 private:
  static constexpr int kLongSequence = 4 << 10;  // that is worth cutting
  static constexpr int kMostContext = 8;

  void try_all(const std::vector<int>& contexts) {
    const int devices = job_.devices();
    const int most_tp = std::min(job_.cluster.devices_per_host(), 16), most_pp = std::min(job_.model.layers, 128);
    for (const int tp : choices(fixed_.tp, divisors_up_to(devices, most_tp))) {
      if (devices % tp != 0) continue;
      for (const int cp : choices(fixed_.cp, contexts)) {
        if (devices / tp % cp != 0) continue;
        for (const int pp : choices(fixed_.pp, divisors_up_to(devices / tp / cp, most_pp))) {
          const int dp = devices / tp / cp / pp;
          if (devices / tp / cp % pp == 0 && fixed_.dp.value_or(dp) == dp) try_degrees(tp, cp, pp, dp);
        }
      }
    }
  }

  [[noreturn]] void refuse_all() const {
    std::string why = "--strategy auto";
    if (const std::string said = to_text(fixed_); !said.empty()) why += " with " + said;
    why += ": no strategy of " + std::to_string(job_.devices()) + " devices is possible";
    if (!problem_.empty()) why += "; the last one was not because " + problem_;
    throw Error(ErrorCode::invalid_argument,
                why + "; take degrees that multiply to the devices, or a global batch that more of them divide");
  }

  void try_degrees(int tp, int cp, int pp, int dp) {
    const bool sp = fixed_.sp.value_or(tp > 1);
    const int most_ep = job_.model.experts > 0 ? std::min(job_.model.experts, 64) : 1;
    for (const int ep : choices(fixed_.ep, halvings(dp, most_ep))) {
      for (const int zero : choices(fixed_.zero, {0, 1, 2, 3})) {
        if (!fixed_.zero && ((zero > 0 && dp * cp == 1) || (zero == 3 && pp > 1))) continue;
        for (const int interleave : choices(fixed_.interleave, usual_chunks(job_.model.layers / pp))) {
          if (!fixed_.interleave && interleave > 1 && pp == 1) continue;
          Job job = job_;
          job.parallel = {tp, cp, pp, dp, ep, zero, sp, interleave};
          try_batches(job);
        }
      }
    }
  }

  void try_batches(Job& job) {
    if (job.global_batch % job.parallel.dp != 0) return;
    for (const int micro_batch : choices(fixed_.micro_batch, halvings(job.global_batch / job.parallel.dp, 64))) {
      job.micro_batch = micro_batch;
      bool fits = false;
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        if (fixed_.recompute.value_or(recompute) != recompute) continue;
        job.recompute = recompute;
        if (recompute == Recompute::selective && job.attention != Attention::unfused && !fixed_.recompute) continue;
        if (!can_be(job)) return;
        // What is kept costs memory alone: the first that fits is the quickest.
        if (fits = fits_in_memory(job); !fits) continue;
        keeps_all_ = keeps_all_ || recompute == Recompute::none;
        take(plan_job(job, prices_, *counted_));
        break;
      }
      if (!fits) return;  // larger ones need more
    }
  }

  bool can_be(const Job& job) {
    try {
      require_possible(job);
      return true;
    } catch (const Error& error) {
      problem_ = error.what();
      return false;
    }
  }

  // Parameters of a rank by layer, those of experts apart; of the last degrees that were asked about.
  void count_layers(const Job& job) {
    const ParallelShape& shape = job.parallel;
    if (counted_ && counted_->tp == shape.tp && counted_->ep == shape.ep) return;
    counted_.emplace(job.model, shape.tp, shape.ep);
    by_layer_.assign(static_cast<std::size_t>(job.model.layers) + 2, {});
    for (const ModelTensor& tensor : counted_->tensors) {
      auto& [all, experts] = by_layer_[static_cast<std::size_t>(tensor.layer + 1)];
      all += tensor.all_elements();
      if (tensor.of_experts) experts += tensor.all_elements();
    }
  }

  bool fits_in_memory(const Job& job) {
    const std::vector<int> layers = layers_of_stages(job);
    const ParallelShape& shape = job.parallel;
    count_layers(job);
    ++found_.tried;
    int layer = 0;
    double most = 0;
    for (int stage = 0; stage < shape.pp; ++stage) {
      const int count = layers[static_cast<std::size_t>(stage)];
      double all = stage == 0 ? by_layer_.front().first : 0, experts = 0;
      if (stage == shape.pp - 1) all += by_layer_.back().first;
      if (stage == shape.pp - 1 && stage > 0 && job.model.tied) all += by_layer_.front().first;
      for (int i = 0; i < count; ++i, ++layer) {
        all += by_layer_[static_cast<std::size_t>(layer + 1)].first;
        experts += by_layer_[static_cast<std::size_t>(layer + 1)].second;
      }
      most = std::max(most, memory_of(job, stage, count, all, experts).sum());
    }
    if (most <= job.accelerator.memory_bytes) return true;
    if (!least_ || most < least_bytes_) {
      least_ = job;
      least_bytes_ = most;
    }
    return false;
  }

  void take(JobPlan plan) {
    if (!plan.fits()) return;
    ++found_.fitting;
    std::vector<JobPlan>& best = found_.best;
    if (best.size() == wanted_ && !is_better(plan, best.back())) return;
    best.insert(std::ranges::upper_bound(best, plan, is_better), std::move(plan));
    if (best.size() > wanted_) best.pop_back();
  }

  const Job& job_;
  CollectivePrices& prices_;
  std::size_t wanted_;
  const FixedWords& fixed_;
  bool keeps_all_ = false;  // something fits that computes nothing again
  Found found_;
  std::optional<Job> least_;  // of those that do not fit
  double least_bytes_ = 0;
  std::string problem_;  // of the last one that is not possible
  std::optional<CountedModel> counted_;
  std::vector<std::pair<double, double>> by_layer_;  // parameters of a rank, those of experts among them
};

}  // namespace

std::optional<JobPlan> plan_best_micro_batch(const Job& job, CollectivePrices& prices) {
  std::optional<JobPlan> best;
  if (job.global_batch % job.parallel.dp != 0) return best;
  for (const int micro_batch : halvings(job.global_batch / job.parallel.dp, 64)) {
    Job tried = job;
    tried.micro_batch = micro_batch;
    if (!is_possible(tried)) continue;
    JobPlan plan = plan_job(tried, prices);
    const bool fits = plan.fits();
    if (!best || is_better(plan, *best)) best = std::move(plan);
    if (!fits) break;
  }
  return best;
}

JobPlan answer(const JobQuestion& question, CollectivePrices& prices) {
  if (question.any_strategy) return std::move(find_strategies(question.job, prices, 1, question.fixed).best.front());
  if (question.any_micro_batch) {
    if (std::optional<JobPlan> best = plan_best_micro_batch(question.job, prices)) return std::move(*best);
  }
  require_possible(question.job);
  return plan_job(question.job, prices);
}

Found find_strategies(const Job& job, CollectivePrices& prices, std::size_t wanted, const FixedWords& fixed) {
  return StrategySearch(job, prices, wanted, fixed).run();
}

}  // namespace tutti::plan
