// A collective as it plays: space downwards, time to the right.
//
//            start      round 1      round 2
//   rank 0   [####]  ---\  /-->  [####]
//   rank 1   [####]  ----\/--->  [####]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "schedule/readers/play.h"
#include "tools/pictures.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

using schedule::Player;
using schedule::Transfer;

std::string_view colour_of(Transfer::Kind kind) {
  return svg_colour(kind == Transfer::Kind::message ? 0 : kind == Transfer::Kind::load ? 1 : 4);
}

// From light to dark with the share of the ranks that a block holds; what is complete has a colour of its own.
std::string shade(std::size_t held, std::size_t wanted, bool complete) {
  if (complete) return "#2e933c";
  if (held == 0) return "#ffffff";
  const double share = wanted < 2 ? 1 : std::min(1.0, static_cast<double>(held) / static_cast<double>(wanted));
  const auto mixed = [&](int light, int dark) { return static_cast<int>(std::lround(light + share * (dark - light))); };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(238, 90), mixed(242, 130), mixed(250, 190));
}

class SchedulePicture {
 public:
  explicit SchedulePicture(std::span<const schedule::Lowered> programs) : programs_(programs) { measure(); }

  std::string svg() {
    Svg svg(kLeft + state_width_ * (rounds_ + 1) + kGap * rounds_ + 20, kTop + row_height_ * ranks() + kBottom);
    add_titles(svg);
    Player player(programs_);
    for (int round = 0; round <= rounds_; ++round) {
      if (round > 0) add_round(svg, player.advance(), round);
      add_states(svg, player, round);
    }
    return svg.str();
  }

 private:
  static constexpr double kLeft = 70, kTop = 78, kGap = 110, kBottom = 20;
  static constexpr std::size_t kMostShapes = 60000;
  static constexpr int kMostLabelled = 8;  // with more ranks the numbers of blocks would lie over each other

  int ranks() const { return programs_.front().program.ranks; }
  int blocks() const { return programs_.front().program.blocks; }
  double row(int rank) const { return kTop + row_height_ * rank; }
  double left_of(int round) const { return kLeft + (state_width_ + kGap) * round; }

  // Plays once ahead, to know how large it becomes.
  void measure() {
    std::size_t shapes = 0;
    Player ahead(programs_);
    for (schedule::Round round = ahead.advance(); !round.fired.empty(); round = ahead.advance()) {
      ++rounds_;
      shapes += 2 * round.transfers.size();
    }
    const auto cells =
        static_cast<std::size_t>(ranks()) * static_cast<std::size_t>(blocks()) * static_cast<std::size_t>(rounds_ + 1);
    cells_ = shapes + cells <= kMostShapes;
    shapes += cells_ ? cells : cells / static_cast<std::size_t>(blocks());
    if (shapes > kMostShapes)
      refuse(fmt::format("a picture of {} rounds among {} ranks would have {} shapes, more than {}: draw fewer ranks",
                         rounds_, ranks(), shapes, kMostShapes));
    row_height_ = ranks() <= kMostLabelled ? 48 : ranks() <= 32 ? 30 : 18;
    state_width_ = cells_ ? std::clamp(blocks() * 14.0, 28.0, 160.0) : 60;
  }

  void add_titles(Svg& svg) const {
    const schedule::Program& program = programs_.front().program;
    svg.text({12, 22},
             fmt::format("{} by {}, {} ranks, {} round{}", name_of(program.verb), program.algorithm, ranks(), rounds_,
                         rounds_ == 1 ? "" : "s"),
             {15, Svg::Anchor::start, "#222222", true, 0});
    double x = 12;
    const auto explain = [&](std::string_view fill, const std::string& words) {
      svg.box({x, 33, 12, 12}, fill, {}, "#888888");
      svg.text({x + 17, 43}, words, {11, Svg::Anchor::start, "#444444", false, 0});
      x += 26 + 6.3 * static_cast<double>(words.size());
    };
    explain(shade(1, 8, false), "one rank's input");
    explain(shade(8, 8, false), "of all, on the way");
    explain(shade(1, 1, true), "complete");
    std::set<Transfer::Kind> kinds;
    Player ahead(programs_);
    for (schedule::Round round = ahead.advance(); !round.fired.empty(); round = ahead.advance()) {
      for (const Transfer& transfer : round.transfers) kinds.insert(transfer.kind);
    }
    for (const Transfer::Kind kind : kinds)
      explain(colour_of(kind), kind == Transfer::Kind::message ? "message"
                               : kind == Transfer::Kind::load  ? "load from a peer"
                                                               : "store to a peer");
    for (int rank = 0; rank < ranks(); ++rank) {
      const double y = row(rank) + row_height_ / 2;
      svg.line({kLeft, y}, {left_of(rounds_) + state_width_, y}, "#dddddd");
      svg.text({kLeft - 8, y + 4}, fmt::format("rank {}", rank), {11, Svg::Anchor::end, "#222222", false, 0});
    }
  }

