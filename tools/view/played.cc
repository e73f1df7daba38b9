#include "tools/view/played.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedule/fold.h"
#include "schedule/layout.h"
#include "schedule/readers/phrases.h"
#include "schedule/readers/play.h"
#include "schedule/readers/verify.h"
#include "schedule/verbs.h"
#include "tools/view/packed.h"
#include "tutti/error.h"

namespace tutti::view {
namespace {

using schedule::Contribution;
using schedule::Lane;
using schedule::Lowered;
using schedule::PlayedMessage;
using schedule::Player;
using schedule::Program;
using schedule::RankState;
using schedule::Round;
using schedule::Step;
using schedule::StepOp;
using schedule::StepPlace;
using schedule::Transfer;

const Program& program_of(std::span<const Lowered> programs, int rank) {
  return programs[static_cast<std::size_t>(rank)].program;
}

const Lane& lane_of(std::span<const Lowered> programs, const StepPlace& place) {
  return program_of(programs, place.rank).lanes[static_cast<std::size_t>(place.lane)];
}

// Which way the data goes, whoever acts.
std::pair<int, int> ends_of(const Transfer& transfer) {
  if (transfer.kind == Transfer::Kind::load) return {transfer.peer, transfer.rank};
  return {transfer.rank, transfer.peer};
}

Json json_of_proof(std::span<const Lowered> programs) {
  constexpr std::size_t kMostProblems = 10;
  const schedule::VerifyReport report = schedule::verify_calls(programs, false);
  Json problems = Json::array();
  for (const schedule::Problem& problem : report.problems) {
    if (problems.size() == kMostProblems) break;
    problems.push_back({{"kind", name_of(problem.kind)}, {"message", problem.message}, {"story", problem.story}});
  }
  return {{"verified", report.ok()}, {"canonical", report.ok() && report.canonical}, {"problems", std::move(problems)}};
}

std::string text_of_step(const Step& step, const Program& program) {
  std::string text(name_of(step.op));
  if (step.op != StepOp::wait) {
    text += "  " + phrase_of(step.destinations, schedule::Side::destination, program.blocks);
    text += "  " + std::string(symbol_of(step.op)) + "  ";
    text += phrase_of(step.sources, schedule::Side::source, program.blocks);
  }
  const char* gap = "  after ";
  for (const std::string& phrase : phrases_of(step.waits, program)) {
    text += gap + phrase;
    gap = "; ";
  }
  return text;
}

// Texts of steps, each once. Most differ in numbers alone: those stand beside the words.
class Texts {
 public:
  std::size_t number_of(const std::string& text) {
    const auto [at, is_new] = numbers_.emplace(text, texts_.size());
    if (is_new) texts_.push_back(parts_of(text));
    return at->second;
  }
  Json words() const { return words_; }
  Json texts() const { return texts_; }

 private:
  Json parts_of(const std::string& text) {
    constexpr std::size_t kMostDigits = 9;
    Json words = Json::array(), numbers = Json::array();
    std::string word;
    for (std::size_t i = 0, end = 0; i < text.size(); i = end) {
      for (end = i; end < text.size() && text[end] >= '0' && text[end] <= '9';) ++end;
      const bool is_number = end > i && end - i <= kMostDigits && (text[i] != '0' || end == i + 1);
      if (is_number) {
        words.push_back(std::move(word));
        word.clear();
        numbers.push_back(std::stoi(text.substr(i, end - i)));
      } else {
        end = std::max(end, i + 1);
        word += text.substr(i, end - i);
      }
    }
    words.push_back(std::move(word));
    const auto [at, is_new] = forms_.emplace(words, words_.size());
    if (is_new) words_.push_back(words);
    numbers.insert(numbers.begin(), at->second);
    return numbers;
  }

