// tutti show pipeline: what the stages of a pipeline compute when, as text, a picture or JSON, and its bubble.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/nearest_names.h"
#include "strategy/pipeline_text.h"
#include "strategy/pipeline_verify.h"
#include "tools/pictures.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

using strategy::PipelineMessage;
using train::PipelineSchedule;

constexpr const char* kPipelineExamples = R"(Examples:
  tutti show pipeline                                                1f1b, 4 stages, 8 micro-batches
  tutti show pipeline --schedule gpipe --microbatches 16             more micro-batches, a smaller bubble
  tutti show pipeline --schedule interleaved --chunks 2              every stage has two parts of the model
  tutti show pipeline --schedule zb-h1 --stages 8 --microbatches 16
  tutti show pipeline --factors 1,1,2,1                              stage 2 takes twice as long as the others
  tutti show pipeline --message 0.25                                 a message takes a quarter of a forward
  tutti show pipeline --svg 1f1b.svg
  tutti show pipeline --json > 1f1b.json                             programs of all stages, with their messages

How to read it: a line is a stage, time goes to the right. F3 is the forward of micro-batch 3, B3--- its backward, which
takes two forwards, I3 and W3 its input and its weight gradient, one each; F3a and F3b are of a stage's first and second
chunk; dots are the bubble, where a stage waits. What is drawn was verified: every forward before its backward, no
stages that wait for each other, no more activations than stated.

Schedules:)";

struct PipelineRequest {
  std::string schedule = "1f1b";
  strategy::PipelineShape shape{PipelineSchedule::one_f_one_b, 4, 8, 1};
  std::optional<int> chunks;
  double message = 0;
  std::string factors, svg;
  bool json = false;
};

PipelineSchedule schedule_named(const std::string& name) {
  const std::span<const std::string_view> words(train::kPipelineWords);
  const auto found = std::find(words.begin(), words.end(), name);
  if (found == words.end()) refuse(none_called("schedule", name, {words.begin(), words.end()}));
  return static_cast<PipelineSchedule>(found - words.begin());
}

std::vector<double> factors_of(const std::string& text, int stages) {
  std::vector<double> factors;
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    double factor = 0;
    const auto parsed = std::from_chars(text.data() + at, text.data() + end, factor);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + end;
    if (!whole || !(factor > 0 && factor <= 1000))
      refuse(
          fmt::format("--factors {}: numbers above 0, 1000 at most, one for each stage, belong there: 1,1,2,1", text));
    factors.push_back(factor);
    at = end + 1;
  }
  if (!factors.empty() && factors.size() != static_cast<std::size_t>(stages))
    refuse(
        fmt::format("--factors {}: {} numbers for {} stages; give one for each stage", text, factors.size(), stages));
  return factors;
}

nlohmann::ordered_json json_of(const PipelineMessage& message) {
  return {{"sends", message.sends},
          {"cargo", message.cargo == PipelineMessage::Cargo::activation ? "activation" : "gradient"},
          {"peer", message.peer},
          {"microbatch", message.microbatch},
          {"boundary", message.boundary}};
}

nlohmann::ordered_json json_of(const strategy::PipelineShape& shape,
                               const std::vector<strategy::PipelineProgram>& programs,
                               const strategy::PlayedPipeline& played) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (std::size_t stage = 0; stage < programs.size(); ++stage) {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    std::size_t number = 0;
    for (const strategy::PipelineStep& program_step : programs[stage]) {
      nlohmann::ordered_json batch = nlohmann::ordered_json::array();
      for (const PipelineMessage& message : program_step.batch) batch.push_back(json_of(message));
      nlohmann::ordered_json step{{"batch", batch}};
      if (program_step.action) {
        const strategy::PlayedAction& done = played.stages[stage][number++];
        step["action"] = {{"work", name_of(done.action.work)},
                          {"microbatch", done.action.microbatch},
                          {"chunk", done.action.chunk},
                          {"begin", done.begin},
                          {"end", done.end}};
      }
      steps.push_back(step);
    }
    stages.push_back(
        {{"stage", stage}, {"activations_held", activations_held(shape, static_cast<int>(stage))}, {"steps", steps}});
  }
  return {{"schedule", name_of(shape.schedule)},
          {"stages", shape.stages},
          {"microbatches", shape.microbatches},
          {"chunks", shape.chunks},
          {"span", played.span},
          {"work", played.work},
          {"bubble", played.bubble()},
          {"programs", std::move(stages)}};
}

