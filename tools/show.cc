// tutti show: a collective drawn as it plays, and the programs of its ranks as text or JSON.
#include <fmt/format.h>

#include <memory>

#include "schedule/json.h"
#include "schedule/readers/describe.h"
#include "schedule/readers/draw.h"
#include "tools/pictures.h"
#include "tools/selection.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

constexpr const char* kShowExamples = R"(Examples:
  tutti show all_reduce --algorithm ring -n 4
  tutti show all_reduce --algorithm ring -n 4 --transport stream   the same over TCP: messages land first
  tutti show all_reduce --algorithm ring -n 4 --hosts 2            only messages between the two hosts land first
  tutti show all_reduce -a recursive_halving -n 16                 many ranks are drawn as bars
  tutti show broadcast -n 8 --root 3
  tutti show all_reduce -a ring -n 8 --svg ring.svg                a picture, for a browser
  tutti show all_reduce -a ring -n 4 --json > ring.json            for programs; see tutti verify --file
  tutti show pipeline --schedule 1f1b --stages 4 --microbatches 8  what the stages of a pipeline compute when
  tutti show buckets --model gpt2 --cluster dgx-a100:2 --strategy dp   gradients behind backward
  tutti show topology dgx-h100:2                                   hosts, what is in them, and what joins them
  tutti show cheatsheet --svg cheatsheet.svg                       eight verbs on one page, to print)";

struct Show {
  Selection selection;
  bool json = false;
  std::string svg;
  std::uint64_t bytes = 0;
};

}  // namespace

void add_show(CLI::App& app, int& exit_code) {
  CLI::App* show = app.add_subcommand("show", "Draw a collective as it plays, and print the programs of its ranks");
  const auto asked = std::make_shared<Show>();
  asked->selection.add_to(*show);
  show->add_flag("--json", asked->json, "Print the programs as JSON instead");
  show->add_option("--svg", asked->svg, "Write a picture of it to this file: ranks over rounds, arrows for what moves")
      ->type_name("FILE");
  show->add_option("--bytes", asked->bytes,
                   "Also say what a call of so many bytes is expected to take, by built-in costs")
      ->type_name("N");
  show->footer(kShowExamples);
  add_show_pipeline(*show, exit_code);
  add_show_cheatsheet(*show, exit_code);
  add_show_topology(*show, exit_code);
  add_show_buckets(*show, exit_code);
  show->callback([asked, show, &exit_code] {
    if (!show->get_subcommands().empty()) return;
    const std::vector<schedule::Lowered> programs = asked->selection.programs();
    if (!asked->svg.empty()) write_picture(asked->svg, picture_of(programs));
    if (asked->json) {
      fmt::print("{}", schedule::to_json(programs));
    } else {
      fmt::print("{}", schedule::describe(programs));
      if (asked->bytes != 0)
        fmt::print("  expected  {:.4g} us for {} bytes\n", asked->selection.predicted_us(asked->bytes), asked->bytes);
      fmt::print("\n{}", schedule::draw(programs));
    }
    exit_code = 0;
  });
}

}  // namespace tutti::tools
