// tutti show pipeline: what the stages of a pipeline compute when, as text, a picture or JSON, and its bubble.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "strategy/pipeline_text.h"
#include "tools/pictures.h"
#include "tools/pipeline_request.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

constexpr const char* kPipelineExamples = R"(Examples:
  tutti show pipeline                                                1f1b, 4 stages, 8 micro-batches
  tutti show pipeline --schedule gpipe --microbatches 16             more micro-batches, a smaller bubble
  tutti show pipeline --schedule interleaved --chunks 2              every stage has two parts of the model
  tutti show pipeline --schedule zb-h1 --stages 8 --microbatches 16
  tutti show pipeline --factors 1,1,2,1                              stage 2 takes twice as long as the others
  tutti show pipeline --message 0.25                                 a message takes a quarter of a forward
  tutti show pipeline --topology dgx-h100:4 --apart 8 --bytes 64M --forward-ms 5     a message as it takes there
  tutti show pipeline --svg 1f1b.svg
  tutti show pipeline --json > 1f1b.json                             programs of all stages, with their messages

How to read it: a line is a stage, time goes to the right. F3 is the forward of micro-batch 3, B3--- its backward, which
takes two forwards, I3 and W3 its input and its weight gradient, one each; F3a and F3b are of a stage's first and second
chunk; dots are the bubble, where a stage waits. What is drawn was verified: every forward before its backward, no
stages that wait for each other, no more activations than stated.

Schedules:)";

struct ShowPipeline {
  PipelineRequest request;
  std::string svg;
  bool json = false;
};

int show_pipeline(const ShowPipeline& asked) {
  constexpr std::size_t kMostColumns = 600;
  const RequestedPipeline pipeline = asked.request.play();
  const strategy::PlayedPipeline& played = pipeline.played;
  if (!pipeline.problem.empty()) {
    say("show pipeline", pipeline.problem);
    return kFailed;
  }
  if (!asked.svg.empty()) write_picture(asked.svg, picture_of(pipeline.shape, played));
  if (asked.json) {
    fmt::print("{}\n", json_text(json_of(pipeline), 1));
    return 0;
  }
  fmt::print("{}{}\n", describe_pipeline(pipeline.shape, pipeline.times, played), pipeline.priced);
  if (columns_of(pipeline.shape, played) > kMostColumns)
    fmt::print("too wide to draw as text; --svg FILE writes a picture\n");
  else
    fmt::print("{}", draw_pipeline(pipeline.shape, played));
  return 0;
}

}  // namespace

void add_show_pipeline(CLI::App& show, int& exit_code) {
  CLI::App* verb = show.add_subcommand("pipeline", "Draw what the stages of a pipeline compute when, and its bubble");
  const auto asked = std::make_shared<ShowPipeline>();
  asked->request.add_to(*verb);
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
