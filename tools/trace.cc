// tutti trace: where the time of a job went, from a trace that it left.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "base/json_text.h"
#include "tools/programs_file.h"
#include "tools/svg.h"
#include "tools/trace/calls.h"
#include "tools/trace/picture.h"
#include "tools/trace/told.h"
#include "tools/trace/torch_trace.h"
#include "tools/trace/tutti_trace.h"
#include "tools/trace_merge.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

constexpr const char* kTraceExamples = R"(Examples:
  tutti trace run.json                     a trace of a job of Tutti (docs/trace.md)
  tutti trace run.json --step 12           one step of training
  tutti trace run.json --call 1a#4         the critical path of this call instead of the slowest one's
  tutti trace rank*.json                   what torch.profiler exported, a file of each rank: nccl, gloo, tutti
  tutti trace run.json --json              all of it, for scripts
  tutti trace run.json --svg time.svg      a bar for each rank over time
  tutti trace --merge run.json.rings       makes run.json of the rings that ranks of a job left, if nobody has yet
  tutti trace --merge rings -o run.json    of several hosts' rings, copied into one folder

How to read it:
  compute        the program was not held up; of torch.profiler: kernels, or without a GPU operators, ran
  communication  calls were under way, from when all their ranks had come
  exposed        of that, what no computing covers: it makes the step longer
  waiting        in calls, for ranks that had not come yet: uneven work, not a slow wire
  gamma          communication / compute (raw), exposed / compute (exposed); at 1 the wire takes as long as the work
  busbw          as of tutti bench: held against what a link carries
  x predicted    measured over predicted, in the median; calls far beyond that are named
`tutti view --file run.json` plays the same in a browser.)";

struct TraceRequest {
  std::vector<std::string> files;
  std::optional<std::int64_t> step;
  std::string call, svg;
  std::string rings, merged;  // --merge, -o
  bool json = false;
};

struct LoadedFile {
  std::string path, text;
  std::unique_ptr<analysis::EventFile> events;
};

std::vector<LoadedFile> load(const std::vector<std::string>& paths) {
  std::vector<LoadedFile> files(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    files[i].path = paths[i];
    files[i].text = text_of_file(paths[i]);
    files[i].events = std::make_unique<analysis::EventFile>(files[i].text);
    if (!files[i].events->problem().empty()) analysis::refuse_trace(paths[i], files[i].events->problem());
  }
  return files;
}

bool is_of_tutti(const LoadedFile& file) { return file.events->members().contains("tutti"); }

// A job of Tutti has one file: more of them are of several jobs, or the same one twice.
[[noreturn]] void refuse_several(const std::vector<LoadedFile>& files) {
  std::vector<std::string> jobs;
  for (const LoadedFile& file : files) {
    if (!is_of_tutti(file)) refuse(fmt::format("{} is not of Tutti, and others are: give those of one job", file.path));
    const analysis::Json facts = file.events->members().at("tutti");
    jobs.push_back(fmt::format("{} is of job {}", file.path, facts.is_object() ? facts.value("job", "?") : "?"));
  }
  refuse(fmt::format("{}; a trace of Tutti has all ranks in one file: give one", fmt::join(jobs, ", ")));
}

analysis::TracedJob read_trace(const std::vector<LoadedFile>& files) {
  if (std::ranges::any_of(files, is_of_tutti)) {
    if (files.size() > 1) refuse_several(files);
    return analysis::tutti_trace(*files.front().events, files.front().path);
  }
  std::vector<analysis::NamedEvents> events;
  for (const LoadedFile& file : files) events.push_back({file.path, file.events.get()});
  return analysis::torch_trace(events);
}

analysis::TracedJob with_step(const analysis::TracedJob& trace, std::int64_t step) {
  const std::vector<std::int64_t> steps = analysis::step_numbers(trace);
  if (steps.empty()) refuse("--step: the trace has no steps of training");
  if (!std::ranges::binary_search(steps, step))
    refuse(fmt::format("--step {}: the trace has steps {} to {}", step, steps.front(), steps.back()));
  return analysis::only_step(trace, step);
}

std::size_t call_of(const analysis::TracedJob& trace, const std::string& name) {
  const std::vector<std::size_t> found = analysis::calls_named(trace, name);
  if (found.empty())
    refuse(
        fmt::format("--call {}: no collective of the trace is called that; 1a#4 is call 4 of communicator 1a", name));
  if (found.size() > 1)
    refuse(fmt::format("--call {}: {} collectives have this number; say which, as {}", name, found.size(),
                       analysis::name_of(trace.calls[found.front()])));
  return found.front();
}

int run_trace(const TraceRequest& asked) {
  if (!asked.rings.empty()) return merge_trace(asked.rings, asked.merged);
  if (asked.files.empty()) refuse("name a FILE to read, or with --merge the folder of rings to make one of");
  const std::vector<LoadedFile> files = load(asked.files);
  analysis::TracedJob trace = read_trace(files);
  if (asked.step) trace = with_step(trace, *asked.step);
  const std::optional<std::size_t> call = asked.call.empty() ? std::nullopt : std::optional(call_of(trace, asked.call));
  std::string title = std::filesystem::path(asked.files.front()).filename().string();
  if (files.size() > 1) title += fmt::format(" and {} more", files.size() - 1);
  if (!asked.svg.empty()) write_picture(asked.svg, picture_of(trace, title));
  if (asked.json)
    fmt::print("{}\n", json_text(to_json(trace, call), 2));
  else
    fmt::print("{}", to_text(trace, title, call));
  return 0;
}

}  // namespace

void add_trace(CLI::App& app, int& exit_code) {
  CLI::App* trace =
      app.add_subcommand("trace", "Where the time of a job went: compute, communication, who waited for whom");
  const auto asked = std::make_shared<TraceRequest>();
  CLI::Option* const files = trace->add_option(
      "FILE", asked->files, "A trace of Tutti, or those of torch.profiler, one of each rank; - is standard input");
  CLI::Option* const rings =
      trace->add_option("--merge", asked->rings, "Makes a trace of the rings in this folder, which ranks of a job left")
          ->type_name("FOLDER")
          ->excludes(files);
  trace->add_option("-o,--output", asked->merged, "The file that --merge writes; FOLDER without .rings if left out")
      ->type_name("FILE")
      ->needs(rings);
  trace->add_option("--step", asked->step, "Of this step of training alone")->type_name("N")->excludes(rings);
  trace->add_option("--call", asked->call, "Whose critical path is told, as 1a#4 or 4; the slowest call's if left out")
      ->type_name("CALL")
      ->excludes(rings);
  trace->add_option("--svg", asked->svg, "Writes a picture: what each rank did when")
      ->type_name("FILE.svg")
      ->excludes(rings);
  trace->add_flag("--json", asked->json, "As JSON, for scripts")->excludes(rings);
  trace->footer(kTraceExamples);
  trace->callback([asked, &exit_code] { exit_code = run_trace(*asked); });
}

}  // namespace tutti::tools
