// tutti show cheatsheet: eight verbs on one printable page, what each rank has before and after. Drawn of the table of
// verbs (schedule/verbs.h), which the verifier holds every program to.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/verbs.h"
#include "tools/loads.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

using schedule::Buffer;
using schedule::Program;

constexpr int kSheetRanks = 4, kSheetRoot = 0;
constexpr double kSheetWidth = 1123, kSheetHeight = 794;  // A4, lying
constexpr double kPanelWidth = 272, kPanelHeight = 348, kSheetLeft = 17, kSheetTop = 74, kCell = 25;

struct SheetVerb {
  Verb verb;
  std::string_view call, meaning, use;
};

constexpr std::array<SheetVerb, 8> kSheetVerbs{{
    {Verb::broadcast, "comm.broadcast(x, root)", "all get the root's vector", "first weights from rank 0"},
    {Verb::reduce, "comm.reduce(x, y, root, op)", "the root gets the reduction of all",
     "metrics for the rank that logs"},
    {Verb::all_reduce, "comm.all_reduce(x, op)", "all get the reduction of all", "gradients of data parallel training"},
    {Verb::reduce_scatter, "comm.reduce_scatter(x, y, op)", "each gets its part of the reduction",
     "gradients to owners of weights (ZeRO, FSDP)"},
    {Verb::all_gather, "comm.all_gather(x, y)", "all get the chunks of all", "weights of a layer, whole again (FSDP)"},
    {Verb::gather, "comm.gather(x, y, root)", "the root gets the chunks of all", "predictions to who evaluates"},
    {Verb::scatter, "comm.scatter(x, y, root)", "each gets its chunk of the root's", "a batch that one rank read"},
    {Verb::all_to_all, "comm.all_to_all(x, y)", "each gets a chunk of everybody", "tokens to experts and back"},
}};

std::string_view colour_of_rank(int rank) { return svg_colour(static_cast<std::size_t>(rank)); }
char letter_of_rank(int rank) { return static_cast<char>('A' + rank); }

Program program_of(Verb verb, int rank) {
  Program program;
  program.verb = verb;
  program.ranks = program.blocks = kSheetRanks;
  program.rank = rank;
  program.root = kSheetRoot;
  return program;
}

// Whether the caller's input there goes into the result.
bool gives(Verb verb, int rank, int block) {
  if (rank != kSheetRoot && schedule::facts_of(verb).reads_input_at_root_only) return false;
  return schedule::holds_block(program_of(verb, rank), Buffer::input, rank, block);
}

void add_cell(Svg& svg, Svg::Point at, std::string_view fill, const std::string& words, const std::string& note) {
  svg.box({at.x, at.y, kCell - 2, kCell - 2}, fill, note, "#555555");
  svg.text({at.x + kCell / 2 - 1, at.y + kCell / 2 + 3}, words, {10, Svg::Anchor::middle, "#ffffff", true, 0});
}

// What is reduced has a stripe of every rank.
void add_reduced(Svg& svg, Svg::Point at, int block, int contributors) {
  const double stripe = (kCell - 2) / contributors;
  for (int rank = 0; rank < contributors; ++rank)
    svg.box({at.x + stripe * rank, at.y, stripe, kCell - 2}, colour_of_rank(rank));
  svg.box({at.x, at.y, kCell - 2, kCell - 2}, "none", fmt::format("block {} of all ranks, reduced", block), "#222222");
  svg.box({at.x + 3, at.y + 5, kCell - 8, kCell - 12}, "#ffffff");
  svg.text({at.x + kCell / 2 - 1, at.y + kCell / 2 + 3}, fmt::format("Σ{}", block),
           {10, Svg::Anchor::middle, "#1b2330", true, 0});
}

void add_input(Svg& svg, Verb verb, int rank, Svg::Point at) {
  for (int block = 0; block < kSheetRanks; ++block, at.x += kCell) {
    if (gives(verb, rank, block))
      add_cell(svg, at, colour_of_rank(rank), fmt::format("{}{}", letter_of_rank(rank), block),
               fmt::format("rank {}, block {}", rank, block));
    else
      svg.box({at.x, at.y, kCell - 2, kCell - 2}, "#f4f5f7", {}, "#dddddd");
  }
}