int show_pipeline(PipelineRequest asked) {
  constexpr int kMost = 1024;
  constexpr std::size_t kMostColumns = 600;
  strategy::PipelineShape& shape = asked.shape;
  shape.schedule = schedule_named(asked.schedule);
  shape.chunks = asked.chunks.value_or(shape.schedule == PipelineSchedule::interleaved ? 2 : 1);
  require_possible(shape);
  if (shape.stages > kMost || shape.microbatches > kMost || shape.chunks > kMost)
    refuse(fmt::format("stages, micro-batches and chunks are {} at most; smaller ones tell as much", kMost));
  if (!(asked.message >= 0 && asked.message <= 1000)) refuse("--message is a time, from 0 to 1000 forwards");
  strategy::PipelineTimes times;
  times.message = asked.message;
  times.factors = factors_of(asked.factors, shape.stages);
  const std::vector<strategy::PipelineProgram> programs = pipeline_programs(shape);
  if (const auto problem = verify_pipeline(shape, programs)) {
    say("show pipeline", text_of(*problem));
    return kFailed;
  }
  const strategy::PlayedPipeline played = play_pipeline(programs, times);
  if (!asked.svg.empty()) write_picture(asked.svg, picture_of(shape, played));
  if (asked.json) {
    fmt::print("{}\n", json_of(shape, programs, played).dump(1));
    return 0;
  }
  fmt::print("{}\n", describe_pipeline(shape, times, played));
  if (columns_of(shape, played) > kMostColumns)
    fmt::print("too wide to draw as text; --svg FILE writes a picture\n");
  else
    fmt::print("{}", draw_pipeline(shape, played));
  return 0;
}

}  // namespace

void add_show_pipeline(CLI::App& show, int& exit_code) {
  CLI::App* verb = show.add_subcommand("pipeline", "Draw what the stages of a pipeline compute when, and its bubble");
  const auto asked = std::make_shared<PipelineRequest>();
  verb->add_option("--schedule", asked->schedule,
                   fmt::format("{}; 1f1b if left out", fmt::join(train::kPipelineWords, ", ")))
      ->type_name("NAME");
  verb->add_option("--stages", asked->shape.stages, "Ranks that the model is cut over; 4 if left out")->type_name("N");
  verb->add_option("--microbatches", asked->shape.microbatches,
                   "Pieces of a batch, one behind the other; 8 if left out")
      ->type_name("N");
  verb->add_option("--chunks", asked->chunks, "Parts of the model on every stage; 2 if left out, interleaved only")
      ->type_name("N");
  verb->add_option("--factors", asked->factors, "Uneven stages: how many times as long each takes")->type_name("LIST");
  verb->add_option("--message", asked->message, "What a message takes, in forwards; 0 if left out")->type_name("TIME");
  verb->add_option("--svg", asked->svg, "Write a picture of it to this file")->type_name("FILE");
  verb->add_flag("--json", asked->json, "The programs of all stages as JSON instead");
  std::string footer = kPipelineExamples;
#define X(name, word, meaning) footer += fmt::format("\n  {:<12} {}", word, meaning);
  TUTTI_PIPELINE_SCHEDULES(X)
#undef X
  verb->footer(footer);
  verb->callback([asked, &exit_code] { exit_code = show_pipeline(*asked); });
}

}  // namespace tutti::tools
