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

// Degrees by the names of their options.
struct Degree {
  const char* name;
  int usual;
  int (*of)(const ParallelShape&);
};

constexpr Degree kDegrees[] = {{"tp", 1, [](const ParallelShape& shape) { return shape.tp; }},
                               {"pp", 1, [](const ParallelShape& shape) { return shape.pp; }},
                               {"dp", 1, [](const ParallelShape& shape) { return shape.dp; }},
                               {"sp", 0, [](const ParallelShape& shape) { return shape.sp ? 1 : 0; }},
                               {"zero", 0, [](const ParallelShape& shape) { return shape.zero; }},
                               {"interleave", 1, [](const ParallelShape& shape) { return shape.interleave; }},
                               {"servers", 0, [](const ParallelShape& shape) { return shape.servers; }}};

// Jobs that differ in one thing, with the words for it.
class ChangesToTry {
 public:
  explicit ChangesToTry(const JobPlan& plan) : plan_(plan), job_(plan.job), shape_(plan.job.parallel) {}

  std::vector<PlannedChange> all() {
    add_computing();
    add_batches();
    add_degrees();
    add_gradients();
    if (!plan_.fits()) add_room();
    return std::move(changes_);
  }

 private:
  template <class Apply>
  void change(std::string words, std::string why, const Apply& apply) {
    PlannedChange& made = changes_.emplace_back();
    made.words = std::move(words);
    made.why = std::move(why);
    made.plan.job = job_;
    apply(made.plan.job);
  }

  void add_computing() {
    if (!(job_.overlap.dp && job_.overlap.tp && job_.overlap.pp))
      change("--overlap all", "communication runs behind computing", [](Job& to) { to.overlap = {true, true, true}; });
    if (job_.attention == Attention::unfused)
      change("--attention flash", "scores never go through memory", [](Job& to) { to.attention = Attention::flash; });
    if (job_.recompute == Recompute::full) {
      if (job_.attention == Attention::unfused)
        change("--recompute selective", "only attention is computed again",
               [](Job& to) { to.recompute = Recompute::selective; });
      change("--recompute none", "nothing is computed again", [](Job& to) { to.recompute = Recompute::none; });
    }
    if (shape_.tp > 1 && !shape_.sp) {
      ParallelShape to = shape_;
      to.sp = true;
      reshape("norms and residuals are cut along tp", to);
    }
    if (job_.stack.name != "tutti")
      change("--stack tutti", "schedules for these links", [](Job& to) { to.stack = find_stack("tutti"); });
  }

  void add_batches() {
    constexpr int kMost = 1 << 29;  // that can be doubled
    if (job_.micro_batch <= kMost)
      change("--micro-batch " + std::to_string(2 * job_.micro_batch), "larger products",
             [](Job& to) { to.micro_batch *= 2; });
    if (job_.micro_batch % 2 == 0)
      change("--micro-batch " + std::to_string(job_.micro_batch / 2),
             shape_.pp > 1 ? "more micro-batches, a smaller bubble" : "fewer activations to keep",
             [](Job& to) { to.micro_batch /= 2; });
    if (shape_.pp > 1 && shape_.interleave <= job_.model.layers) {
      ParallelShape to = shape_;
      to.interleave *= 2;
      reshape("a smaller bubble, more messages", to);
    }
    if (shape_.dp > 1 && job_.global_batch <= kMost)
      change("--global-batch " + std::to_string(2 * job_.global_batch),
             "more to compute for the same gradients; mind the critical batch", [](Job& to) { to.global_batch *= 2; });
  }

  // The change in words that can be put behind those of the job: what the strategy says already takes the whole
  // strategy, and what options of their own say is said so again.
  void reshape(const char* why, const ParallelShape& to) {
    std::string apart, alone;
    int changed = 0;
    bool said = false;  // in the words of the strategy
    for (const Degree& degree : kDegrees) {
      const int before = degree.of(shape_), after = degree.of(to);
      if (before == after) continue;
      const bool is_apart = std::ranges::find(job_.said_apart, degree.name) != job_.said_apart.end();
      if (is_apart) apart += formatted(" --%s %d", degree.name, after);
      alone = formatted("--%s %d", degree.name, after);
      ++changed;
      said = said || (!is_apart && before != degree.usual);
    }
    std::string words = "--strategy " + to_text(to) + apart;
    if (changed == 1 && !said && !job_.searched) words = alone;
    if (to.devices() != job_.devices()) words += formatted(" --gpus %d", to.devices());
    change(words, why, [&](Job& changed_job) { changed_job.parallel = to; });
  }