void add_output(Svg& svg, Verb verb, int rank, Svg::Point at) {
  const Program program = program_of(verb, rank);
  for (int block = 0; block < kSheetRanks; ++block, at.x += kCell) {
    if (!schedule::holds_block(program, Buffer::output, rank, block)) {
      svg.box({at.x, at.y, kCell - 2, kCell - 2}, "#f4f5f7", {}, "#dddddd");
      continue;
    }
    const schedule::Promised promised = schedule::promised(program, rank, block);
    if (promised.contributors > 0)
      add_reduced(svg, at, promised.from_block, promised.contributors);
    else
      add_cell(svg, at, colour_of_rank(promised.from_rank),
               fmt::format("{}{}", letter_of_rank(promised.from_rank), promised.from_block),
               fmt::format("block {} of rank {}", promised.from_block, promised.from_rank));
  }
}

void add_panel(Svg& svg, const SheetVerb& sheet, Svg::Point at) {
  constexpr double kGridTop = 104, kLabels = 34, kAfter = 150;
  svg.box({at.x, at.y, kPanelWidth - 12, kPanelHeight - 12}, "#ffffff", {}, "#c5cbd3");
  svg.text({at.x + 12, at.y + 26}, name_of(sheet.verb), {17, Svg::Anchor::start, "#1b2330", true, 0});
  svg.text({at.x + 12, at.y + 46}, sheet.meaning, {11.5, Svg::Anchor::start, "#444444", false, 0});
  svg.text({at.x + 12, at.y + 67}, sheet.call, {11, Svg::Anchor::start, "#1b6ca8", true, 0});
  svg.text({at.x + kLabels, at.y + kGridTop - 8}, "before", {10, Svg::Anchor::start, "#777777", false, 0});
  svg.text({at.x + kAfter, at.y + kGridTop - 8}, "after", {10, Svg::Anchor::start, "#777777", false, 0});
  for (int rank = 0; rank < kSheetRanks; ++rank) {
    const double y = at.y + kGridTop + rank * (kCell + 9);
    const bool root = schedule::facts_of(sheet.verb).rooted && rank == kSheetRoot;
    svg.circle({at.x + 20, y + kCell / 2 - 1}, 9.5, colour_of_rank(rank), root ? "the root" : "",
               root ? "#222222" : "none");
    svg.text({at.x + 20, y + kCell / 2 + 3}, std::to_string(rank), {11, Svg::Anchor::middle, "#ffffff", true, 0});
    add_input(svg, sheet.verb, rank, {at.x + kLabels, y});
    add_output(svg, sheet.verb, rank, {at.x + kAfter, y});
  }
  const double below = at.y + kGridTop + kSheetRanks * (kCell + 9) + 20;
  svg.text({at.x + 12, below}, fmt::format("at least {} through a rank", least_formula(sheet.verb)),
           {11.5, Svg::Anchor::start, "#222222", false, 0});
  svg.text({at.x + 12, below + 22}, sheet.use, {11.5, Svg::Anchor::start, "#444444", false, 0});
}

std::string picture_of_cheatsheet() {
  Svg svg(kSheetWidth, kSheetHeight);
  svg.text({kSheetLeft, 34}, "Eight verbs of distributed training", {23, Svg::Anchor::start, "#1b2330", true, 0});
  svg.text({kSheetLeft, 57},
           "A2: block 2 of rank 0, A to D being ranks 0 to 3; Σ2: block 2 of all, reduced; n: the bytes of the vector, "
           "or of all chunks; p: ranks; the root is rank 0",
           {11.5, Svg::Anchor::start, "#444444", false, 0});
  for (std::size_t i = 0; i < kSheetVerbs.size(); ++i)
    add_panel(
        svg, kSheetVerbs[i],
        {kSheetLeft + kPanelWidth * static_cast<double>(i % 4), kSheetTop + kPanelHeight * static_cast<double>(i / 4)});
  svg.text({kSheetLeft, kSheetHeight - 12}, "Tutti: tutti view all_reduce plays it, docs/api.md has every verb",
           {10.5, Svg::Anchor::start, "#777777", false, 0});
  return svg.str();
}

}  // namespace

void add_show_cheatsheet(CLI::App& show, int& exit_code) {
  CLI::App* verb = show.add_subcommand("cheatsheet", "Eight verbs on one printable page, before and after");
  const auto file = std::make_shared<std::string>();
  verb->add_option("--svg", *file, "Write the page to this file; to the terminal if left out")->type_name("FILE");
  verb->callback([file, &exit_code] {
    exit_code = 0;
    if (file->empty()) return fmt::print("{}", picture_of_cheatsheet());
    write_picture(*file, picture_of_cheatsheet());
  });
}

}  // namespace tutti::tools
