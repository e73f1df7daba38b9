// A schedule: what one rank does in a collective, as plain data.
//
// A Program is a value. It is generated for one rank without its peers' programs, lowered to what a transport offers
// (lower.h), and then only read: by the executor, the verifier, describe and the JSON form.
//
// Words. A call moves a vector, or one *chunk* per rank; verbs.h says which and what each buffer holds. It is cut into
// *segments* (pipelined pieces) of `blocks` *blocks*: a block is a share of a vector's segment, or one chunk's part of
// the segment. layout.h says where each lies once the count is known. A *step* is
//
//     destinations <- op(sources)
//
// over *operands*: Own memory, a Window onto a peer's memory, or a Slot, which is a message: as a destination it is
// sent to the rank, as a source it is received from it, matched first-in-first-out per (source, destination, channel).
// The steps of a *lane* run in order, once per segment; lanes of a rank interleave freely. A lane that is `published`
// shows its progress to all ranks, and a Wait of a step names (rank, lane, step) there; a rank's own lanes are in its
// sight anyway.
//
// A step fires when all its waits hold, all its source slots hold a message and all its destination slots have a
// credit. Every operand of a step covers the same number of elements; a slot takes its size from the other operands,
// and so does scratch where chunks differ in size: each of its blocks is as large as the largest.
//
// A program that `hears_first` has one more rule: a step that writes the output waits until a message from every rank
// that sends to this one is here. The message need not have been taken, only its fingerprint is looked at, so that a
// rank with many senders keeps its output intact where one of them turns out to be in another call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/types.h"

namespace tutti::schedule {

// X(name, symbol, meaning): the operations of a step; enum, names, JSON and legends come from here.
#define TUTTI_STEP_OPS(X)                                                                         \
  X(copy, "<-", "every destination receives the source")                                          \
  X(reduce, "<+", "every destination receives the sources reduced in canonical order, as listed") \
  X(wait, "..", "nothing moves: the lane goes on when the waits hold")

enum class StepOp : std::uint8_t {
#define X(name, symbol, meaning) name,
  TUTTI_STEP_OPS(X)
#undef X
};

// X(name, meaning)
// Scratch has the shape of one segment, `scratch_planes` times, `scratch_depth` deep: segment s uses copy s mod depth.
#define TUTTI_BUFFERS(X)                \
  X(input, "what the caller gives")     \
  X(output, "what the caller receives") \
  X(scratch, "memory of the operation")

enum class Buffer : std::uint8_t {
#define X(name, meaning) name,
  TUTTI_BUFFERS(X)
#undef X
};

// A rank or block number, written relative to the program's rank where possible, so that ranks that do the same thing
// have the same text: absolute value, (rank + value) mod n, or rank xor value.
struct Index {
  enum class Base : std::uint8_t { absolute, plus, exclusive_or };

  Base base = Base::absolute;
  std::int32_t value = 0;

  static constexpr Index absolute(int value) { return {Base::absolute, value}; }
  static constexpr Index plus(int value) { return {Base::plus, value}; }
  static constexpr Index exclusive_or(int value) { return {Base::exclusive_or, value}; }

  constexpr int resolve(int rank, int modulus) const {
    switch (base) {
      case Base::absolute: return value;
      case Base::plus: {
        const std::int64_t sum = (std::int64_t{rank} + value) % modulus;  // values from files may be any
        return static_cast<int>(sum < 0 ? sum + modulus : sum);
      }
      case Base::exclusive_or: return rank ^ value;
    }
    return value;
  }

  bool operator==(const Index&) const = default;
};

// Blocks first + (i / run) * stride + i mod run for i < count, in this order and modulo Program::blocks: runs of `run`
// neighbours, `stride` apart, of which the last may be cut short. Or, where there is a list, the `count` blocks of it.
struct BlockSet {
  Index first;
  std::int32_t stride = 1;
  std::int32_t count = 1;
  std::int32_t run = 1;
  std::vector<std::int32_t> list = {};

  // The number of block i, for the program of `rank`.
  constexpr int at(int i, int rank, int blocks) const {
    if (!list.empty()) return list[static_cast<std::size_t>(i)];
    const std::int64_t offset = std::int64_t{i / run} * stride + i % run;
    return static_cast<int>(((first.resolve(rank, blocks) + offset) % blocks + blocks) % blocks);
  }

  bool operator==(const BlockSet&) const = default;
};

struct Operand {
  enum class Kind : std::uint8_t { own, window, slot };

