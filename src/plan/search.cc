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

class StrategySearch {
 public:
  StrategySearch(const Job& job, CollectivePrices& prices, std::size_t wanted)
      : job_(job), prices_(prices), wanted_(wanted) {}

  Found run() {
    const int devices = job_.devices();
    const int longest = job_.sequence >= (32 << 10) ? 8 : 1;  // sequences that are worth cutting
    for (const int tp : divisors_up_to(devices, std::min(job_.cluster.devices_per_host(), 16)))
      for (const int cp : halvings(devices / tp, longest))
        for (const int pp : divisors_up_to(devices / tp / cp, std::min(job_.model.layers, 128)))
          try_degrees(tp, cp, pp, devices / tp / cp / pp);
    return std::move(found_);
  }

 private:
  void try_degrees(int tp, int cp, int pp, int dp) {
    const int most_ep = job_.model.experts > 0 ? std::min(job_.model.experts, 64) : 1;
    for (const int ep : halvings(dp, most_ep)) {
      for (const int zero : {0, 1, 2, 3}) {
        if ((zero > 0 && dp == 1) || (zero == 3 && pp > 1)) continue;
        for (const int interleave : {1, 2, 4}) {
          if (interleave > 1 && pp == 1) continue;
          Job job = job_;
          job.parallel = {tp, cp, pp, dp, ep, zero, tp > 1, interleave};
          try_batches(job);
        }
      }
    }
  }

  void try_batches(Job& job) {
    if (job.global_batch % job.parallel.dp != 0) return;
    for (const int micro_batch : halvings(job.global_batch / job.parallel.dp, 64)) {
      job.micro_batch = micro_batch;
      bool fits = false;
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        job.recompute = recompute;
        if (recompute == Recompute::selective && job.attention == Attention::flash) continue;
        if (!is_possible(job)) return;
        // What is kept costs memory alone: the first that fits is the quickest.
        if (fits = fits_in_memory(job); !fits) continue;
        take(plan_job(job, prices_));
        break;
      }
      if (!fits) return;  // larger ones need more
    }
  }

  bool fits_in_memory(const Job& job) {
    const std::vector<int> layers = layers_of_stages(job);
    const ParallelShape& shape = job.parallel;
    if (tensors_tp_ != shape.tp || tensors_ep_ != shape.ep) {
      tensors_tp_ = shape.tp;
      tensors_ep_ = shape.ep;
      by_layer_.assign(static_cast<std::size_t>(job.model.layers) + 2, {});
      for (const ModelTensor& tensor : counted_tensors_of(job.model, shape.tp, shape.ep)) {
        auto& [all, experts] = by_layer_[static_cast<std::size_t>(tensor.layer + 1)];
        all += tensor.all_elements();
        if (tensor.of_experts) experts += tensor.all_elements();
      }
    }
    ++found_.tried;
    int layer = 0;
    for (int stage = 0; stage < shape.pp; ++stage) {
      const int count = layers[static_cast<std::size_t>(stage)];
      double all = stage == 0 ? by_layer_.front().first : 0, experts = 0;
      if (stage == shape.pp - 1) all += by_layer_.back().first;
      for (int i = 0; i < count; ++i, ++layer) {
        all += by_layer_[static_cast<std::size_t>(layer + 1)].first;
        experts += by_layer_[static_cast<std::size_t>(layer + 1)].second;
      }
      if (const MemoryBill bill = memory_of(job, stage, count, all, experts); bill.sum() > bill.capacity) return false;
    }
    return true;
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
  Found found_;
  int tensors_tp_ = 0, tensors_ep_ = 0;
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
  if (question.any_strategy) {
    Found found = find_strategies(question.job, prices, 1);
    if (found.best.empty())
      throw Error(ErrorCode::invalid_argument,
                  question.job.model.name + " fits on " + std::to_string(question.job.devices()) +
                      " devices by none of " + std::to_string(found.tried) +
                      " strategies; take more devices, or a global batch that more degrees divide");
    return std::move(found.best.front());
  }
  if (question.any_micro_batch) {
    if (std::optional<JobPlan> best = plan_best_micro_batch(question.job, prices)) return std::move(*best);
  }
  require_possible(question.job);
  return plan_job(question.job, prices);
}

Found find_strategies(const Job& job, CollectivePrices& prices, std::size_t wanted) {
  return StrategySearch(job, prices, wanted).run();
}

}  // namespace tutti::plan