  std::map<std::string, std::size_t> numbers_;
  std::map<Json, std::size_t> forms_;
  Json words_ = Json::array(), texts_ = Json::array();
};

void add_programs(Json& document, std::span<const Lowered> programs) {
  Texts texts;
  for (const std::vector<int>& ranks : schedule::fold_ranks(programs)) {
    const Program& program = program_of(programs, ranks.front());
    Json lanes = Json::array();
    for (const Lane& lane : program.lanes) {
      Json steps = Json::array();
      for (const Step& step : lane.steps) steps.push_back(texts.number_of(text_of_step(step, program)));
      lanes.push_back({{"name", lane.name}, {"steps", std::move(steps)}});
    }
    document["programs"].push_back({{"ranks", schedule::text_of_ranks(ranks)}, {"lanes", std::move(lanes)}});
  }
  document["words"] = texts.words();
  document["texts"] = texts.texts();
}

Json ops_of(std::span<const Lowered> programs, const std::vector<StepPlace>& fired) {
  std::set<StepOp> ops;
  for (const StepPlace& place : fired)
    ops.insert(lane_of(programs, place).steps[static_cast<std::size_t>(place.step)].op);
  Json names = Json::array();
  for (const StepOp op : ops) names.push_back(name_of(op));
  return names;
}

Json json_of_stuck(std::span<const Lowered> programs, const Player& player) {
  Json lines = Json::array();
  for (const StepPlace& place : player.stuck())
    lines.push_back("rank " + std::to_string(place.rank) + " waits at " + lane_of(programs, place).name + "." +
                    std::to_string(place.step));
  return lines;
}

// Every set of ranks has one number.
class Sets {
 public:
  int of(const Contribution& ranks) {
    const auto [at, is_new] = numbers_.emplace(ranks, static_cast<int>(texts_.size()));
    if (is_new) texts_.push_back(text_of(ranks));
    return at->second;
  }
  Json of_all(const std::vector<Contribution>& contributions) {
    Json numbers = Json::array();
    for (const Contribution& ranks : contributions) numbers.push_back(of(ranks));
    return numbers;
  }
  const Json& texts() const { return texts_; }

 private:
  // "0-2,5"; a rank that stands twice is listed twice.
  static std::string text_of(const Contribution& ranks) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size();) {
      std::size_t end = i + 1;
      while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
      text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
      if (end - i > 1) text += "-" + std::to_string(ranks[end - 1]);
      i = end;
    }
    return text;
  }

  std::map<Contribution, int> numbers_{{{}, 0}};
  Json texts_ = Json::array({""});
};

// Rank by rank and block by block.
class ExactRecording {
 public:
  explicit ExactRecording(std::span<const Lowered> programs) : programs_(programs), player_(programs) {}

  void record(Json& document) {
    Json places = {"input", "output"};
    for (std::size_t plane = 0; plane < most_planes(); ++plane) places.push_back("scratch " + std::to_string(plane));
    Json start = Json::array(), wanted = Json::array(), frames = Json::array();
    for (const RankState& rank : player_.ranks()) start.push_back(sets_.of_all(rank.input));
    for (int rank = 0; rank < first().ranks; ++rank) {
      Json row = Json::array();
      for (int block = 0; block < first().blocks; ++block) row.push_back(sets_.of(player_.wanted(rank, block)));
      wanted.push_back(std::move(row));
    }
    std::vector<RankState> before = player_.ranks();
    for (Round round = player_.advance(); !round.fired.empty(); round = player_.advance()) {
      frames.push_back(frame_of(round, before));
      before = player_.ranks();
    }
    document["sets"] = sets_.texts();
    document["places"] = std::move(places);
    document["start"] = std::move(start);
    document["wanted"] = std::move(wanted);
    document["frames"] = std::move(frames);
    document["stuck"] = json_of_stuck(programs_, player_);
  }

 private:
  const Program& first() const { return programs_.front().program; }

  std::size_t most_planes() const {
    std::size_t planes = 0;
    for (const RankState& rank : player_.ranks()) planes = std::max(planes, rank.scratch.size());
    return planes;
  }

  Json frame_of(const Round& round, const std::vector<RankState>& before) {
    Json fired = Json::array(), moves = Json::array();
    Packed writes(4), taken(2);
    const std::vector<std::size_t> left = left_of_inboxes(round);
    for (std::size_t i = 0, end = 0; i < round.fired.size(); i = end) {
      const StepPlace& first_of_run = round.fired[i];
      for (end = i + 1; end < round.fired.size(); ++end) {
        const bool next_rank = round.fired[end].rank == first_of_run.rank + static_cast<int>(end - i);
        if (!next_rank || round.fired[end].lane != first_of_run.lane) break;
      }
      for (const int number : {first_of_run.rank, static_cast<int>(end - i), first_of_run.lane})
        fired.push_back(number);
    }
    for (const Transfer& transfer : round.transfers) {
      const auto [from, to] = ends_of(transfer);
      Json move = {static_cast<int>(transfer.kind), from, to};
      for (const int block : transfer.blocks) move.push_back(block);
      moves.push_back(std::move(move));
    }
    for (std::size_t at = 0; at < before.size(); ++at) {
      const RankState &old = before[at], &now = player_.ranks()[at];
      const int rank = static_cast<int>(at);
      add_writes(writes, rank, 0, old.input, now.input);
      add_writes(writes, rank, 1, old.output, now.output);
      for (std::size_t plane = 0; plane < now.scratch.size(); ++plane)
        add_writes(writes, rank, 2 + static_cast<int>(plane), old.scratch[plane], now.scratch[plane]);
      add_taken(taken, rank, old.inbox, std::span(now.inbox).first(left[at]));
    }
    return {{"ops", ops_of(programs_, round.fired)},
            {"fired", std::move(fired)},
            {"moves", std::move(moves)},
            {"writes", writes.numbers()},
            {"taken", taken.numbers()},
            {"come", come_of(round, left)}};
  }