  Kind kind = Kind::own;
  Index rank;                     // window, slot: the peer
  Buffer buffer = Buffer::input;  // own, window
  std::uint8_t plane = 0;         // own, window onto scratch
  BlockSet blocks;                // own, window
  std::uint8_t channel = 0;       // slot: of those between the two ranks, each with its own order of messages

  static Operand own(Buffer buffer, BlockSet blocks, int plane = 0) {
    return {Kind::own, Index::plus(0), buffer, static_cast<std::uint8_t>(plane), std::move(blocks)};
  }
  static Operand window(Index rank, Buffer buffer, BlockSet blocks, int plane = 0) {
    return {Kind::window, rank, buffer, static_cast<std::uint8_t>(plane), std::move(blocks)};
  }
  static Operand slot(Index rank, int channel = 0) {
    return {Kind::slot, rank, Buffer::scratch, 0, {}, static_cast<std::uint8_t>(channel)};
  }

  bool operator==(const Operand&) const = default;
};

// Wait until `rank` has finished `step` of its `lane`, for the segment `segments_back` before this one (which holds
// trivially before the first segment). kEntryLane asks only that the rank has entered the call.
struct Wait {
  static constexpr int kEntryLane = -1;

  Index rank;
  std::int32_t lane = 0;
  std::int32_t step = 0;
  std::int32_t segments_back = 0;

  bool operator==(const Wait&) const = default;
};

struct Step {
  StepOp op = StepOp::copy;
  bool last = false;  // reduce: the results are final, so average divides here
  std::vector<Operand> destinations;
  std::vector<Operand> sources;
  std::vector<Wait> waits;

  bool operator==(const Step&) const = default;
};

// A rank shows the progress of these lanes, the first of its program, and of so many steps: its flags have room for no
// more.
inline constexpr int kPublishedLanes = 3;
inline constexpr int kPublishedStepBits = 12;

struct Lane {
  std::string name;
  bool published = false;
  std::vector<Step> steps;

  bool operator==(const Lane&) const = default;
};

struct Program {
  Verb verb = Verb::all_reduce;
  std::string algorithm;
  std::int32_t ranks = 1;
  std::int32_t rank = 0;
  std::int32_t root = 0;  // of a verb that has one; for send_recv the sender
  std::int32_t blocks = 1;
  std::int32_t message_blocks = 0;  // blocks of the largest message that any rank sends, the same on all ranks
  std::int32_t scratch_planes = 0;
  std::int32_t scratch_depth = 1;
  // Planes that lowering may add where messages have to land: the most on any rank, the same on all; 0 once lowered.
  std::int32_t landing_planes = 0;
  std::int32_t landing_across = -1;  // of these, where only messages between hosts have to; -1: as many
  bool hears_first = false;
  std::int32_t channels = 1;  // of an edge, that messages take: the most on any rank, the same on all
  std::vector<Lane> lanes;

  bool operator==(const Program&) const = default;
};

inline bool is_slot(const Operand& operand) { return operand.kind == Operand::Kind::slot; }
inline bool is_user_memory(const Operand& operand) { return !is_slot(operand) && operand.buffer != Buffer::scratch; }

inline bool writes_user(const Step& step) {
  return std::any_of(step.destinations.begin(), step.destinations.end(), is_user_memory);
}

// The operand that gives its step its size: the first in input or output, else the first in scratch; nullptr where
// there is none.
inline const Operand* sized_operand(const Step& step) {
  const Operand* found = nullptr;
  for (const auto* operands : {&step.destinations, &step.sources}) {
    for (const Operand& operand : *operands) {
      if (is_user_memory(operand)) return &operand;
      if (found == nullptr && !is_slot(operand)) found = &operand;
    }
  }
  return found;
}

constexpr std::string_view name_of(StepOp op) {
  constexpr std::string_view kNames[] = {
#define X(name, symbol, meaning) #name,
      TUTTI_STEP_OPS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(op)];
}

constexpr std::string_view symbol_of(StepOp op) {
  constexpr std::string_view kSymbols[] = {
#define X(name, symbol, meaning) symbol,
      TUTTI_STEP_OPS(X)
#undef X
  };
  return kSymbols[static_cast<std::size_t>(op)];
}

constexpr std::string_view name_of(Buffer buffer) {
  constexpr std::string_view kNames[] = {
#define X(name, meaning) #name,
      TUTTI_BUFFERS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(buffer)];
}

}  // namespace tutti::schedule
