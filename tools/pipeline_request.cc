#include "tools/pipeline_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "base/nearest_names.h"
#include "plan/collectives.h"
#include "schedule/algorithms/table.h"
#include "strategy/pipeline_verify.h"
#include "tools/bench/sizes.h"
#include "tools/clusters.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

using strategy::PipelineMessage;
using train::PipelineSchedule;

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

}  // namespace

nlohmann::ordered_json json_of(const RequestedPipeline& pipeline) {
  const strategy::PipelineShape& shape = pipeline.shape;
  const std::vector<strategy::PipelineProgram>& programs = pipeline.programs;
  const strategy::PlayedPipeline& played = pipeline.played;
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
          {"message", pipeline.times.message},
          {"programs", std::move(stages)}};
}

void PipelineRequest::add_to(CLI::App& app) {
  app.add_option("--schedule", schedule, fmt::format("{}; 1f1b if left out", fmt::join(train::kPipelineWords, ", ")))
      ->type_name("NAME");
  app.add_option("--stages", shape.stages, "Ranks that the model is cut over; 4 if left out")->type_name("N");
  app.add_option("--microbatches", shape.microbatches, "Pieces of a batch, one behind the other; 8 if left out")
      ->type_name("N");
  app.add_option("--chunks", chunks, "Parts of the model on every stage; 2 if left out, interleaved only")
      ->type_name("N");
  app.add_option("--factors", factors, "Uneven stages: how many times as long each takes")->type_name("LIST");
  CLI::Option* const time =
      app.add_option("--message", message, "What a message takes, in forwards; 0 if left out")->type_name("TIME");
  CLI::Option* const cluster =
      app.add_option("--topology", topology, "A cluster that messages are simulated on, NAME:HOSTS or a file")
          ->type_name("NAME")
          ->excludes(time);
  CLI::Option* const long_as =
      app.add_option("--bytes", bytes, "Of an activation, for --topology")->type_name("BYTES")->needs(cluster);
  CLI::Option* const forward = app.add_option("--forward-ms", forward_ms,
                                              "What a forward of a micro-batch takes on a stage, or on a chunk of it")
                                   ->type_name("MS")
                                   ->needs(cluster);
  cluster->needs(long_as)->needs(forward);
  app.add_option("--apart", apart, "Ranks of the cluster from one stage to the next; 1 if left out")
      ->type_name("N")
      ->needs(cluster);
}

double PipelineRequest::message_s(const strategy::PipelineShape& asked) const {
  const topology::Topology cluster = find_topology(topology);
  if (!(forward_ms > 0)) refuse("--forward-ms is a time above 0");
  if (apart < 1) refuse(fmt::format("--apart {}: stages are one rank apart at least", apart));
  if (std::int64_t{asked.stages - 1} * apart >= cluster.ranks())
    refuse(
        fmt::format("{} stages, each {} behind the one before, do not lie on the {} ranks of {}; give fewer --stages, "
                    "or more hosts",
                    asked.stages, apart, cluster.ranks(), topology));
  const std::span<const schedule::Algorithm> rows = schedule::algorithms();
  const auto row = std::find_if(rows.begin(), rows.end(), [](const schedule::Algorithm& each) {
    return each.verb == Verb::send_recv && !each.single_copy;
  });
  const auto length = static_cast<double>(bench::parse_bytes(bytes, "--bytes"));
  double slowest = 0;
  // The last stage has a neighbour behind it where it hands over to the next chunk.
  for (int stage = 0; stage < asked.stages - (asked.chunks > 1 ? 0 : 1) && asked.stages > 1; ++stage) {
    const int next = (stage + 1) % asked.stages;
    slowest = std::max(slowest, plan::simulated_seconds(*row, cluster, {{stage * apart, next * apart}}, length));
  }
  return slowest;
}

RequestedPipeline PipelineRequest::play() const {
  constexpr int kMost = 1024;
  RequestedPipeline pipeline{shape, {}, {}, {}, {}, {}};
  pipeline.shape.schedule = schedule_named(schedule);
  pipeline.shape.chunks = chunks.value_or(pipeline.shape.schedule == PipelineSchedule::interleaved ? 2 : 1);
  require_possible(pipeline.shape);
  if (shape.stages > kMost || shape.microbatches > kMost || pipeline.shape.chunks > kMost)
    refuse(fmt::format("stages, micro-batches and chunks are {} at most; smaller ones tell as much", kMost));
  if (!(message >= 0 && message <= 1000)) refuse("--message is a time, from 0 to 1000 forwards");
  pipeline.times.message = message;
  if (!topology.empty()) {
    const double seconds = message_s(pipeline.shape);
    pipeline.times.message = seconds * 1e3 / forward_ms;
    pipeline.priced = fmt::format("  a message   {} on {}, {:.4g} forwards\n", rounded_time(seconds), topology,
                                  pipeline.times.message);
  }
  pipeline.times.factors = factors_of(factors, shape.stages);
  pipeline.programs = pipeline_programs(pipeline.shape);
  if (const auto problem = verify_pipeline(pipeline.shape, pipeline.programs)) {
    pipeline.problem = text_of(*problem);
    return pipeline;
  }
  pipeline.played = play_pipeline(pipeline.programs, pipeline.times);
  return pipeline;
}

}  // namespace tutti::tools