  void add_writes(Packed& writes, int rank, int place, const std::vector<Contribution>& before,
                  const std::vector<Contribution>& now) {
    for (std::size_t block = 0; block < now.size(); ++block) {
      if (now[block] != before[block]) writes.add({rank, place, static_cast<int>(block), sets_.of(now[block])});
    }
  }

  // By rank: how many messages were there before the round and still are. What came in it stands behind them.
  std::vector<std::size_t> left_of_inboxes(const Round& round) const {
    std::vector<std::size_t> left;
    for (const RankState& rank : player_.ranks()) left.push_back(rank.inbox.size());
    for (const Transfer& transfer : round.transfers) {
      if (transfer.kind == Transfer::Kind::message) --left[static_cast<std::size_t>(transfer.peer)];
    }
    return left;
  }

  // Where each of those that went stood when those before it had gone.
  static void add_taken(Packed& taken, int rank, const std::vector<PlayedMessage>& before,
                        std::span<const PlayedMessage> left) {
    std::size_t kept = 0;
    for (const PlayedMessage& message : before) {
      if (kept < left.size() && left[kept] == message) {
        ++kept;
      } else {
        taken.add({rank, static_cast<int>(kept)});
      }
    }
  }

  // What each message of the round holds, in the order of its moves, which have its ends and its blocks.
  Json come_of(const Round& round, std::vector<std::size_t> next) {
    Json come = Json::array();
    for (const Transfer& transfer : round.transfers) {
      if (transfer.kind != Transfer::Kind::message) continue;
      const auto to = static_cast<std::size_t>(transfer.peer);
      const PlayedMessage& message = player_.ranks()[to].inbox[next[to]++];
      Json words = {message.channel};
      for (const Contribution& contents : message.contents) words.push_back(sets_.of(contents));
      come.push_back(std::move(words));
    }
    return come;
  }

  std::span<const Lowered> programs_;
  Player player_;
  Sets sets_;
};

// Groups of ranks and blocks, for more than anybody could look at one by one.
class GroupedRecording {
 public:
  explicit GroupedRecording(std::span<const Lowered> programs)
      : programs_(programs),
        player_(programs),
        ranks_each_((first().ranks + kMostDrawn - 1) / kMostDrawn),
        blocks_each_((first().blocks + kMostDrawn - 1) / kMostDrawn) {}

  void record(Json& document) {
    int rounds = 0;
    for (Player ahead(programs_); !ahead.advance().fired.empty();) ++rounds;
    const int each = std::max(1, (rounds + kMostFrames - 1) / kMostFrames);
    cells_ = cells();
    Json start = Json::array(), frames = Json::array();
    for (const std::vector<Cell>& row : cells_) {
      Json cells = Json::array();
      for (const Cell& cell : row) cells.push_back({cell.share, cell.complete});
      start.push_back(std::move(cells));
    }
    for (int round = 0; round < rounds; round += each) frames.push_back(frame_of(std::min(each, rounds - round)));
    document["rounds_per_frame"] = each;
    document["groups"] = {{"ranks", ranks_each_}, {"blocks", blocks_each_}};
    document["start"] = std::move(start);
    document["frames"] = std::move(frames);
    document["stuck"] = json_of_stuck(programs_, player_);
  }

 private:
  struct Cell {
    int share = 0, complete = 0;  // in a hundred
    bool operator==(const Cell&) const = default;
  };

  const Program& first() const { return programs_.front().program; }

