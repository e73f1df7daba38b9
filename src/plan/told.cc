#include "plan/told.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/formatted.h"
#include "base/json_text.h"

namespace tutti::plan {

std::string words_of_prices(const Job& job) {
  if (!job.host) return std::string(job.stack.name) + " (" + std::string(job.stack.meaning) + ")";
  if (!job.host->tuned)
    return "as communicators here predict them, by built-in costs; `tutti tune` measures this host's";
  const bool has_steps = survey_of_steps_for(job.host->table, job.parallel.replicas()).has_value();
  return std::string("as communicators here predict them, by what `tutti tune` measured") +
         (has_steps ? "; those of dp and zero as in steps that it timed" : "");
}

namespace {

using nlohmann::ordered_json;

std::string heading_of(const JobPlan& plan) {
  const Job& job = plan.job;
  const std::string overlap =
      job.overlap.dp && job.overlap.tp && job.overlap.pp
          ? "all"
          : std::string(job.overlap.dp ? " dp" : "") + (job.overlap.tp ? " tp" : "") + (job.overlap.pp ? " pp" : "");
  return formatted("%s, %s parameters, on %d %s of %s:%d by %s\n", job.model.name.c_str(),
                   formatted("%.4g", plan.parameters).c_str(), job.devices(), std::string(job.accelerator.name).c_str(),
                   job.cluster.name.c_str(), job.cluster.hosts, to_text(job.parallel).c_str()) +
         formatted(
             "  %d sequences of %d tokens in a step, %d micro-batch%s of %d; recompute %s, attention %s, overlap %s\n",
             job.global_batch, job.sequence, job.microbatches(), job.microbatches() == 1 ? "" : "es", job.micro_batch,
             std::string(name_of(job.recompute)).c_str(), std::string(name_of(job.attention)).c_str(),
             overlap.empty() ? "none" : overlap.c_str() + (overlap.front() == ' ' ? 1 : 0)) +
         (plan.timeline.empty()
              ? ""
              : formatted("  gradients in buckets of up to %s\n", words_of_bytes(job.bucket_bytes).c_str())) +
         "  collectives: " + words_of_prices(job) + "\n";
}

std::string text_of_sentence(const JobPlan& plan) {
  std::string text = "\nthe sentence of a step, on the busiest stage\n";
  if (plan.sentence.empty()) return text + "  nothing: a rank by itself\n";
  for (const JobPhrase& phrase : plan.sentence) {
    text += formatted("  %6.0f x %-14s %9s  %-32s %s among %d over %s%s\n", phrase.times,
                      std::string(name_of(phrase.verb)).c_str(), words_of_bytes(phrase.bytes).c_str(),
                      phrase.what.c_str(), phrase.group.c_str(), phrase.span.ranks(), phrase.links.c_str(),
                      phrase.every > 1 ? formatted(", every %.0f steps", phrase.every).c_str() : "");
    text += formatted("           %s each by %s, %s in all, %s exposed\n", words_of_seconds(phrase.call_s).c_str(),
                      std::string(phrase.algorithm).c_str(), words_of_seconds(phrase.total_s()).c_str(),
                      phrase.exposed_s > 0 ? words_of_seconds(phrase.exposed_s).c_str() : "none");
  }
  return text;
}

std::string text_of_stages(const JobPlan& plan) {
  const auto [least, most] = std::ranges::minmax(plan.stages, {}, &StagePlan::layers);
  if (least.layers == most.layers) return "";
  std::string text = "\nstages are uneven\n  stage  layers     forward    backward      memory\n";
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    text += formatted("  %5zu  %6d  %10s  %10s  %10s\n", i, stage.layers, words_of_seconds(stage.forward_s).c_str(),
                      words_of_seconds(stage.backward_s).c_str(), words_of_bytes(stage.memory_bytes).c_str());
  }
  return text;
}

std::string text_of_bill(const JobPlan& plan) {
  std::string text = "\nthe bill\n  memory of a device";
  for (const NamedAmount& part : parts_of(plan.memory))
    if (part.amount > 0) text += formatted("\n    %-14s %10s", part.name, words_of_bytes(part.amount).c_str());
  text += formatted("\n    %-14s %10s of %s: fits: %s\n  a step", "in all", words_of_bytes(plan.memory.sum()).c_str(),
                    words_of_bytes(plan.memory.capacity).c_str(), plan.fits() ? "true" : "false");
  for (const NamedAmount& part : parts_of(plan.time))
    if (part.amount > 0)
      text += formatted("\n    %-14s %10s  %5.1f %%", part.name, words_of_seconds(part.amount).c_str(),
                        100 * part.amount / plan.step_s());
  text += formatted("\n    %-14s %10s\n", "in all", words_of_seconds(plan.step_s()).c_str());
  text += formatted(
      "  tokens per second  %.4g\n  TFLOP/s            %.1f of the model, %.1f of the hardware, MFU %.1f %%\n",
      plan.tokens_per_s(), plan.model_flops_per_device() / 1e12, plan.hardware_flops_per_device() / 1e12,
      100 * plan.mfu());
  text += formatted("  operations         %.4g of the model in a step, %.4g with what is computed again\n",
                    plan.model_flops, plan.hardware_flops);
  for (const auto& [links, bytes] : bytes_by_links(plan))
    text += formatted("  a rank sends       %s in a step over %s\n", words_of_bytes(bytes).c_str(), links.c_str());
  text += formatted("  gamma              %.3g raw, %.3g exposed\n", plan.gamma_raw(), plan.gamma_exposed());
  if (plan.job.tokens > 0) {
    text += formatted("  %.3g tokens     %.4g steps, %.4g device-hours, %.4g days", plan.job.tokens, plan.steps(),
                      plan.device_hours(), plan.device_hours() / plan.job.devices() / 24);
    if (plan.job.price > 0)
      text += formatted(", %.4g at %g an hour", plan.device_hours() * plan.job.price, plan.job.price);
    text += "\n";
  }
  if (plan.job.critical_batch > 0)
    text += formatted(
        "  a batch of %d is %.2g times the critical one: %.2f times the tokens of small batches until the "
        "same loss\n",
        plan.job.global_batch, plan.job.global_batch / plan.job.critical_batch, plan.tokens_factor());
  return text;
}

ordered_json json_of(const JobPhrase& phrase) {
  return {{"verb", name_of(phrase.verb)},
          {"what", phrase.what},
          {"group", phrase.group},
          {"ranks", phrase.span.ranks()},
          {"ranks_per_host", phrase.span.per_host},
          {"links", phrase.links},
          {"bytes", phrase.bytes},
          {"times", phrase.times},
          {"every", phrase.every},
          {"algorithm", phrase.algorithm},
          {"seconds_each", phrase.call_s},
          {"seconds", phrase.total_s()},
          {"exposed_seconds", phrase.exposed_s}};
}

ordered_json json_of_parts(const std::vector<NamedAmount>& parts) {
  ordered_json object = ordered_json::object();
  for (const NamedAmount& part : parts) object[part.name] = part.amount;
  return object;
}

ordered_json json_of_verdict(const JobVerdict& verdict) {
  ordered_json changes = ordered_json::array();
  for (const PlannedChange& change : verdict.changes)
    changes.push_back({{"change", change.words},
                       {"why", change.why},
                       {"gain", change.gain},
                       {"fits", change.plan.fits()},
                       {"missing_bytes", change.plan.missing_bytes()},
                       {"step_seconds", change.plan.step_s()},
                       {"tokens_per_second", change.plan.tokens_per_s()}});
  return {{"bound", verdict.bound}, {"changes", std::move(changes)}};
}

}  // namespace

