#include "tools/plan_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/told.h"
#include "strategy/pipeline_play.h"
#include "strategy/timeline.h"
#include "tools/svg.h"

namespace tutti::tools {
namespace {

// One bar cut into its parts, with a mark where there is no more room.
std::string bar_of(const std::vector<plan::NamedAmount>& parts, double mark, std::string (*words)(double)) {
  constexpr double kBarWidth = 900, kBarHeight = 34, kLine = 20;
  double whole = 0;
  std::size_t shown = 0;
  for (const plan::NamedAmount& part : parts) {
    whole += part.amount;
    shown += part.amount > 0 ? 1 : 0;
  }
  const double scale = kBarWidth / std::max({whole, mark, 1e-12});
  Svg svg(kBarWidth + 40, kBarHeight + 30 + kLine * static_cast<double>(shown));
  double x = 10, y = kBarHeight + 30;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!(parts[i].amount > 0)) continue;
    const std::string note =
        fmt::format("{}: {}, {:.1f} %", parts[i].name, words(parts[i].amount), 100 * parts[i].amount / whole);
    svg.box({x, 10, parts[i].amount * scale, kBarHeight}, svg_colour(i), note);
    svg.box({10, y, 12, 12}, svg_colour(i));
    svg.text({28, y + 11}, note);
    x += parts[i].amount * scale;
    y += kLine;
  }
  if (mark > 0) {
    svg.line({10 + mark * scale, 4}, {10 + mark * scale, kBarHeight + 16}, "#222222", 2, "4 3");
    svg.text({10 + mark * scale, kBarHeight + 26}, words(mark), {11, Svg::Anchor::end});
  }
  return svg.str();
}

std::string table_of_sentence(const plan::JobPlan& plan) {
  std::string table =
      "<table><tr><th>times</th><th>verb</th><th>bytes</th><th>what</th><th>group</th><th>links</th>"
      "<th>by</th><th>in all</th><th>exposed</th></tr>\n";
  for (const plan::JobPhrase& phrase : plan.sentence)
    table += fmt::format(
        "<tr><td class='n'>{:g}</td><td>{}</td><td class='n'>{}</td><td>{}</td><td>{} of {}</td><td>{}</td><td>{}</td>"
        "<td class='n'>{}</td><td class='n'>{}</td></tr>\n",
        phrase.times, name_of(phrase.verb), plan::words_of_bytes(phrase.bytes),
        svg_escaped(phrase.what) + (phrase.every > 1 ? fmt::format(", every {:g} steps", phrase.every) : ""),
        phrase.group, phrase.span.ranks(), phrase.links, phrase.algorithm, plan::words_of_seconds(phrase.total_s()),
        plan::words_of_seconds(phrase.exposed_s));
  return table + "</table>\n";
}

std::string table_of_links(const plan::JobPlan& plan) {
  std::string table = "<table><tr><th>links</th><th>bytes that a rank sends in a step</th></tr>\n";
  for (const auto& [links, bytes] : bytes_by_links(plan))
    table += fmt::format("<tr><td>{}</td><td class='n'>{}</td></tr>\n", links, plan::words_of_bytes(bytes));
  return table + "</table>\n";
}

