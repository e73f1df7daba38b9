// What to make of a plan: what bounds it, what would help, and why one is quicker than another.
#include <algorithm>
#include <cmath>

#include "base/formatted.h"
#include "plan/search.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

struct TimeShare {
  const char* name;   // short, for tables
  const char* bound;  // what it is to be bound by that
  double TimeBill::*seconds;
};

constexpr TimeShare kShares[] = {
    {"products", "products of matrices: the devices compute", &TimeBill::products},
    {"attention", "attention", &TimeBill::attention},
    {"pointwise", "memory bandwidth: norms, activations and residuals", &TimeBill::pointwise},
    {"recomputing", "computing activations again", &TimeBill::again},
    {"tp", "communication of tensor parallelism", &TimeBill::tp},
    {"cp", "communication of context parallelism", &TimeBill::cp},
    {"ep", "tokens on their way to experts", &TimeBill::ep},
    {"pp", "messages between pipeline stages", &TimeBill::pp},
    {"dp", "gradients and values on their way between replicas", &TimeBill::dp},
    {"contention", "computing that is slower beside hidden communication", &TimeBill::contention},
    {"bubble", "the bubble: pipeline stages that wait for the first and last micro-batches", &TimeBill::bubble},
    {"optimizer", "the optimizer's step", &TimeBill::optimizer}};

const TimeShare& largest_of(const TimeBill& time) {
  return *std::ranges::max_element(kShares, {}, [&](const TimeShare& share) { return time.*share.seconds; });
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// Jobs that differ in one thing, with the words for it.
std::vector<PlannedChange> changes_to_try(const JobPlan& plan) {
  std::vector<PlannedChange> changes;
  const Job& job = plan.job;
  const auto change = [&](std::string words, std::string why, const auto& apply) {
    PlannedChange& made = changes.emplace_back();
    made.words = std::move(words);
    made.why = std::move(why);
    made.plan.job = job;
    apply(made.plan.job);
  };
  const ParallelShape& shape = job.parallel;
  if (!(job.overlap.dp && job.overlap.tp && job.overlap.pp))
    change("--overlap all", "communication runs behind computing", [](Job& to) { to.overlap = {true, true, true}; });
  if (job.attention == Attention::unfused)
    change("--attention flash", "scores never go through memory", [](Job& to) { to.attention = Attention::flash; });
  if (job.recompute == Recompute::full) {
    change("--recompute selective", "only attention is computed again",
           [](Job& to) { to.recompute = Recompute::selective; });
    change("--recompute none", "nothing is computed again", [](Job& to) { to.recompute = Recompute::none; });
  }
  change("--micro-batch " + std::to_string(2 * job.micro_batch), "larger products",
         [](Job& to) { to.micro_batch *= 2; });
  if (job.micro_batch % 2 == 0)
    change("--micro-batch " + std::to_string(job.micro_batch / 2), "more micro-batches, a smaller bubble",
           [](Job& to) { to.micro_batch /= 2; });
  if (shape.pp > 1)
    change("--interleave " + std::to_string(2 * shape.interleave), "a smaller bubble, more messages",
           [](Job& to) { to.parallel.interleave *= 2; });
  if (shape.tp > 1 && !shape.sp)
    change("--sp 1", "norms and residuals are cut along tp", [](Job& to) { to.parallel.sp = true; });
  const auto degrees = [&](const char* why, int tp, int pp, int dp) {
    ParallelShape to = shape;
    to.tp = tp;
    to.pp = pp;
    to.dp = dp;
    if (tp == 1) to.sp = false;
    if (pp == 1) to.interleave = 1;
    change("--strategy " + to_text(to), why, [&](Job& changed) { changed.parallel = to; });
  };
  if (shape.tp % 2 == 0) degrees("less tensor parallelism, more replicas", shape.tp / 2, shape.pp, shape.dp * 2);
  if (shape.pp % 2 == 0) degrees("fewer stages, more replicas", shape.tp, shape.pp / 2, shape.dp * 2);
  if (shape.dp % 2 == 0) {
    degrees("more tensor parallelism, fewer replicas", shape.tp * 2, shape.pp, shape.dp / 2);
    degrees("more stages, fewer replicas", shape.tp, shape.pp * 2, shape.dp / 2);
  }
  if (shape.zero != 1 && shape.dp > 1)
    change("--zero 1", "optimizer states cut along dp: less to update", [](Job& to) { to.parallel.zero = 1; });
  if (shape.zero == 3)
    change("--zero 2", "parameters stay on every replica: nothing to gather", [](Job& to) { to.parallel.zero = 2; });
  if (job.gradient_bytes > job.value_bytes)
    change("--grad-bytes 2", "gradients in 16 bits: half of the bytes", [](Job& to) { to.gradient_bytes = 2; });
  if (!plan.timeline.empty() && job.bucket_bytes > 0)
    change("--bucket auto", "buckets of the size that exposes least", [](Job& to) { to.bucket_bytes = 0; });
  if (shape.dp > 1) {
    change("--compress 4", "gradients in 4 to 8 bits: a quarter of the bytes", [](Job& to) { to.compress *= 4; });
    change("--global-batch " + std::to_string(2 * job.global_batch),
           "more to compute for the same gradients; mind the critical batch", [](Job& to) { to.global_batch *= 2; });
  }
  if (job.stack.name != "tutti")
    change("--stack tutti", "schedules for these links", [](Job& to) { to.stack = find_stack("tutti"); });
  return changes;
}

}  // namespace