  void add_states(Svg& svg, const Player& player, int round) const {
    for (int rank = 0; rank < ranks(); ++rank) {
      const Svg::Box box{left_of(round), row(rank) + row_height_ * 0.2, state_width_, row_height_ * 0.6};
      const std::string when = round == 0 ? "at the start" : fmt::format("after round {}", round);
      if (!cells_) {
        add_share(svg, player, rank, box, when);
        continue;
      }
      const double width = box.width / blocks();
      for (int block = 0; block < blocks(); ++block) {
        const schedule::Contribution& held = best_of(player, rank, block);
        svg.box({box.x + width * block, box.y, width, box.height},
                shade(held.size(), player.wanted(rank, block).size(), player.complete(rank, block)),
                fmt::format("rank {} {}, block {}: {}", rank, when, block,
                            held.empty() ? "nothing" : fmt::format("of ranks {}", fmt::join(held, " "))),
                "#777777");
      }
    }
  }

  // What a rank has of a block, or has been sent of it.
  static const schedule::Contribution& best_of(const Player& player, int rank, int block) {
    const schedule::Contribution* best = &player.held(rank, block);
    if (player.complete(rank, block)) return *best;
    for (const schedule::PlayedMessage& message : player.ranks()[static_cast<std::size_t>(rank)].inbox) {
      for (std::size_t i = 0; i < message.blocks.size(); ++i) {
        if (message.blocks[i] == block && message.contents[i].size() > best->size()) best = &message.contents[i];
      }
    }
    return *best;
  }

  // Too many blocks for a cell each: how many of them are complete, as a bar.
  void add_share(Svg& svg, const Player& player, int rank, const Svg::Box& box, const std::string& when) const {
    int wanted = 0, complete = 0;
    for (int block = 0; block < blocks(); ++block) {
      if (player.wanted(rank, block).empty()) continue;
      ++wanted;
      complete += player.complete(rank, block) ? 1 : 0;
    }
    const std::string note = fmt::format("rank {} {}: {} of {} blocks complete", rank, when, complete, wanted);
    svg.box(box, "#eef2fa", note, "#777777");
    if (complete > 0) svg.box({box.x, box.y, box.width * complete / wanted, box.height}, shade(1, 1, true), note);
  }

  void add_round(Svg& svg, const schedule::Round& round, int number) const {
    const double from = left_of(number - 1) + state_width_, to = left_of(number);
    std::map<int, std::set<schedule::StepOp>> ops;
    std::set<schedule::StepOp> all;
    for (const schedule::StepPlace& place : round.fired) {
      const schedule::Program& program = programs_[static_cast<std::size_t>(place.rank)].program;
      const schedule::StepOp op =
          program.lanes[static_cast<std::size_t>(place.lane)].steps[static_cast<std::size_t>(place.step)].op;
      ops[place.rank].insert(op);
      all.insert(op);
    }
    const auto names = [](const std::set<schedule::StepOp>& of) {
      std::string text;
      for (const schedule::StepOp op : of) text += (text.empty() ? "" : ", ") + std::string(name_of(op));
      return text;
    };
    svg.text({(from + to) / 2, kTop - 8}, fmt::format("{}: {}", number, names(all)),
             {11, Svg::Anchor::middle, "#444444", false, 0});
    for (const Transfer& transfer : round.transfers) add_arrow(svg, transfer, from, to);
    for (const auto& [rank, of] : ops)
      svg.circle({from + 6, row(rank) + row_height_ / 2}, 3,
                 of.contains(schedule::StepOp::reduce) ? "#222222" : "white",
                 fmt::format("rank {}, round {}: {}", rank, number, names(of)), "#222222");
  }

  void add_arrow(Svg& svg, const Transfer& transfer, double from, double to) const {
    const bool load = transfer.kind == Transfer::Kind::load;
    const int giver = load ? transfer.peer : transfer.rank, taker = load ? transfer.rank : transfer.peer;
    const Svg::Point a{from + 10, row(giver) + row_height_ / 2}, b{to - 2, row(taker) + row_height_ / 2};
    const std::string_view colour = colour_of(transfer.kind);
    svg.line(a, b, colour, 1.2);
    const double length = std::hypot(b.x - a.x, b.y - a.y), ux = (b.x - a.x) / length, uy = (b.y - a.y) / length;
    const Svg::Point head[] = {
        {b.x - 8 * ux + 3.5 * uy, b.y - 8 * uy - 3.5 * ux}, b, {b.x - 8 * ux - 3.5 * uy, b.y - 8 * uy + 3.5 * ux}};
    svg.lines(head, colour, 1.2);
    if (ranks() > kMostLabelled || static_cast<int>(transfer.blocks.size()) == blocks()) return;
    constexpr std::size_t kListed = 3;
    std::string label;
    for (std::size_t i = 0; i < std::min(kListed, transfer.blocks.size()); ++i)
      label += (i == 0 ? "" : ",") + std::to_string(transfer.blocks[i]);
    if (transfer.blocks.size() > kListed) label += ",…";
    // At its head, on the side that it does not come from.
    svg.text({b.x - 4, giver < taker ? b.y + 14 : b.y - 7}, label, {10, Svg::Anchor::end, colour, false, 0});
  }

  std::span<const schedule::Lowered> programs_;
  int rounds_ = 0;
  bool cells_ = true;  // one for each block
  double row_height_ = 0, state_width_ = 0;
};

}  // namespace

std::string picture_of(std::span<const schedule::Lowered> programs) { return SchedulePicture(programs).svg(); }

}  // namespace tutti::tools
