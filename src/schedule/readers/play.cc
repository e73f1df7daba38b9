#include "schedule/readers/play.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "schedule/fold.h"
#include "schedule/readers/firing.h"
#include "schedule/verbs.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// Input that a rank gives to the collective.
bool gives_input(const Program& program, int block) {
  if (program.rank != program.root && facts_of(program.verb).reads_input_at_root_only) return false;
  return holds_block(program, Buffer::input, program.rank, block);
}

void add(Contribution& sum, const Contribution& addend) {
  const auto middle = static_cast<std::ptrdiff_t>(sum.size());
  sum.insert(sum.end(), addend.begin(), addend.end());
  std::inplace_merge(sum.begin(), sum.begin() + middle, sum.end());
}

}  // namespace

Player::Player(std::span<const Lowered> programs) : programs_(programs) {
  require_program_set(programs);
  for (const Lowered& lowered : programs) {
    const Program& program = lowered.program;
    const auto blocks = static_cast<std::size_t>(program.blocks);
    RankState state;
    state.input.resize(blocks);
    for (std::size_t block = 0; block < blocks; ++block) {
      if (gives_input(program, static_cast<int>(block))) state.input[block] = {program.rank};
    }
    state.output.resize(blocks);
    state.scratch.assign(static_cast<std::size_t>(program.scratch_planes), std::vector<Contribution>(blocks));
    state.next_step.resize(program.lanes.size());
    ranks_.push_back(std::move(state));
    for (const Lane& lane : program.lanes) {
      for (const Step& step : lane.steps) require_sound(program.rank, step);
    }
  }
}

Round Player::advance() {
  Round round;
  std::vector<Effect> effects;
  for (const StepPlace& head : stuck()) {
    if (ready(head)) effects.push_back(evaluate(head));
  }
  for (const Effect& effect : effects) take_messages(effect);
  for (const Effect& effect : effects) {
    deliver(effect, round);
    const StepPlace& place = effect.place;
    ++ranks_[static_cast<std::size_t>(place.rank)].next_step[static_cast<std::size_t>(place.lane)];
    round.fired.push_back(place);
  }
  return round;
}

std::vector<StepPlace> Player::stuck() const {
  std::vector<StepPlace> heads;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::vector<Lane>& lanes = programs_[rank].program.lanes;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const std::size_t next = ranks_[rank].next_step[lane];
      if (next < lanes[lane].steps.size()) {
        heads.push_back({static_cast<int>(rank), static_cast<int>(lane), static_cast<int>(next)});
      }
    }
  }
  return heads;
}

Contribution Player::wanted(int rank, int block) const {
  const Program& first = programs_.front().program;
  if (!holds_block(first, Buffer::output, rank, block)) return {};
  const Promised promise = promised(first, rank, block);
  if (promise.contributors == 0) return {promise.from_rank};
  Contribution wanted(static_cast<std::size_t>(promise.contributors));
  std::iota(wanted.begin(), wanted.end(), 0);
  return wanted;
}

bool Player::complete(int rank, int block) const {
  const Contribution sought = wanted(rank, block);
  return !sought.empty() && ranks_[static_cast<std::size_t>(rank)].output[static_cast<std::size_t>(block)] == sought;
}

const Contribution& Player::held(int rank, int block) const {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const auto at = static_cast<std::size_t>(block);
  if (!state.output[at].empty()) return state.output[at];
  const Contribution* best = &state.input[at];
  for (const std::vector<Contribution>& plane : state.scratch) {
    if (plane[at].size() > best->size()) best = &plane[at];
  }
  return *best;
}

const Step& Player::step_at(const StepPlace& place) const {
  return program(place.rank).lanes[static_cast<std::size_t>(place.lane)].steps[static_cast<std::size_t>(place.step)];
}

std::vector<Contribution>& Player::memory(int rank, const Operand& operand) {
  const int owner = operand.rank.resolve(rank, program(rank).ranks);  // of own memory: rank + 0
  RankState& state = ranks_[static_cast<std::size_t>(owner)];
  switch (operand.buffer) {
    case Buffer::input: return state.input;
    case Buffer::output: return state.output;
    case Buffer::scratch: break;
  }
  return state.scratch[operand.plane];
}

