#include "schedule/readers/draw.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/readers/columns.h"
#include "schedule/readers/play.h"

namespace tutti::schedule {
namespace {

constexpr int kMostDigits = 10;  // with more ranks a set of them is no longer a word of one-digit names
constexpr std::size_t kMostTransfers = 64;
constexpr std::string_view kComplete = "✓";

std::string text_of(const Contribution& contribution) {
  std::string text;
  for (const int rank : contribution) text += std::to_string(rank);
  return text.empty() ? "·" : text;
}

std::string listed(const std::vector<int>& numbers) {
  constexpr std::size_t kListed = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(numbers.size(), kListed); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
  }
  return numbers.size() > kListed ? text + ",…" : text;
}

std::string text_of_blocks(const std::vector<int>& blocks, int of_program) {
  return static_cast<int>(blocks.size()) == of_program ? "" : " [" + listed(blocks) + "]";
}

class Drawing {
 public:
  Drawing(std::span<const Lowered> programs, const DrawOptions& options)
      : programs_(programs), player_(programs), columns_(options.columns) {
    measure();
  }

  std::string text() {
    std::string seen = grid();
    std::string text = legend() + "\nstart\n" + seen;
    int number = 0;
    for (Round round = player_.advance(); !round.fired.empty(); round = player_.advance()) {
      text += "\n" + heading(++number, round) + "\n";
      std::string now = grid();
      if (now != seen) text += now;
      seen = std::move(now);
    }
    return text + "\n" + closing(number);
  }

 private:
  const Program& first() const { return programs_.front().program; }

  // Plays everything once ahead, to know the widest cell.
  void measure() {
    Player ahead(programs_);
    std::size_t widest = 0;
    do {
      for (std::size_t rank = 0; rank < ahead.ranks().size(); ++rank) {
        for (std::size_t block = 0; block < static_cast<std::size_t>(first().blocks); ++block) {
          widest = std::max(widest, width_of(cell(ahead, rank, block)));
        }
      }
    } while (!ahead.advance().fired.empty());
    cell_width_ = std::max<std::size_t>(widest, 7) + 2;
    bars_ = first().ranks > kMostDigits || kMargin + cell_width_ * static_cast<std::size_t>(first().blocks) > columns_;
  }

  // What a message that waits in the inbox holds of `block`.
  static std::vector<const Contribution*> arrived(const RankState& state, std::size_t block) {
    std::vector<const Contribution*> contributions;
    for (const PlayedMessage& message : state.inbox) {
      const auto at = std::find(message.blocks.begin(), message.blocks.end(), static_cast<int>(block));
      if (at != message.blocks.end())
        contributions.push_back(&message.contents[static_cast<std::size_t>(at - message.blocks.begin())]);
    }
    return contributions;
  }

  static std::string cell(const Player& player, std::size_t rank, std::size_t block) {
    const RankState& state = player.ranks()[rank];
    std::string text = text_of(player.held(static_cast<int>(rank), static_cast<int>(block)));
    for (const Contribution* contribution : arrived(state, block)) text += "‹" + text_of(*contribution);
    if (player.complete(static_cast<int>(rank), static_cast<int>(block))) text += kComplete;
    return text;
  }

  // One character for a block: how many ranks' input the best of what the rank has of it holds.
  std::string bar(std::size_t rank, std::size_t block) const {
    static constexpr std::string_view kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇"};
    const RankState& state = player_.ranks()[rank];
    std::size_t most = player_.held(static_cast<int>(rank), static_cast<int>(block)).size();
    for (const Contribution* contribution : arrived(state, block)) most = std::max(most, contribution->size());
    if (player_.complete(static_cast<int>(rank), static_cast<int>(block))) return "█";
    if (most == 0) return "·";
    const std::size_t whole =
        std::max<std::size_t>(2, player_.wanted(static_cast<int>(rank), static_cast<int>(block)).size());
    return std::string(kBars[std::min<std::size_t>(6, (most - 1) * 7 / (whole - 1))]);
  }

