// tutti show buckets: when the gradients of a planned step are ready, travel, and are exposed, as text or as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "plan/search.h"
#include "strategy/timeline.h"
#include "tools/plan_request.h"
#include "tools/programs_file.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

constexpr const char* kBucketsExamples = R"(Examples:
  tutti show buckets --model gpt2 --cluster dgx-a100:2 --strategy dp --micro-batch 4 --global-batch 64 --seq 1024
  tutti show buckets --model gpt2 --cluster dgx-a100:2 --strategy dp --bucket 1000 --svg one.svg    one large bucket

How to read it: time goes to the right; the first line is backward. A bucket of gradients waits (dots) from when its
last gradient is ready until the bucket before it is through, then it travels: = while backward hides it, # where
nothing does, which is what a step waits for. The settings are those of tutti plan.)";

struct ShowBuckets {
  plan::JobWords words;
  std::string svg;
};

void draw(const plan::JobPlan& plan) {
  constexpr double kColumns = 72;
  double last = plan.backward_us;
  for (const train::BucketTimes& bucket : plan.timeline) last = std::max(last, bucket.end_us);
  const auto column = [&](double us) { return static_cast<std::size_t>(std::lround(kColumns * us / last)); };
  const auto bar = [&](std::string& line, double from_us, double to_us, char what) {
    const std::size_t begin = column(from_us), end = std::max(begin + 1, column(to_us));
    if (to_us <= from_us) return;
    line.resize(std::max(line.size(), end), ' ');
    std::fill(line.begin() + static_cast<std::ptrdiff_t>(begin), line.begin() + static_cast<std::ptrdiff_t>(end), what);
  };
  double exposed = 0;
  std::string line;
  bar(line, 0, plan.backward_us, '-');
  fmt::print("{:<10}{:>10}  {}\n", "backward", "", line);
  for (std::size_t i = 0; i < plan.timeline.size(); ++i) {
    const train::BucketTimes& bucket = plan.timeline[i];
    line.clear();
    bar(line, bucket.ready_us, bucket.start_us, '.');
    bar(line, bucket.start_us, bucket.end_us - bucket.exposed_us, '=');
    bar(line, bucket.end_us - bucket.exposed_us, bucket.end_us, '#');
    fmt::print("{:<10}{:>10}  {}\n", fmt::format("bucket {}", i), strategy::bytes_in_words(bucket.bytes), line);
    exposed += bucket.exposed_us;
  }
  fmt::print("\nbackward until {:.3f} ms, all buckets until {:.3f} ms: {:.3f} ms exposed\n", plan.backward_us / 1e3,
             last / 1e3, exposed / 1e3);
}

void show_buckets(const ShowBuckets& asked) {
  const plan::JobQuestion question = plan::question_of(asked.words, text_of_file, costs_here);
  if (question.any_strategy) refuse("buckets are those of one strategy: name it, such as --strategy dp");
  plan::CollectivePrices prices = prices_for(question.job);
  const plan::JobPlan plan = answer(question, prices);
  if (plan.timeline.empty()) refuse("this strategy has no buckets of gradients; they come with dp, zero1 and zero2");
  if (!asked.svg.empty()) write_picture(asked.svg, strategy::svg_of(plan.timeline, plan.backward_us));
  fmt::print("{} by {} on {} devices\n\n", question.job.model.name, to_text(plan.job.parallel), plan.job.devices());
  draw(plan);
}

}  // namespace

void add_show_buckets(CLI::App& show, int& exit_code) {
  CLI::App* verb = show.add_subcommand("buckets", "Draw the buckets of gradients of a planned step over its backward");
  const auto asked = std::make_shared<ShowBuckets>();
  add_plan_settings(*verb, asked->words);
  verb->add_option("--svg", asked->svg, "Write a picture of it to this file")->type_name("FILE");
  verb->footer(kBucketsExamples);
  verb->callback([asked, &exit_code] {
    show_buckets(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
