// tutti export: a collective in a form that other programs read: JSON, or GOAL for simulators of clusters.
#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "schedule/json.h"
#include "schedule/readers/goal.h"
#include "tools/bench/sizes.h"
#include "tools/selection.h"
#include "tools/simulation.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

constexpr const char* kExportExamples = R"(Examples:
  tutti export all_reduce -a ring -n 64 -b 64M -o ring.goal      for LogGOPSim, ATLAHS and others that read GOAL
  tutti export all_gather -a pat -n 16 -b 1M --reduce 20         20 GB/s for what a rank adds up
  tutti export all_reduce -a ring -n 4 --format json             the programs themselves; see tutti verify --file

GOAL has sends, receives and computations with what each comes behind; a message has a tag of its own on its edge.
Credits have no form there, and neither have algorithms that reach into others' memory: without -a it is the first one
of messages. What a chunk has is rounded down to whole elements of 4 bytes, of which there is one at least.)";

struct Export {
  Selection selection;
  std::string format = "goal";
  std::string bytes = "1M";
  std::string file;
  double reduce = 10;
};

std::string text_of(const Export& asked) {
  if (asked.format == "json") return schedule::to_json(asked.selection.programs());
  Selection selection = asked.selection;
  selection.sends_only = true;
  const std::vector<schedule::Lowered> programs = selection.programs();
  const schedule::Program& first = programs.front().program;
  constexpr std::uint32_t kElement = 4;
  const VectorCount vector = VectorCount::of(first.verb, first.ranks, bench::parse_bytes(asked.bytes, "-b"), kElement);
  return schedule::to_goal(programs, {vector.count, kElement, asked.reduce});
}

}  // namespace

void add_export(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("export", "Write a collective in a form that other programs read");
  const auto asked = std::make_shared<Export>();
  asked->selection.add_to(*command);
  command->add_option("--format", asked->format, "goal: for simulators of clusters; json: the programs themselves")
      ->check(CLI::IsMember({"goal", "json"}));
  command->add_option("-b,--bytes", asked->bytes, "goal: size of the vector, or of all chunks together; 1M if left out")
      ->type_name("BYTES");
  command->add_option("--reduce", asked->reduce, "goal: GB/s at which a rank reduces; 10 if left out")
      ->type_name("GB/S")
      ->check(number_between(1e-6, 1e9));
  command->add_option("-o,--output", asked->file, "Write to this file; to the terminal if left out")->type_name("FILE");
  command->footer(kExportExamples);
  command->callback([asked, &exit_code] {
    const std::string text = text_of(*asked);
    if (asked->file.empty()) {
      fmt::print("{}", text);
    } else {
      std::ofstream file(asked->file);
      file << text;
      file.close();
      if (!file) refuse(fmt::format("cannot write {}", asked->file));
    }
    exit_code = 0;
  });
}

}  // namespace tutti::tools