JobVerdict verdict_of(const JobPlan& plan, CollectivePrices& prices) {
  JobVerdict verdict;
  const TimeShare& share = largest_of(plan.time);
  const double exposed = plan.time.exposed() + plan.time.bubble;
  verdict.bound = formatted("%.0f %% of the step is %s", percent(plan.time.*share.seconds, plan.step_s()), share.bound);
  if (exposed > plan.time.computing())
    verdict.bound += formatted("; communication and bubble together are %.0f %%", percent(exposed, plan.step_s()));
  for (PlannedChange& change : changes_to_try(plan)) {
    try {
      require_possible(change.plan.job);
    } catch (const Error&) {
      continue;
    }
    if (change.plan.job.stack.name != prices.stack().name) {
      CollectivePrices others = prices_for(change.plan.job);
      change.plan = plan_job(Job(change.plan.job), others);
    } else {
      change.plan = plan_job(Job(change.plan.job), prices);
    }
    if (plan.fits() && !change.plan.fits()) continue;
    change.gain = change.plan.tokens_per_s() / plan.tokens_per_s() - 1;
    if (change.gain > 0.001) verdict.changes.push_back(std::move(change));
  }
  std::ranges::stable_sort(verdict.changes, std::ranges::greater(), &PlannedChange::gain);
  if (verdict.changes.size() > 3) verdict.changes.resize(3);
  return verdict;
}

std::vector<std::string> differences(const JobPlan& first, const JobPlan& second) {
  std::vector<std::string> sentences;
  const double gain = second.tokens_per_s() / first.tokens_per_s();
  const double devices = static_cast<double>(second.job.devices()) / first.job.devices();
  if (devices != 1)
    sentences.push_back(
        formatted("%d devices instead of %d are %.3g times as many tokens per second, %.0f %% of what "
                  "the devices could be",
                  second.job.devices(), first.job.devices(), gain, 100 * gain / devices));
  else
    sentences.push_back(formatted("%s is %.1f %% %s than %s", to_text(second.job.parallel).c_str(),
                                  100 * std::abs(gain - 1), gain >= 1 ? "quicker" : "slower",
                                  to_text(first.job.parallel).c_str()));
  // What a token costs of each, in device-seconds: what grew the most is the cause.
  const auto cost = [](const JobPlan& plan, double seconds) {
    return seconds * plan.job.devices() / (static_cast<double>(plan.job.global_batch) * plan.job.sequence);
  };
  const TimeShare* cause = nullptr;
  double most = 0;
  const bool slower = gain < devices;
  for (const TimeShare& share : kShares) {
    const double more = cost(second, second.time.*share.seconds) - cost(first, first.time.*share.seconds);
    if ((slower ? more : -more) > most) {
      most = slower ? more : -more;
      cause = &share;
    }
  }
  const auto local = [](const JobPlan& plan) { return plan.job.global_batch / plan.job.parallel.dp; };
  if (cause != nullptr)
    sentences.push_back(formatted(
        "what a token costs %s most by %s: %.1f %% of the step, before %.1f %%", slower ? "rose" : "fell", cause->bound,
        percent(second.time.*cause->seconds, second.step_s()), percent(first.time.*cause->seconds, first.step_s())));
  if (slower && cause != nullptr && cause->seconds == &TimeBill::dp && local(second) < local(first)) {
    sentences.push_back(
        formatted("because the local batch fell from %d to %d: there is less to compute, and as many "
                  "gradients to exchange as before (exposed gamma %.3g, before %.3g)",
                  local(first), local(second), second.gamma_exposed(), first.gamma_exposed()));
    sentences.push_back(
        formatted("remedy: keep the local batch (--global-batch %d), exchange in buckets behind "
                  "backward (--overlap dp), or send less (--compress, --diloco)",
                  local(first) * second.job.parallel.dp));
  }
  if (first.fits() != second.fits())
    sentences.push_back(std::string(second.fits() ? "the first" : "the second") + " does not fit into memory");
  return sentences;
}

}  // namespace tutti::plan
