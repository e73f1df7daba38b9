// The programs of all ranks side by side, every index resolved: what the verifier runs.
//
// A plan exists only for well-formed programs: ranks, blocks, planes, lanes and steps are in range, operands of a step
// have equal sizes, no step overlaps itself, and every channel of an edge has one sending and one receiving lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/readers/verify.h"
#include "schedule/readers/verify_problems.h"

namespace tutti::schedule::verification {

inline std::size_t index_of(int number) { return static_cast<std::size_t>(number); }

struct PlannedOperand {
  Operand::Kind kind;
  int rank;  // own, window: whose memory; slot: the peer
  Buffer buffer;
  int plane;
  std::vector<int> blocks;  // own, window
  int edge = -1;            // slot: number in VerifyPlan::edges
};

inline bool is_slot(const PlannedOperand& operand) { return operand.kind == Operand::Kind::slot; }

struct PlannedWait {
  int rank;
  int lane;  // number in VerifyPlan::lanes, or Wait::kEntryLane
  int step;
  std::uint64_t segments_back;
};

struct PlannedStep {
  StepOp op;
  bool last;
  std::vector<PlannedOperand> destinations;
  std::vector<PlannedOperand> sources;
  std::vector<PlannedWait> waits;
  std::vector<int> blocks;   // of an operand that names them: they give every operand its sizes
  bool writes_user = false;  // some rank's input or output
};

inline bool writes_user(const PlannedStep& step) { return step.writes_user; }

struct PlannedLane {
  int rank;
  int number;  // in its program
  const Lane* lane;
  std::vector<PlannedStep> steps;
};

struct PlannedEdge {
  int from;
  int to;
  std::uint32_t credits;
  std::uint64_t slot_bytes;  // 0 = any size
  bool single_copy;          // its messages are read where the sender has them, when they are received
  int sender = -1;           // lanes, -1 where nobody does
  int receiver = -1;
};

struct VerifyPlan {
  std::span<const Lowered> programs;
  const Program* any = nullptr;  // what all programs agree on: verb, root, blocks, depth
  int ranks = 0;
  bool in_place = false;
  bool user_windows = false;  // onto some rank's input or output
  std::uint32_t credits = 0;  // of every edge; 0 = as it offers
  Layout layout;
  std::vector<PlannedLane> lanes;  // rank after rank
  std::vector<int> first_lane;     // per rank, and one past the last
  std::vector<bool> awaited;       // by lane: some step waits for it
  std::vector<PlannedEdge> edges;

  const EdgeOffers& offers(int from, int to) const { return programs[0].offers.of(from, to); }
  std::uint64_t size(std::uint64_t segment, int block) const {
    return layout.size(segment, static_cast<std::uint64_t>(block));
  }
  // Whether input and output of `rank` have this block in the same memory.
  bool shares(int rank, int block) const {
    return in_place && holds_block(*any, Buffer::input, rank, block) && holds_block(*any, Buffer::output, rank, block);
  }
};

// Empty where a problem was found.
std::optional<VerifyPlan> make_plan(std::span<const Lowered> programs, const VerifyOptions& options,
                                    Problems& problems);

// The same of rank 0's program alone: edges know only its own end.
std::optional<VerifyPlan> make_plan_of_one(const Lowered& first, const VerifyOptions& options, Problems& problems);

}  // namespace tutti::schedule::verification