std::string words_of_bytes(double bytes) {
  const char* const units[] = {"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(units); ++unit) bytes /= 1000;
  return formatted("%.4g %s", bytes, units[unit]);
}

std::string words_of_seconds(double seconds) {
  if (seconds >= 1) return formatted("%.4g s", seconds);
  return seconds >= 1e-3 ? formatted("%.4g ms", seconds * 1e3) : formatted("%.4g us", seconds * 1e6);
}

std::vector<NamedAmount> parts_of(const TimeBill& time) {
  return {{"products", time.products},     {"attention", time.attention}, {"pointwise", time.pointwise},
          {"recomputing", time.again},     {"tp exposed", time.tp},       {"cp exposed", time.cp},
          {"ep exposed", time.ep},         {"pp exposed", time.pp},       {"dp exposed", time.dp},
          {"contention", time.contention}, {"bubble", time.bubble},       {"optimizer step", time.optimizer}};
}

std::vector<NamedAmount> parts_of(const MemoryBill& memory) {
  return {{"parameters", memory.parameters},   {"gradients", memory.gradients}, {"optimizer", memory.optimizer},
          {"activations", memory.activations}, {"in passing", memory.working},  {"reserved", memory.reserved}};
}

std::string words_of(const PlannedChange& change, bool fits_now) {
  const std::string gain = formatted("%+6.1f %% tokens per second", 100 * change.gain);
  const std::string how = change.words + ": " + change.why;
  if (fits_now) return gain + " by " + how;
  if (change.plan.fits()) return "fits, with " + gain.substr(gain.find_first_not_of(' ')) + ", by " + how;
  return words_of_bytes(change.plan.missing_bytes()) + " are still missing by " + how;
}

std::map<std::string, double> bytes_by_links(const JobPlan& plan) {
  std::map<std::string, double> bytes;
  const topology::Topology& cluster = plan.job.cluster;
  for (const JobPhrase& phrase : plan.sentence) {
    const GroupSpan& span = phrase.span;
    const double all = phrase.total_bytes(), ranks = span.ranks(), near = span.per_host, hosts = span.hosts;
    if (span.ranks() == 1) continue;
    const bool to_all = phrase.verb == Verb::all_to_all;
    const auto add = [&](const GroupSpan& over, double sent) { bytes[links_of(cluster, over)] += sent; };
    const auto share = [&](double of) { return (phrase.verb == Verb::all_reduce ? 2 : 1) * (of - 1) / of; };
    if (phrase.verb == Verb::send_recv) {
      add(span, phrase.sent * all);
    } else if (span.hosts > 1 && span.per_host > 1 && phrase.algorithm == "hierarchical") {
      // What was brought together in a host crosses once for all of its ranks, but for what goes to each of them.
      add({span.per_host, 1}, share(near) * all);
      add({1, span.hosts}, share(hosts) * all / (to_all ? 1 : near));
    } else if (span.hosts > 1 && span.per_host > 1 && to_all) {
      add({span.per_host, 1}, (near - 1) / ranks * all);
      add({1, span.hosts}, (ranks - near) / ranks * all);
    } else {
      add(span, share(ranks) * all);
    }
  }
  return bytes;
}

std::string to_text(const JobPlan& plan, const JobVerdict& verdict) {
  std::string text = heading_of(plan) + text_of_sentence(plan) + text_of_stages(plan) + text_of_bill(plan);
  text += "\nthe verdict\n  " + verdict.bound + "\n";
  if (!plan.fits())
    text += formatted("  it does not fit: %s are missing\n", words_of_bytes(plan.missing_bytes()).c_str());
  for (const PlannedChange& change : verdict.changes) text += "  " + words_of(change, plan.fits()) + "\n";
  return text;
}

namespace {

ordered_json document_of(const JobPlan& plan, const JobVerdict& verdict) {
  const Job& job = plan.job;
  ordered_json sentence = ordered_json::array(), stages = ordered_json::array(), timeline = ordered_json::array();
  for (const JobPhrase& phrase : plan.sentence) sentence.push_back(json_of(phrase));
  for (const StagePlan& stage : plan.stages)
    stages.push_back({{"layers", stage.layers},
                      {"forward_seconds", stage.forward_s},
                      {"backward_seconds", stage.backward_s},
                      {"memory_bytes", stage.memory_bytes}});
  for (const train::BucketTimes& bucket : plan.timeline)
    timeline.push_back({{"bytes", bucket.bytes},
                        {"ready_us", bucket.ready_us},
                        {"start_us", bucket.start_us},
                        {"end_us", bucket.end_us},
                        {"exposed_us", bucket.exposed_us}});
  ordered_json bill{{"memory_bytes", json_of_parts(parts_of(plan.memory))},
                    {"memory_capacity_bytes", plan.memory.capacity},
                    {"seconds", json_of_parts(parts_of(plan.time))},
                    {"bubble_seconds", plan.time.bubble},
                    {"model_flops", plan.model_flops},
                    {"hardware_flops", plan.hardware_flops},
                    {"stages", std::move(stages)},
                    {"timeline", std::move(timeline)}};
  ordered_json bytes = ordered_json::object();
  for (const auto& [links, amount] : bytes_by_links(plan)) bytes[links] = amount;
  bill["bytes_by_links"] = std::move(bytes);
  if (job.critical_batch > 0) bill["tokens_factor"] = plan.tokens_factor();
  if (job.tokens > 0) {
    bill["device_hours"] = plan.device_hours();
    bill["tokens_needed"] = plan.tokens_needed();
    bill["steps"] = plan.steps();
    if (job.price > 0) bill["price"] = plan.device_hours() * job.price;
  }
  return {{"model", job.model.name},
          {"parameters", plan.parameters},
          {"cluster", job.cluster.name},
          {"hosts", job.cluster.hosts},
          {"accelerator", job.accelerator.name},
          {"gpus", job.devices()},
          {"strategy", to_text(job.parallel)},
          {"micro_batch", job.micro_batch},
          {"global_batch", job.global_batch},
          {"seq", job.sequence},
          {"recompute", name_of(job.recompute)},
          {"stack", job.stack.name},
          {"collectives", words_of_prices(job)},
          {"bucket_bytes", job.bucket_bytes},
          {"step_seconds", plan.step_s()},
          {"tokens_per_second", plan.tokens_per_s()},
          {"model_tflops_per_gpu", plan.model_flops_per_device() / 1e12},
          {"hardware_tflops_per_gpu", plan.hardware_flops_per_device() / 1e12},
          {"mfu", plan.mfu()},
          {"memory_bytes_per_gpu", plan.memory.sum()},
          {"fits", plan.fits()},
          {"gamma_raw", plan.gamma_raw()},
          {"gamma_exposed", plan.gamma_exposed()},
          {"sentence", std::move(sentence)},
          {"bill", std::move(bill)},
          {"verdict", json_of_verdict(verdict)}};
}

}  // namespace

std::string to_json(const JobPlan& plan, const JobVerdict& verdict) { return json_text(document_of(plan, verdict), 2); }

std::string to_json(const Found& found, const JobVerdict& verdict) {
  ordered_json document = document_of(found.best.front(), verdict), best = ordered_json::array();
  for (const JobPlan& plan : found.best)
    best.push_back({{"strategy", to_text(plan.job.parallel)},
                    {"micro_batch", plan.job.micro_batch},
                    {"recompute", name_of(plan.job.recompute)},
                    {"step_seconds", plan.step_s()},
                    {"tokens_per_second", plan.tokens_per_s()},
                    {"mfu", plan.mfu()},
                    {"memory_bytes_per_gpu", plan.memory.sum()}});
  document["found"] = {{"tried", found.tried}, {"fitting", found.fitting}, {"best", std::move(best)}};
  if (found.best.size() > 1) document["found"]["why"] = differences(found.best[1], found.best[0]);
  return json_text(document, 2);
}

}  // namespace tutti::plan