  void degrees(const char* why, int tp, int pp, int dp) {
    ParallelShape to = shape_;
    to.tp = tp;
    to.pp = pp;
    to.dp = dp;
    if (tp == 1) to.sp = false;
    if (pp == 1) to.interleave = 1;
    reshape(why, to);
  }

  void add_degrees() {
    if (shape_.tp % 2 == 0) degrees("less tensor parallelism, more replicas", shape_.tp / 2, shape_.pp, shape_.dp * 2);
    if (shape_.pp % 2 == 0) degrees("fewer stages, more replicas", shape_.tp, shape_.pp / 2, shape_.dp * 2);
    if (shape_.dp % 2 == 0) {
      degrees("more tensor parallelism, fewer replicas", shape_.tp * 2, shape_.pp, shape_.dp / 2);
      degrees("more stages, fewer replicas", shape_.tp, shape_.pp * 2, shape_.dp / 2);
    }
    if (shape_.servers > 0) add_without_servers();
  }

  // Servers become workers where the batch divides among as many.
  void add_without_servers() {
    ParallelShape to = shape_;
    to.servers = 0;
    to.dp = shape_.dp + shape_.servers;
    const bool divides = job_.global_batch % (static_cast<std::int64_t>(to.dp) * job_.micro_batch) == 0;
    if (!divides) to.dp = shape_.dp;
    const char* why = divides ? "an all_reduce has no server's link to wait for, and servers compute as well"
                              : "an all_reduce has no server's link to wait for; the servers' devices are idle, as the "
                                "batch does not divide among them as well";
    if (to.dp > 1) to.zero = 1;
    reshape(why, to);
  }

  void zero(int stage, const char* why) {
    ParallelShape to = shape_;
    to.zero = stage;
    reshape(why, to);
  }

  void add_gradients() {
    if (shape_.zero != 1 && shape_.replicas() > 1 && (plan_.fits() || shape_.zero == 0))
      zero(1, shape_.zero == 0   ? "optimizer states cut along dp: less to update"
              : shape_.zero == 2 ? "gradients stay whole: reduced once in a step"
                                 : "parameters and gradients stay whole: nothing to gather, reduced once in a step");
    if (shape_.zero == 3 && plan_.fits()) zero(2, "parameters stay on every replica: nothing to gather");
    if (job_.gradient_bytes > job_.value_bytes)
      change("--grad-bytes 2", "gradients in 16 bits: half of the bytes", [](Job& to) { to.gradient_bytes = 2; });
    if (!plan_.timeline.empty() && job_.bucket_bytes > 0)
      change("--bucket auto", "buckets of the size that exposes least", [](Job& to) { to.bucket_bytes = 0; });
    if (shape_.replicas() > 1 && job_.compress < 4)
      change("--compress 4", "gradients in 4 to 8 bits: a quarter of the bytes", [](Job& to) { to.compress = 4; });
  }

  // What makes room alone, and the last of each kind: the most that it can do.
  void add_room() {
    if (job_.recompute == Recompute::none && job_.attention == Attention::unfused)
      change("--recompute selective", "scores of attention are not kept",
             [](Job& to) { to.recompute = Recompute::selective; });
    if (job_.recompute != Recompute::full)
      change("--recompute full", "only what goes into layers is kept", [](Job& to) { to.recompute = Recompute::full; });
    if (shape_.zero < 2 && shape_.replicas() > 1)
      zero(2, shape_.zero == 0 ? "optimizer states and gradients cut along dp" : "gradients cut along dp as well");
    if (shape_.zero < 3 && shape_.replicas() > 1)
      zero(3, shape_.zero == 2 ? "parameters cut along dp as well"
                               : "optimizer states, gradients and parameters cut along dp");
    if (job_.micro_batch > 2)
      change("--micro-batch 1", "the fewest activations to keep", [](Job& to) { to.micro_batch = 1; });
  }

  const JobPlan& plan_;
  const Job& job_;
  const ParallelShape& shape_;
  std::vector<PlannedChange> changes_;
};

// What helps most comes first. Of a job that does not fit nothing is as slow as not to run.
bool helps_more(const PlannedChange& a, const PlannedChange& b) {
  if (a.plan.missing_bytes() != b.plan.missing_bytes()) return a.plan.missing_bytes() < b.plan.missing_bytes();
  return a.gain > b.gain;
}

}  // namespace

