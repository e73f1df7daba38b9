// A plan: a lowered program compiled for one channel of one transport, with pointers where the program has numbers.
//
// Immutable once made, but for the places of the call before, and made once per (algorithm, root, channel); counts and
// buffers are bound per call.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/execute/places.h"
#include "schedule/lower.h"
#include "trace/event.h"
#include "transport/transport.h"

namespace tutti::engine {

// How a word of progress is divided below its epoch.
inline constexpr int kStepBits = schedule::kPublishedStepBits, kSegmentBits = 32 - kStepBits;
static_assert(schedule::kPublishedLanes == transport::Flags::kLanes);

// A channel of a transport, and how far beyond it the one for the messages of a program's next channel is.
struct PlanChannel {
  int first = 0;
  int stride = 1;

  int of_slot(const schedule::Operand& slot) const { return first + slot.channel * stride; }
};

struct PlanWait {
  const std::atomic<std::uint64_t>* word = nullptr;  // nullptr: the rank has entered the call
  std::uint32_t step = 0;
  std::uint32_t segments_back = 0;
  int rank = 0;
};

struct PlanOperand {
  schedule::Operand::Kind kind{};
  schedule::Buffer buffer{};
  int rank = 0;
  std::uint32_t plane = 0;
  bool alone = false;                       // its buffer holds only the owner's own chunk
  std::uint32_t receiver_number = 0;        // slot as source: in Plan::receivers
  std::byte* scratch = nullptr;             // own or window onto scratch
  transport::Sender* sender = nullptr;      // slot as destination
  transport::Receiver* receiver = nullptr;  // slot as source
  std::uint8_t channel = 0;                 // slot: of the program
  bool stream = false;                      // slot: the message leaves from own memory, or lands there
  bool single_copy = false;                 // and stays in the sender's until its receiver has copied it

  bool is_peers_buffer() const {
    return kind == schedule::Operand::Kind::window && buffer != schedule::Buffer::scratch;
  }
};

// Blocks first .. first + blocks - 1, contiguous, for each operand of the step in turn (slots have none).
struct PlanRun {
  std::uint32_t blocks = 1;
  std::uint32_t first_index = 0;  // into Plan::run_firsts, one entry per operand, destinations first
  std::uint32_t sized_first = 0;  // the first of the blocks that give the run its size
};

// Index ranges into the plan's flat vectors.
struct PlanStep {
  schedule::StepOp op{};
  bool last = false;
  std::uint32_t waits_begin = 0, waits_end = 0;
  std::uint32_t operands_begin = 0, sources_begin = 0, operands_end = 0;
  std::uint32_t runs_begin = 0, runs_end = 0;
  schedule::Buffer sized{};  // the buffer whose blocks give the step its size
  bool has_slots = false;
  bool stream = false;  // its slots are
  bool writes_output = false;
  bool reaches_peers = false;  // loads from buffers of others, or stores to them
  bool fills_outputs = false;  // writes to nothing but outputs, its own or others'
  bool keeps_input = false;    // copies input to the same place of the output: nothing changes where they are one
  bool uniform = true;         // all operands name the same blocks
};

// Whom a step gives to and takes from, for traces.
struct StepPeers {
  trace::RankSet to, from;
  std::uint8_t flags = 0;  // of a trace::TraceEvent
};

struct PlanLane {
  std::uint32_t steps_begin = 0, steps_end = 0;
  std::atomic<std::uint64_t>* progress = nullptr;  // nullptr: nobody waits for it
  bool published = false;                          // other ranks see it
};

struct Plan {
  // `landing_plane`: messages land in this plane of scratch and beyond, if lowering had to find them a place.
  Plan(schedule::Lowered lowered, transport::Transport& transport, PlanChannel channel, const std::vector<int>& members,
       int landing_plane);

  schedule::Lowered lowered;
  std::vector<int> members;  // rank of the program -> rank of the transport
  std::vector<PlanLane> lanes;
  std::vector<PlanStep> steps;
  std::vector<PlanWait> waits;
  std::vector<PlanOperand> operands;
  std::vector<PlanRun> runs;
  std::vector<std::uint32_t> run_firsts;
  std::vector<transport::Sender*> senders;      // of streams: the operation ends when all they took has left
  std::vector<int> sender_ranks;                // whom they send to
  std::vector<transport::Receiver*> receivers;  // of programs that hear first: whom they wait for
  std::vector<int> receiver_ranks;
  std::vector<std::uint32_t> receiver_steps;  // which step takes the first message
  std::uint32_t most_operands = 0;
  std::uint32_t most_pieces = 0;  // of the memory of an operand
  bool uses_flags = false;        // publishes lanes
  bool lanes_wait = false;        // for each other, this rank's or others'
  bool uses_scratch = false;
  bool single_copy = false;  // of some messages
  // Of all steps, once somebody records them; belongs to whoever runs the plan, as what follows.
  mutable std::vector<StepPeers> step_peers;
  void find_peers() const;
  mutable Places places;                                // belongs to whoever runs the plan: its channel's one thread
  std::deque<std::atomic<std::uint64_t>> own_progress;  // of lanes that nobody but this rank waits for

 private:
  std::atomic<std::uint64_t>* progress_of(std::size_t number, transport::Transport& transport);
  void compile_step(const schedule::Lane& lane, std::size_t number, transport::Transport& transport);
  PlanOperand compile_operand(const schedule::Operand& operand, bool source, transport::Transport& transport);
  const schedule::Operand* sizing_operand(const schedule::Lane& lane, std::size_t number) const;
  void compile_runs(const schedule::Lane& lane, std::size_t number, PlanStep& compiled);

  PlanChannel channel_;
  int landing_plane_;
};

}  // namespace tutti::engine