std::vector<int> Player::blocks_of(int rank, const BlockSet& blocks) const {
  const int modulus = program(rank).blocks;
  std::vector<int> numbers;
  for (int i = 0; i < blocks.count; ++i) {
    numbers.push_back(blocks.at(i, rank, modulus));
  }
  return numbers;
}

const PlayedMessage* Player::oldest(int rank, int from, int channel) const {
  const std::vector<PlayedMessage>& inbox = ranks_[static_cast<std::size_t>(rank)].inbox;
  const auto matches = [&](const PlayedMessage& message) { return message.from == from && message.channel == channel; };
  const auto found = std::find_if(inbox.begin(), inbox.end(), matches);
  return found == inbox.end() ? nullptr : &*found;
}

// What a rank sees when a round begins. One segment is played, and all ranks have entered.
struct Player::Seen {
  const Player& player;
  int rank;

  int peer_of(const Index& index) const { return index.resolve(rank, player.program(rank).ranks); }
  bool entered(const Wait&) const { return true; }
  bool finished(const Wait& wait) const {
    const RankState& peer = player.ranks_[static_cast<std::size_t>(peer_of(wait.rank))];
    return peer.next_step[static_cast<std::size_t>(wait.lane)] > static_cast<std::size_t>(wait.step);
  }
  bool has_come(const Operand& source) const {
    return player.oldest(rank, peer_of(source.rank), source.channel) != nullptr;
  }
  bool has_credit(const Operand& destination) const {
    const int to = peer_of(destination.rank);
    const std::vector<PlayedMessage>& inbox = player.ranks_[static_cast<std::size_t>(to)].inbox;
    const auto mine = [&](const PlayedMessage& message) {
      return message.from == rank && message.channel == destination.channel;
    };
    return std::count_if(inbox.begin(), inbox.end(), mine) < player.programs_.front().offers.of(rank, to).credits;
  }
  bool heard_all() const { return player.heard_all(rank); }
};

bool Player::ready(const StepPlace& place) const {
  return first_unmet(step_at(place), 0, program(place.rank).hears_first, Seen{*this, place.rank}).may_fire();
}

// Whether a message from every rank that sends to this one has come.
bool Player::heard_all(int rank) const {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  for (const Lane& lane : program(rank).lanes) {
    for (const Step& step : lane.steps) {
      for (const Operand& source : step.sources) {
        if (!is_slot(source)) continue;
        const int from = source.rank.resolve(rank, program(rank).ranks);
        const auto by = [&](const PlayedMessage& message) { return message.from == from; };
        const bool here = std::any_of(state.inbox.begin(), state.inbox.end(), by);
        if (!here && std::find(state.heard.begin(), state.heard.end(), from) == state.heard.end()) return false;
      }
    }
  }
  return true;
}

Player::Effect Player::evaluate(const StepPlace& place) {
  const Step& step = step_at(place);
  Effect effect{place, {}, {}};
  if (const Operand* sized = sized_operand(step)) effect.blocks = blocks_of(place.rank, sized->blocks);
  effect.contents.resize(effect.blocks.size());
  for (const Operand& source : step.sources) {
    if (is_slot(source)) {
      const int from = source.rank.resolve(place.rank, program(place.rank).ranks);
      const PlayedMessage& message = *oldest(place.rank, from, source.channel);
      const std::size_t blocks = std::min(message.contents.size(), effect.contents.size());
      for (std::size_t i = 0; i < blocks; ++i) add(effect.contents[i], message.contents[i]);
    } else {
      const std::vector<int> blocks = blocks_of(place.rank, source.blocks);
      const std::vector<Contribution>& from = memory(place.rank, source);
      for (std::size_t i = 0; i < blocks.size(); ++i)
        add(effect.contents[i], from[static_cast<std::size_t>(blocks[i])]);
    }
  }
  return effect;
}

void Player::take_messages(const Effect& effect) {
  const int rank = effect.place.rank;
  for (const Operand& source : step_at(effect.place).sources) {
    if (!is_slot(source)) continue;
    std::vector<PlayedMessage>& inbox = ranks_[static_cast<std::size_t>(rank)].inbox;
    const PlayedMessage* taken = oldest(rank, source.rank.resolve(rank, program(rank).ranks), source.channel);
    if (taken == nullptr) continue;
    ranks_[static_cast<std::size_t>(rank)].heard.push_back(taken->from);
    inbox.erase(inbox.begin() + (taken - inbox.data()));
  }
}

