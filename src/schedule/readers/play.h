// The player: what every rank holds, round by round, when all ranks keep step.
//
// In a round every lane of every rank fires its next step if that is ready in the state the round found. Blocks hold
// the ranks whose input went into them, so that a picture can show how a result comes together. One segment is played;
// timing, races and order of reduction are the verifier's and the simulator's matters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/lower.h"

namespace tutti::schedule {

// The ranks whose input a block holds, ascending; a rank stands twice if it was added twice. Empty: nothing yet.
using Contribution = std::vector<int>;

struct PlayedMessage {
  int from = 0;
  int channel = 0;
  std::vector<int> blocks;  // the sender's numbers of the blocks it carries
  std::vector<Contribution> contents;

  bool operator==(const PlayedMessage&) const = default;
};

struct RankState {
  std::vector<Contribution> input;
  std::vector<Contribution> output;
  std::vector<std::vector<Contribution>> scratch;  // by plane
  std::vector<PlayedMessage> inbox;                // arrived and not yet taken, oldest first
  std::vector<int> heard;                          // whose messages were taken
  std::vector<std::size_t> next_step;              // by lane
};

struct StepPlace {
  int rank = 0;
  int lane = 0;
  int step = 0;

  bool operator==(const StepPlace&) const = default;
};

// Blocks that moved between two ranks. `rank` acts: it sends to, loads from or stores to `peer`.
struct Transfer {
  enum class Kind : std::uint8_t { message, load, store };

  Kind kind = Kind::message;
  int rank = 0;
  int peer = 0;
  std::vector<int> blocks;
};

struct Round {
  std::vector<StepPlace> fired;
  std::vector<Transfer> transfers;
};

class Player {
 public:
  // `programs` stays alive as long as the player. Throws Error(invalid_argument) where an operand or a wait names a
  // rank, block, plane, lane or step that does not exist.
  explicit Player(std::span<const Lowered> programs);

  // Plays one round; a round in which nothing fired means the end, or that the lanes of stuck() wait for ever.
  Round advance();

  const std::vector<RankState>& ranks() const { return ranks_; }
  // The step at which each unfinished lane stands.
  std::vector<StepPlace> stuck() const;
  // What a block of the output of `rank` should hold in the end; empty: nothing is asked of it.
  Contribution wanted(int rank, int block) const;
  bool complete(int rank, int block) const;
  // What a rank has of a block: its output, or before there is any the best of its input and scratch.
  const Contribution& held(int rank, int block) const;

 private:
  struct Seen;

  // What a step that fires will have done when the round ends.
  struct Effect {
    StepPlace place;
    std::vector<int> blocks;
    std::vector<Contribution> contents;
  };

  const Program& program(int rank) const { return programs_[static_cast<std::size_t>(rank)].program; }
  const Step& step_at(const StepPlace& place) const;
  std::vector<Contribution>& memory(int rank, const Operand& operand);
  std::vector<int> blocks_of(int rank, const BlockSet& blocks) const;
  const PlayedMessage* oldest(int rank, int from, int channel) const;
  bool ready(const StepPlace& place) const;
  bool heard_all(int rank) const;
  Effect evaluate(const StepPlace& place);
  void take_messages(const Effect& effect);
  void deliver(const Effect& effect, Round& round);
  void require_sound(int rank, const Step& step) const;
  void require_sound(int rank, const Operand& operand, std::size_t blocks) const;

  std::span<const Lowered> programs_;
  std::vector<RankState> ranks_;
};

}  // namespace tutti::schedule
