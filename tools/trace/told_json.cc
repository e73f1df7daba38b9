// The same as told.cc tells, as JSON: all steps and ranks of it.
#include <algorithm>

#include "tools/trace/calls.h"
#include "tools/trace/critical_path.h"
#include "tools/trace/shares.h"
#include "tools/trace/told.h"

namespace tutti::analysis {
namespace {

template <class Value>
Json maybe(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const Shares& of) {
  return {{"span_us", of.span_us},
          {"compute_us", of.compute_us},
          {"communication_us", of.communication_us},
          {"exposed_us", of.exposed_us},
          {"waiting_us", of.waiting_us},
          {"other_us", of.other_us()},
          {"gamma_raw", of.compute_us > 0 ? Json(of.gamma_raw()) : Json(nullptr)},
          {"gamma_exposed", of.compute_us > 0 ? Json(of.gamma_exposed()) : Json(nullptr)}};
}

Json json_of(const StepShares& step) {
  Json json = {{"step", maybe(step.step)}, {"mean", json_of(step.mean)}, {"ranks", Json::array()}};
  for (const RankShares& of : step.ranks) {
    json["ranks"].push_back(json_of(of.shares));
    json["ranks"].back()["rank"] = of.rank;
  }
  return json;
}

Json verbs_json(const TracedJob& trace) {
  Json verbs = Json::array();
  for (const VerbTotals& of : totals_of(trace)) {
    const bool predicted = of.usual_ratio > 0;
    verbs.push_back({{"verb", of.verb},
                     {"algorithm", of.algorithm},
                     {"calls", of.calls},
                     {"bytes", of.bytes},
                     {"took_us", of.took_us},
                     {"busbw", of.busbw},
                     {"predicted_us", predicted ? Json(of.predicted_us) : Json(nullptr)},
                     {"measured_us", predicted ? Json(of.measured_us) : Json(nullptr)},
                     {"usual_ratio", predicted ? Json(of.usual_ratio) : Json(nullptr)}});
  }
  return verbs;
}

Json call_json(const TracedJob& trace, const TracedCall& call) {
  return {{"verb", call.verb},         {"comm", call.communicator},
          {"seq", call.sequence},      {"algorithm", call.algorithm},
          {"bytes", call.bytes},       {"step", maybe(step_of(trace, call))},
          {"took_us", call.took_us()}, {"predicted_us", maybe(call.predicted_us)}};
}

Json waits_json(const TracedJob& trace) {
  Json waits = Json::array();
  for (const auto& [pair, time] : waits_of(trace))
    waits.push_back({{"rank", pair.first}, {"for", pair.second}, {"us", time}});
  return waits;
}

Json straggler_json(const TracedJob& trace) {
  const auto found = straggler_of(trace);
  if (!found) return nullptr;
  Json json = {{"rank", found->rank}, {"late_us", found->late_us}, {"share", found->share}};
  json[found->stretch > 0 ? "since_call" : "since_step"] = found->since;
  if (found->stretch > 0) json["calls_in_a_row"] = found->stretch;
  return json;
}

Json slowest_json(const TracedJob& trace, std::size_t index) {
  Json json = call_json(trace, trace.calls[index]);
  json["parts"] = Json::array();
  for (const CallPart& part : trace.calls[index].parts)
    json["parts"].push_back({{"rank", part.rank},
                             {"entered_us", part.entered_us},
                             {"ready_us", part.ready_us},
                             {"ended_us", part.ended_us},
                             {"late_us", part.late_us}});
  json["critical_path"] = Json::array();
  for (const PathStep& one : critical_path(trace, index)) {
    const ScheduleStep& step = trace.steps[one.step];
    json["critical_path"].push_back({{"rank", step.rank},
                                     {"lane", step.lane},
                                     {"step", step.number},
                                     {"segment", step.segment},
                                     {"operation", step.operation},
                                     {"begin_us", step.time.begin_us},
                                     {"us", one.length_us},
                                     {"gap_us", one.gap_us},
                                     {"by_message", one.by_message}});
  }
  return json;
}

}  // namespace

Json to_json(const TracedJob& trace, std::optional<std::size_t> call) {
  const std::optional<std::size_t> index = call ? call : slowest_call(trace);
  const std::vector<StepShares> steps = shares_by_step(trace);
  Json json = {{"recorder", trace.recorder == TracedJob::Recorder::tutti ? "tutti" : "torch.profiler"},
               {"job", trace.job},
               {"backend", trace.backend},
               {"ranks", trace.ranks.size()},
               {"hosts", trace.hosts},
               {"notes", trace.notes},
               {"span_us", trace.whole().length_us()},
               {"mean", json_of(mean_step(steps))},
               {"steps", Json::array()}};
  json["mean"].erase("step");
  for (const StepShares& step : steps) json["steps"].push_back(json_of(step));
  json["verbs"] = verbs_json(trace);
  json["outliers"] = Json::array();
  for (const Outlier& outlier : outliers_of(trace)) {
    json["outliers"].push_back(call_json(trace, trace.calls[outlier.call]));
    json["outliers"].back()["ratio"] = outlier.ratio;
    json["outliers"].back()["usual_ratio"] = outlier.usual_ratio;
  }
  json["waits"] = waits_json(trace);
  json["straggler"] = straggler_json(trace);
  json["slowest_call"] = index ? slowest_json(trace, *index) : Json(nullptr);
  return json;
}

}  // namespace tutti::analysis