  std::string grid() const {
    const auto blocks = static_cast<std::size_t>(first().blocks);
    std::string text;
    if (!bars_ && blocks > 1) {
      std::string line(kMargin, ' ');
      for (std::size_t block = 0; block < blocks; ++block)
        line += padded("block " + std::to_string(block), cell_width_);
      text += trimmed(line) + "\n";
    }
    for (std::size_t rank = 0; rank < player_.ranks().size(); ++rank) {
      std::string line = padded("  rank " + std::to_string(rank), kMargin);
      for (std::size_t block = 0; block < blocks; ++block) {
        line += bars_ ? bar(rank, block) : padded(cell(player_, rank, block), cell_width_);
      }
      text += trimmed(line) + "\n";
    }
    return text;
  }

  // "round 2  reduce  0→1 [3]  1→2 [0] ...", with one entry for all peers a rank moves the same blocks to.
  std::string heading(int number, const Round& round) const {
    std::set<StepOp> ops;
    for (const StepPlace& place : round.fired) {
      ops.insert(programs_[static_cast<std::size_t>(place.rank)]
                     .program.lanes[static_cast<std::size_t>(place.lane)]
                     .steps[static_cast<std::size_t>(place.step)]
                     .op);
    }
    std::string names;
    for (const StepOp op : ops) names += (names.empty() ? "" : ", ") + std::string(name_of(op));
    Wrapped wrapped("round " + std::to_string(number) + "  " + names, 10, columns_);
    for (const std::string& entry : entries(round)) wrapped.add(entry);
    return wrapped.text();
  }

  std::vector<std::string> entries(const Round& round) const {
    std::map<std::tuple<Transfer::Kind, int, std::vector<int>>, std::vector<int>> peers;
    for (const Transfer& transfer : round.transfers)
      peers[{transfer.kind, transfer.rank, transfer.blocks}].push_back(transfer.peer);
    std::vector<std::string> entries;
    for (const auto& [key, to] : peers) {
      const auto& [kind, rank, blocks] = key;
      std::vector<int> sorted = to;
      std::sort(sorted.begin(), sorted.end());
      const char* arrow = kind == Transfer::Kind::message ? "→" : kind == Transfer::Kind::load ? "⇐" : "⇒";
      entries.push_back(std::to_string(rank) + arrow + listed(sorted) + text_of_blocks(blocks, first().blocks));
    }
    if (entries.size() > kMostTransfers) return {std::to_string(round.transfers.size()) + " transfers"};
    return entries;
  }

  std::string legend() const {
    const bool windows = any_window();
    std::string text = windows ? "⇐ loads from   ⇒ stores to" : "→ sends to";
    if (bars_) return text + "   ▁ one rank's input   ▄ half of them   █ the complete result\n";
    return text + "   01 the input of ranks 0 and 1" + (windows ? "" : "   ‹01 arrived") + "   ✓ complete\n";
  }

  bool any_window() const {
    for (const Lowered& lowered : programs_) {
      for (const Lane& lane : lowered.program.lanes) {
        for (const Step& step : lane.steps) {
          for (const auto* operands : {&step.destinations, &step.sources}) {
            for (const Operand& operand : *operands) {
              if (operand.kind == Operand::Kind::window) return true;
            }
          }
        }
      }
    }
    return false;
  }

  std::string closing(int rounds) const {
    const std::vector<StepPlace> stuck = player_.stuck();
    if (stuck.empty()) return "done after " + std::to_string(rounds) + (rounds == 1 ? " round\n" : " rounds\n");
    std::string text = "stuck after " + std::to_string(rounds) + " rounds:\n";
    for (const StepPlace& place : stuck) {
      const Lane& lane =
          programs_[static_cast<std::size_t>(place.rank)].program.lanes[static_cast<std::size_t>(place.lane)];
      text +=
          "  rank " + std::to_string(place.rank) + " waits at " + lane.name + "." + std::to_string(place.step) + "\n";
    }
    return text;
  }

  static constexpr std::size_t kMargin = 12;

  std::span<const Lowered> programs_;
  Player player_;
  std::size_t columns_;
  std::size_t cell_width_ = 0;
  bool bars_ = false;
};

}  // namespace

std::string draw(std::span<const Lowered> programs, const DrawOptions& options) {
  return Drawing(programs, options).text();
}

}  // namespace tutti::schedule