  Json frame_of(int rounds) {
    std::map<std::tuple<int, int, int>, int> moved;  // blocks
    std::vector<StepPlace> fired;
    for (int i = 0; i < rounds; ++i) {
      const Round round = player_.advance();
      fired.insert(fired.end(), round.fired.begin(), round.fired.end());
      for (const Transfer& transfer : round.transfers) {
        const auto [from, to] = ends_of(transfer);
        moved[{static_cast<int>(transfer.kind), from / ranks_each_, to / ranks_each_}] +=
            static_cast<int>(transfer.blocks.size());
      }
    }
    Json moves = Json::array(), changes = Json::array();
    for (const auto& [key, blocks] : moved) {
      const auto& [kind, from, to] = key;
      moves.push_back({kind, from, to, blocks});
    }
    const std::vector<std::vector<Cell>> now = cells();
    for (std::size_t row = 0; row < now.size(); ++row) {
      for (std::size_t column = 0; column < now[row].size(); ++column) {
        const Cell& cell = now[row][column];
        if (cell == cells_[row][column]) continue;
        for (const std::size_t number : {row, column}) changes.push_back(number);
        for (const int number : {cell.share, cell.complete}) changes.push_back(number);
      }
    }
    cells_ = now;
    return {{"ops", ops_of(programs_, fired)}, {"moves", std::move(moves)}, {"cells", std::move(changes)}};
  }

  std::vector<std::vector<Cell>> cells() const {
    const int rows = (first().ranks + ranks_each_ - 1) / ranks_each_;
    const int columns = (first().blocks + blocks_each_ - 1) / blocks_each_;
    std::vector<std::vector<Cell>> cells(static_cast<std::size_t>(rows));
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column)
        cells[static_cast<std::size_t>(row)].push_back(cell(row, column));
    }
    return cells;
  }

  Cell cell(int row, int column) const {
    double share = 0, complete = 0, all = 0;
    for (int rank = row * ranks_each_; rank < std::min(first().ranks, (row + 1) * ranks_each_); ++rank) {
      for (int block = column * blocks_each_; block < std::min(first().blocks, (column + 1) * blocks_each_); ++block) {
        const auto held = static_cast<double>(player_.held(rank, block).size());
        const auto wanted = static_cast<double>(player_.wanted(rank, block).size());
        ++all;
        share += std::min(1.0, held / std::max(wanted, 1.0));
        complete += player_.complete(rank, block) ? 1 : 0;
      }
    }
    return {static_cast<int>(std::lround(100 * share / all)), static_cast<int>(std::floor(100 * complete / all))};
  }

  std::span<const Lowered> programs_;
  Player player_;
  int ranks_each_, blocks_each_;
  std::vector<std::vector<Cell>> cells_;
};

}  // namespace

Json played_json(std::span<const Lowered> programs, std::uint64_t bytes) {
  schedule::require_program_set(programs);
  const Program& first = programs.front().program;
  if (first.ranks > kMostPlayed)
    throw Error(ErrorCode::invalid_argument, std::to_string(first.ranks) + " ranks are more than the " +
                                                 std::to_string(kMostPlayed) + " that are played: view fewer (-n)");
  Json document = {{"version", kViewVersion},
                   {"kind", "schedule"},
                   {"verb", name_of(first.verb)},
                   {"algorithm", first.algorithm},
                   {"ranks", first.ranks},
                   {"root", first.root},
                   {"rooted", schedule::facts_of(first.verb).rooted},
                   {"blocks", first.blocks},
                   {"bytes", bytes},
                   {"block_bytes", static_cast<double>(bytes) / first.blocks},
                   {"hosts", Json::array()},
                   {"rounds_per_frame", 1}};
  for (int rank = 0; rank < first.ranks; ++rank) document["hosts"].push_back(programs.front().offers.hosts.of(rank));
  document["proof"] = json_of_proof(programs);
  document["words"] = document["texts"] = document["programs"] = Json::array();
  if (first.ranks <= kMostDrawn) add_programs(document, programs);
  document["start"] = document["wanted"] = document["frames"] = Json::array();
  try {
    if (first.ranks <= kMostDrawn && first.blocks <= 2 * kMostDrawn) {
      ExactRecording(programs).record(document);
    } else {
      GroupedRecording(programs).record(document);
    }
  } catch (const Error& error) {  // a program that names what does not exist: the proof tells of it as well
    document["stuck"] = {error.what()};
  }
  return document;
}

}  // namespace tutti::view
