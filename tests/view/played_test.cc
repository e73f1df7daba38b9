// What the page plays is what the interpreter plays: every frame, forwards, for every algorithm.
#include "tools/view/played.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "golden/programs.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/play.h"
#include "tools/view/packed.h"
#include "tutti/error.h"

namespace tutti::view {
namespace {

using schedule::Algorithm;
using schedule::Contribution;
using schedule::Lowered;
using schedule::Player;
using schedule::RankState;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kBytes = 1 << 20;

// "0-2,5"
Contribution set_of(const std::string& text) {
  Contribution ranks;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const int first = std::stoi(part), last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

// What packed.h packs.
std::vector<std::vector<std::size_t>> unpacked(const Json& packed, std::size_t width) {
  std::vector<std::vector<std::size_t>> rows;
  std::vector<int> row(width);
  const auto numbers = packed.get<std::vector<int>>();
  for (std::size_t i = 0; i < numbers.size(); i += width + 1) {
    for (int left = numbers.at(i); left > 0; --left) {
      for (std::size_t at = 0; at < width; ++at) row[at] += numbers.at(i + 1 + at);
      rows.emplace_back(row.begin(), row.end());
    }
  }
  return rows;
}

std::string text_of(const Json& document, std::size_t number) {
  const Json& parts = document.at("texts").at(number);
  const Json& words = document.at("words").at(parts.at(0).get<std::size_t>());
  std::string text = words.at(0);
  for (std::size_t i = 1; i < words.size(); ++i) text += parts.at(i).dump() + words[i].get<std::string>();
  return text;
}

// Memory and messages as the frames have them, one after the other.
class Replay {
 public:
  explicit Replay(const Json& document) : document_(document) {
    for (const Json& text : document.at("sets")) sets_.push_back(set_of(text));
    const auto blocks = document.at("blocks").get<std::size_t>();
    for (const Json& row : document.at("start")) {
      RankState& rank = ranks_.emplace_back();
      rank.input = contributions(row);
      rank.output.resize(blocks);
      rank.scratch.assign(document.at("places").size() - 2, std::vector<Contribution>(blocks));
    }
  }

  void advance() {
    const Json& frame = document_.at("frames").at(next_++);
    for (const std::vector<std::size_t>& write : unpacked(frame.at("writes"), 4)) {
      RankState& rank = ranks_.at(write[0]);
      const std::size_t place = write[1];
      std::vector<Contribution>& memory = place == 0   ? rank.input
                                          : place == 1 ? rank.output
                                                       : rank.scratch.at(place - 2);
      memory.at(write[2]) = sets_.at(write[3]);
    }
    for (const std::vector<std::size_t>& taken : unpacked(frame.at("taken"), 2)) {
      std::vector<schedule::PlayedMessage>& inbox = ranks_.at(taken[0]).inbox;
      ASSERT_LT(taken[1], inbox.size());
      inbox.erase(inbox.begin() + static_cast<std::ptrdiff_t>(taken[1]));
    }
    auto come = frame.at("come").begin();
    for (const Json& move : frame.at("moves")) {
      if (move.at(0) == 0) receive(move.get<std::vector<int>>(), (come++)->get<std::vector<int>>());
    }
    EXPECT_EQ(come, frame.at("come").end());
  }

  std::vector<Contribution> contributions(const Json& numbers) const {
    std::vector<Contribution> sets;
    for (const std::size_t number : numbers) sets.push_back(sets_.at(number));
    return sets;
  }
  const std::vector<RankState>& ranks() const { return ranks_; }

 private:
  void receive(const std::vector<int>& move, const std::vector<int>& words) {
    schedule::PlayedMessage& message = ranks_.at(static_cast<std::size_t>(move.at(2))).inbox.emplace_back();
    message.from = move.at(1);
    message.channel = words.at(0);
    message.blocks.assign(move.begin() + 3, move.end());
    message.contents = contributions(std::vector<int>(words.begin() + 1, words.end()));
  }

  const Json& document_;
  std::size_t next_ = 0;
  std::vector<Contribution> sets_;
  std::vector<RankState> ranks_;
};

void expect_same(const RankState& replayed, const RankState& played, const std::string& what) {
  EXPECT_EQ(replayed.input, played.input) << what;
  EXPECT_EQ(replayed.output, played.output) << what;
  for (std::size_t plane = 0; plane < played.scratch.size(); ++plane)
    EXPECT_EQ(replayed.scratch.at(plane), played.scratch[plane]) << what;
  ASSERT_EQ(replayed.inbox.size(), played.inbox.size()) << what;
  for (std::size_t i = 0; i < played.inbox.size(); ++i) {
    EXPECT_EQ(replayed.inbox[i].from, played.inbox[i].from) << what;
    EXPECT_EQ(replayed.inbox[i].channel, played.inbox[i].channel) << what;
    EXPECT_EQ(replayed.inbox[i].blocks, played.inbox[i].blocks) << what;
    EXPECT_EQ(replayed.inbox[i].contents, played.inbox[i].contents) << what;
  }
}

using Lanes = std::vector<std::pair<int, int>>;  // rank and lane

Lanes fired_of(const Json& frame) {
  Lanes lanes;
  const auto words = frame.at("fired").get<std::vector<int>>();
  for (std::size_t i = 0; i < words.size(); i += 3) {
    for (int next = 0; next < words[i + 1]; ++next) lanes.emplace_back(words[i] + next, words[i + 2]);
  }
  return lanes;
}

Lanes lanes_of(const schedule::Round& round) {
  Lanes lanes;
  for (const schedule::StepPlace& place : round.fired) lanes.emplace_back(place.rank, place.lane);
  return lanes;
}

void expect_as_played(const std::vector<Lowered>& programs, const std::string& what) {
  const Json document = played_json(programs, kBytes);
  Player player(programs);
  Replay replay(document);
  const Json& frames = document.at("frames");
  for (std::size_t round = 0;; ++round) {
    const std::string when = what + " after " + std::to_string(round);
    for (std::size_t rank = 0; rank < player.ranks().size(); ++rank)
      expect_same(replay.ranks().at(rank), player.ranks()[rank], when + " at rank " + std::to_string(rank));
    const schedule::Round played = player.advance();
    if (played.fired.empty()) {
      EXPECT_EQ(round, frames.size()) << what;
      break;
    }
    ASSERT_LT(round, frames.size()) << what;
    EXPECT_EQ(frames[round].at("moves").size(), played.transfers.size()) << when;
    EXPECT_EQ(fired_of(frames[round]), lanes_of(played)) << when;
    replay.advance();
  }
  EXPECT_TRUE(document.at("stuck").empty()) << what;
  EXPECT_TRUE(document.at("proof").at("verified")) << what << document.at("proof").dump();
  for (int rank = 0; rank < document.at("ranks").get<int>(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    EXPECT_EQ(replay.contributions(document.at("wanted").at(at)), player.ranks()[at].output) << what;
  }
}

TEST(PlayedJson, IsWhatTheInterpreterPlays) {
  for (const Algorithm& row : schedule::algorithms()) {
    for (const int ranks : {1, 2, 3, 4, 8, 9}) {
      if (!schedule::takes(row, ranks)) continue;
      for (const Offers& offers :
           {schedule::offers_everything(), schedule::offers_streams(), schedule::offers_on_two_hosts(ranks)}) {
        if (!schedule::why_not(row, {ranks, 0, 0}, offers).empty()) continue;
        expect_as_played(
            schedule::programs_of(row, ranks, offers, ranks / 2),
            std::string(name_of(row.verb)) + " by " + std::string(row.name) + ", " + std::to_string(ranks) + " ranks");
      }
    }
  }
}

TEST(Packed, TellsRunsOfRowsThatGrowAlike) {
  Packed packed(2);
  for (const std::vector<int>& row : {std::vector{5, 0}, {6, 0}, {7, 0}, {3, 1}}) packed.add(row);
  const Json numbers = packed.numbers();
  EXPECT_EQ(numbers, Json({1, 5, 0, 2, 1, 0, 1, -4, 1}));
  EXPECT_THAT(unpacked(numbers, 2),
              ElementsAre(ElementsAre(5, 0), ElementsAre(6, 0), ElementsAre(7, 0), ElementsAre(3, 1)));
  EXPECT_EQ(Packed(3).numbers(), Json::array());
}

TEST(PlayedJson, TellsTheStepsOfARingInWords) {
  const auto programs =
      schedule::programs_of(*schedule::find_algorithm(Verb::all_reduce, "ring"), 4, schedule::offers_everything());
  const Json document = played_json(programs, kBytes);
  EXPECT_EQ(document.at("block_bytes"), kBytes / 4);
  ASSERT_EQ(document.at("programs").size(), 1U) << "all ranks do the same";
  EXPECT_EQ(document.at("programs")[0].at("ranks"), "0-3");
  const Json& steps = document.at("programs")[0].at("lanes")[0].at("steps");
  EXPECT_EQ(text_of(document, steps.at(0)), "copy  →rank+1  <-  input[rank]");
  EXPECT_EQ(document.at("frames")[0].at("moves")[0], Json({0, 0, 1, 0})) << "rank 0 sends its block to rank 1";
}

TEST(PlayedJson, TellsTheSameStepOnce) {
  const auto programs =
      schedule::programs_of(*schedule::find_algorithm(Verb::reduce, "binomial"), 8, schedule::offers_everything());
  const Json document = played_json(programs, kBytes);
  std::size_t steps = 0;
  std::set<std::string> texts;
  for (const Json& program : document.at("programs")) {
    for (const Json& lane : program.at("lanes")) {
      for (const std::size_t text : lane.at("steps")) texts.insert(text_of(document, text));
      steps += lane.at("steps").size();
    }
  }
  EXPECT_EQ(texts.size(), document.at("texts").size());
  EXPECT_GT(steps, texts.size()) << "ranks of a tree share steps";
}

TEST(PlayedJson, LoadsGoTheWayOfTheData) {
  const auto programs =
      schedule::programs_of(*schedule::find_algorithm(Verb::broadcast, "direct"), 3, schedule::offers_everything(), 1);
  const Json document = played_json(programs, kBytes);
  int loads = 0;
  for (const Json& frame : document.at("frames")) {
    for (const Json& move : frame.at("moves")) {
      loads += move.at(0) == 1 ? 1 : 0;
      EXPECT_EQ(move.at(1), 1) << "all comes from the root";
    }
  }
  EXPECT_EQ(loads, 2);
}

TEST(PlayedJson, ShowsWhatDoesNotVerifyWithItsStory) {
  auto programs =
      schedule::programs_of(*schedule::find_algorithm(Verb::all_reduce, "ring"), 4, schedule::offers_everything());
  programs[2].program.lanes[0].steps.erase(programs[2].program.lanes[0].steps.begin());
  const Json document = played_json(programs, kBytes);
  EXPECT_FALSE(document.at("proof").at("verified"));
  EXPECT_FALSE(document.at("proof").at("problems").empty());
  EXPECT_FALSE(document.at("frames").empty()) << "played as far as it goes";
  EXPECT_THAT(document.at("stuck").dump(), HasSubstr("waits at ring."));
}

TEST(PlayedJson, OfProgramsThatNameWhatDoesNotExistHasNoFrames) {
  auto programs =
      schedule::programs_of(*schedule::find_algorithm(Verb::all_reduce, "ring"), 4, schedule::offers_everything());
  programs[1].program.lanes[0].steps[1].sources[1].blocks.first = schedule::Index::absolute(9);
  const Json document = played_json(programs, kBytes);
  EXPECT_TRUE(document.at("frames").empty());
  EXPECT_EQ(document.at("proof").at("problems")[0].at("kind"), "malformed");
}

TEST(PlayedJson, ManyRanksComeInGroups) {
  const auto programs =
      schedule::programs_of(*schedule::find_algorithm(Verb::all_reduce, "ring"), 130, schedule::offers_everything());
  const Json document = played_json(programs, kBytes);
  EXPECT_EQ(document.at("groups").at("ranks"), 3);
  EXPECT_EQ(document.at("rounds_per_frame"), 3) << "259 rounds";
  EXPECT_EQ(document.at("start").size(), 44U);
  std::map<std::pair<int, int>, std::pair<int, int>> cells;
  for (const Json& frame : document.at("frames")) {
    const auto changes = frame.at("cells").get<std::vector<int>>();
    for (std::size_t i = 0; i < changes.size(); i += 4)
      cells[{changes[i], changes[i + 1]}] = {changes[i + 2], changes[i + 3]};
  }
  EXPECT_EQ(cells.size(), 44U * 44U);
  for (const auto& [where, cell] : cells) EXPECT_EQ(cell, std::pair(100, 100)) << where.first << "," << where.second;
  int blocks = 0;
  for (const Json& frame : document.at("frames")) {
    for (const Json& move : frame.at("moves")) blocks += move.at(3).get<int>();
  }
  EXPECT_EQ(blocks, 2 * 129 * 130) << "every rank sends a block in all rounds but the last";
}

TEST(PlayedJson, RefusesMoreRanksThanArePlayed) {
  const auto programs = schedule::programs_of(*schedule::find_algorithm(Verb::barrier, "dissemination"), 513,
                                              schedule::offers_everything());
  EXPECT_THROW(played_json(programs, kBytes), Error);
}

}  // namespace
}  // namespace tutti::view