JobVerdict verdict_of(const JobPlan& plan, CollectivePrices& prices) {
  JobVerdict verdict;
  const TimeShare& share = largest_of(plan.time);
  const double exposed = plan.time.exposed() + plan.time.bubble;
  verdict.bound = formatted("%.0f %% of the step is %s", percent(plan.time.*share.seconds, plan.step_s()), share.bound);
  if (exposed > plan.time.computing())
    verdict.bound += formatted("; communication and bubble together are %.0f %%", percent(exposed, plan.step_s()));
  for (PlannedChange& change : ChangesToTry(plan).all()) {
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
    change.gain = change.plan.tokens_per_s() / plan.tokens_per_s() - 1;
    constexpr double kWorthIt = 0.001;
    const bool helps = plan.fits() ? change.plan.fits() && change.gain > kWorthIt
                                   : change.plan.missing_bytes() < (1 - kWorthIt) * plan.missing_bytes();
    if (helps) verdict.changes.push_back(std::move(change));
  }
  std::ranges::stable_sort(verdict.changes, helps_more);
  if (verdict.changes.size() > 3) verdict.changes.resize(3);
  return verdict;
}

namespace {

// What tells two plans apart whose strategies read alike.
std::string name_beside(const JobPlan& plan, const JobPlan& other) {
  std::string name = to_text(plan.job.parallel);
  if (name != to_text(other.job.parallel)) return name;
  if (plan.job.micro_batch != other.job.micro_batch)
    name += " with micro-batches of " + std::to_string(plan.job.micro_batch);
  if (plan.job.recompute != other.job.recompute) name += " with recompute " + std::string(name_of(plan.job.recompute));
  return name;
}

// For a local batch that fell: what is not in force yet.
std::string remedy_of(const Job& job, int local_batch) {
  std::string words = formatted("remedy: keep the local batch (--global-batch %lld)",
                                static_cast<long long>(local_batch) * job.parallel.dp);
  if (!job.overlap.dp) words += ", exchange in buckets behind backward (--overlap dp)";
  const bool whole = job.compress == 1, often = job.parallel.local_steps == 0;
  if (whole || often)
    words += formatted(", or send less (%s%s%s)", whole ? "--compress" : "", whole && often ? ", " : "",
                       often ? "--diloco" : "");
  return words;
}

}  // namespace

std::vector<std::string> differences(const JobPlan& first, const JobPlan& second, const std::string& first_name,
                                     const std::string& second_name) {
  std::vector<std::string> sentences;
  const bool alike = to_text(first.job.parallel) == to_text(second.job.parallel);
  const auto name = [&](const JobPlan& plan, const JobPlan& other, const std::string& given) {
    return alike && !given.empty() ? given : name_beside(plan, other);
  };
  const double gain = second.tokens_per_s() / first.tokens_per_s();
  const double devices = static_cast<double>(second.job.devices()) / first.job.devices();
  if (devices != 1)
    sentences.push_back(
        formatted("%d devices instead of %d are %.3g times as many tokens per second, %.0f %% of what "
                  "the devices could be",
                  second.job.devices(), first.job.devices(), gain, 100 * gain / devices));
  else
    sentences.push_back(formatted("%s is %.1f %% %s than %s", name(second, first, second_name).c_str(),
                                  100 * std::abs(gain - 1), gain >= 1 ? "quicker" : "slower",
                                  name(first, second, first_name).c_str()));
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
  const auto cut_alike = [](const ParallelShape& a, const ParallelShape& b) {
    return a.tp == b.tp && a.cp == b.cp && a.pp == b.pp && a.ep == b.ep && a.zero == b.zero;
  };
  if (cause != nullptr)
    sentences.push_back(formatted(
        "what a token costs %s most by %s: %.1f %% of the step, before %.1f %%", slower ? "rose" : "fell", cause->bound,
        percent(second.time.*cause->seconds, second.step_s()), percent(first.time.*cause->seconds, first.step_s())));
  if (slower && cause != nullptr && cause->seconds == &TimeBill::dp && local(second) < local(first) &&
      cut_alike(first.job.parallel, second.job.parallel)) {
    sentences.push_back(
        formatted("because the local batch fell from %d to %d: there is less to compute, and as many "
                  "gradients to exchange as before (exposed gamma %.3g, before %.3g)",
                  local(first), local(second), second.gamma_exposed(), first.gamma_exposed()));
    sentences.push_back(remedy_of(second.job, local(first)));
  }
  if (!first.fits() && !second.fits())
    sentences.push_back("neither fits into memory");
  else if (first.fits() != second.fits())
    sentences.push_back(std::string(second.fits() ? "the first" : "the second") + " does not fit into memory");
  return sentences;
}

}  // namespace tutti::plan