void Player::deliver(const Effect& effect, Round& round) {
  const int rank = effect.place.rank;
  const Step& step = step_at(effect.place);
  for (const Operand& source : step.sources) {
    if (source.kind != Operand::Kind::window) continue;
    const int peer = source.rank.resolve(rank, program(rank).ranks);
    if (peer != rank) round.transfers.push_back({Transfer::Kind::load, rank, peer, effect.blocks});
  }
  for (const Operand& destination : step.destinations) {
    const int peer = destination.rank.resolve(rank, program(rank).ranks);
    if (is_slot(destination)) {
      ranks_[static_cast<std::size_t>(peer)].inbox.push_back(
          {rank, destination.channel, effect.blocks, effect.contents});
      round.transfers.push_back({Transfer::Kind::message, rank, peer, effect.blocks});
      continue;
    }
    const std::vector<int> blocks = blocks_of(rank, destination.blocks);
    std::vector<Contribution>& to = memory(rank, destination);
    for (std::size_t i = 0; i < blocks.size(); ++i) to[static_cast<std::size_t>(blocks[i])] = effect.contents[i];
    if (peer != rank) round.transfers.push_back({Transfer::Kind::store, rank, peer, effect.blocks});
  }
}

void Player::require_sound(int rank, const Step& step) const {
  const auto fail = [&](const char* what) {
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(rank) + " has a step that names " + what + " that does not exist");
  };
  const Operand* sized = sized_operand(step);
  const std::size_t blocks = sized == nullptr ? 0 : static_cast<std::size_t>(sized->blocks.count);
  for (const auto* operands : {&step.destinations, &step.sources}) {
    for (const Operand& operand : *operands) require_sound(rank, operand, blocks);
  }
  for (const Wait& wait : step.waits) {
    const int peer = wait.rank.resolve(rank, program(rank).ranks);
    if (peer < 0 || peer >= program(rank).ranks) fail("a rank");
    if (wait.lane == Wait::kEntryLane) continue;
    const std::vector<Lane>& lanes = program(peer).lanes;
    if (wait.lane < 0 || static_cast<std::size_t>(wait.lane) >= lanes.size()) fail("a lane");
    const std::vector<Step>& steps = lanes[static_cast<std::size_t>(wait.lane)].steps;
    if (wait.step < 0 || static_cast<std::size_t>(wait.step) >= steps.size()) fail("a step");
  }
}

void Player::require_sound(int rank, const Operand& operand, std::size_t blocks) const {
  const auto require = [&](bool holds, const char* what) {
    if (!holds)
      throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank) + " has an operand with " + what);
  };
  const int peer = operand.rank.resolve(rank, program(rank).ranks);
  require(peer >= 0 && peer < program(rank).ranks, "a rank that does not exist");
  if (is_slot(operand)) return require(blocks != 0, "no size: a message needs an operand beside it that names blocks");
  const std::vector<std::int32_t>& list = operand.blocks.list;
  const int first = list.empty() ? operand.blocks.first.resolve(rank, program(rank).blocks)
                                 : *std::min_element(list.begin(), list.end());
  require(list.empty() || list.size() == static_cast<std::size_t>(operand.blocks.count),
          "blocks that it does not list");
  require(list.empty() || *std::max_element(list.begin(), list.end()) < program(rank).blocks,
          "a block that does not exist");
  require(first >= 0 && first < program(rank).blocks, "a block that does not exist");
  require(operand.blocks.count >= 1 && static_cast<std::size_t>(operand.blocks.count) == blocks,
          "another number of blocks than its step");
  for (const int block : blocks_of(rank, operand.blocks)) {
    require(holds_block(program(rank), operand.buffer, peer, block), "a block that its buffer does not hold");
  }
  require(operand.buffer != Buffer::scratch || operand.plane < program(peer).scratch_planes,
          "a scratch plane that does not exist");
}

}  // namespace tutti::schedule