// The stages of a step as their schedule plays, with what follows behind them.
std::string timeline_of_step(const plan::JobPlan& plan) {
  constexpr double kLeft = 70, kWide = 860, kRow = 26, kBox = 20;
  const plan::Job& job = plan.job;
  const int stages = job.parallel.pp, chunks = job.parallel.interleave;
  const auto& slowest = *std::ranges::max_element(
      plan.stages, {}, [](const plan::StagePlan& stage) { return stage.forward_s + stage.backward_s; });
  strategy::PipelineTimes times;
  times.forward = slowest.forward_s / chunks;
  times.backward = slowest.backward_s / chunks;
  for (const plan::StagePlan& stage : plan.stages)
    times.factors.push_back((stage.forward_s + stage.backward_s) / (slowest.forward_s + slowest.backward_s));
  const strategy::PipelineShape shape{
      chunks > 1 ? train::PipelineSchedule::interleaved : train::PipelineSchedule::one_f_one_b, stages,
      job.microbatches(), chunks};
  const strategy::PlayedPipeline played = play_pipeline(strategy::pipeline_programs(shape), times);
  const double step_s = std::max(plan.step_s(), played.span), scale = kWide / step_s;
  Svg svg(kLeft + kWide + 20, kRow * stages + 30);
  for (int stage = 0; stage < stages; ++stage) {
    const double y = 4 + kRow * stage;
    svg.text({6, y + kBox - 6}, fmt::format("stage {}", stage));
    svg.box({kLeft, y, kWide, kBox}, "#f3f3f3", "waits");
    for (const strategy::PlayedAction& done : played.stages[static_cast<std::size_t>(stage)]) {
      const bool forward = done.action.work == strategy::PipelineWork::forward;
      svg.box({kLeft + done.begin * scale, y, (done.end - done.begin) * scale, kBox}, svg_colour(forward ? 0 : 1),
              fmt::format("{} of micro-batch {}: {}", name_of(done.action.work), done.action.microbatch,
                          plan::words_of_seconds(done.end - done.begin)),
              "#ffffff");
    }
    svg.box(
        {kLeft + played.span * scale, y, (step_s - played.span) * scale, kBox}, svg_colour(3),
        fmt::format("what hides behind nothing (messages between stages, gradients, contention), and the optimizer: {}",
                    plan::words_of_seconds(step_s - played.span)));
  }
  svg.text({kLeft, kRow * stages + 22},
           "0: forward (blue), backward (red), and behind them (yellow) what nothing hides and the optimizer");
  svg.text({kLeft + kWide, kRow * stages + 22}, plan::words_of_seconds(step_s), {12, Svg::Anchor::end});
  return svg.str();
}

}  // namespace

std::string page_of(const plan::JobPlan& plan, const plan::JobVerdict& verdict) {
  constexpr std::size_t kMostBuckets = 400;  // that anybody could look at
  constexpr int kMostActions = 20000;
  const plan::Job& job = plan.job;
  std::string page = page_head(
      fmt::format("{} on {} {} by {}", job.model.name, job.devices(), job.accelerator.name, to_text(job.parallel)));
  page += fmt::format(
      "<p>{} a step, {:.4g} tokens per second, {:.1f} TFLOP/s of the model per device, MFU {:.1f} %, gamma {:.3g} raw "
      "and {:.3g} exposed. Collectives: {}.</p>\n",
      plan::words_of_seconds(plan.step_s()), plan.tokens_per_s(), plan.model_flops_per_device() / 1e12,
      100 * plan.mfu(), plan.gamma_raw(), plan.gamma_exposed(), svg_escaped(words_of_prices(job)));
  page += fmt::format("<h2>A step</h2>\n{}", bar_of(parts_of(plan.time), 0, plan::words_of_seconds));
  page += fmt::format("<h2>Memory of a device: {}</h2>\n{}", plan.fits() ? "fits" : "does not fit",
                      bar_of(parts_of(plan.memory), plan.memory.capacity, plan::words_of_bytes));
  if (job.parallel.pp * job.parallel.interleave * job.microbatches() <= kMostActions)
    page += "<h2>The timeline of a step</h2>\n" + timeline_of_step(plan);
  page += "<h2>The sentence and its links</h2>\n" + table_of_sentence(plan) + table_of_links(plan);
  page += fmt::format("<h2>The verdict</h2>\n<p>{}.</p><ul>\n", svg_escaped(verdict.bound));
  for (const plan::PlannedChange& change : verdict.changes)
    page += fmt::format("<li>{}</li>\n", svg_escaped(words_of(change, plan.fits())));
  page += "</ul>\n";
  if (!plan.timeline.empty() && plan.timeline.size() <= kMostBuckets)
    page += "<h2>Gradients behind backward</h2>\n" + strategy::svg_of(plan.timeline, plan.backward_us);
  return page + "</body></html>\n";
}

}  // namespace tutti::tools
