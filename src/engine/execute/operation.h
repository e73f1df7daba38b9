// One run of a plan: the executor. Resumable, and free of allocation once it has run a plan of that size.
//
// start() binds a call; advance() runs every step that can fire and says whether the operation has finished, moved or
// is stuck until a peer does something. A step may be started in one advance and done in a later one: a message that
// goes through in parts, or what a device does. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/mix.h"
#include "device/staging.h"
#include "engine/execute/mover.h"
#include "engine/execute/own_operator.h"
#include "engine/execute/plan.h"
#include "kernels/kernels.h"
#include "schedule/layout.h"
#include "trace/recorder.h"
#include "tutti/op.h"

namespace tutti::engine {

struct Binding {
  const std::byte* input = nullptr;  // what each buffer holds: schedule/verbs.h; nullptr where it holds nothing
  std::byte* output = nullptr;
  transport::MemoryRef input_ref = 0;  // of the input, where peers copy from it and nothing else
  std::uint64_t count = 0;             // elements of the vector, or of each chunk
  std::uint64_t stride = 0;            // elements from chunk to chunk; 0: one lies behind the other
  // Chunks of different counts, which stay alive until the operation has finished; `count` is then of no meaning. For
  // programs with a lane per edge the counts of this rank's own buffers are enough; others need those of all ranks,
  // in both. Displacements of a buffer that peers see through windows must be the same on all ranks.
  schedule::Chunks input_chunks = {}, output_chunks = {};
  std::uint32_t element_bytes = 1;
  kernels::ReduceFunction reduce = nullptr;
  const Operator* own = nullptr;  // the caller's operator, in place of `reduce`
  std::uint32_t divisor = 1;
  // Where set, it does what steps do within memory. Not for plans over streams, nor for the caller's operator.
  Mover* mover = nullptr;
  std::uint64_t fingerprint = 0;
  const trace::GroupRecorder* recorder = nullptr;  // where set, it records the steps that are done
  std::uint64_t sequence = 0;                      // of the call: what a trace knows it by
  // Where set, the input is on its way from a device to this place: a step waits for what it touches of it.
  device::Staging* arriving = nullptr;
  const std::byte* arriving_at = nullptr;
  std::uint64_t arriving_bytes = 0;
  bool outgrows_caches = false;  // what goes to outputs need not be kept in them
  std::uint64_t epoch = 0;       // of this channel's flags; unused by plans without flags
  // Addresses of the ranks' buffers in this process, by rank; only read by plans with windows onto them.
  std::byte* const* input_windows = nullptr;
  std::byte* const* output_windows = nullptr;
  // Where set, by rank: the first store to the output, or else the end, waits until all of these have entered this very
  // call. Ranks whose flags are not in sight have nullptr there.
  std::span<transport::Flags* const> gate;
};

enum class Advance : std::uint8_t { stuck, moved, finished };

// What became of a step that was tried: nothing; it has begun, or has come further, but there is more to do; all of it
// is done.
enum class StepOutcome : std::uint8_t { blocked, started, done };

inline constexpr std::uint32_t kNoLane = ~std::uint32_t{0};

// What a rank waits for: a value, so that asking costs no text.
struct Blocked {
  enum class On : std::uint8_t { nothing, entry, retirement, progress, message, credit, device };

  On on = On::nothing;
  int peer = -1;
  std::uint32_t lane = kNoLane, step = 0;  // progress, message and credit: where in this rank's program
  std::uint64_t segment = 0;
};

// The value of a published lane: grows over all operations of a channel, and compares right across its wrap-around as
// long as the two epochs are less than 2^31 apart.
inline std::uint64_t progress_word(std::uint64_t epoch, std::uint64_t segment, std::uint32_t steps_done) {
  return (epoch << 32) | (segment << kStepBits) | steps_done;
}

class Operation {
 public:
  // Rounds over the lanes in one advance where messages are copied once.
  static constexpr int kSingleCopyRounds = 4;

  explicit Operation(transport::Transport& transport) : transport_(&transport) {}

  // The binding must last until the operation has finished, and may be asked about until another one starts.
  void start(const Plan& plan, const Binding& binding);
  Advance advance() { return records() ? advance_lanes<true>() : advance_lanes<false>(); }

  // What the first stuck lane waits for.
  Blocked blocked() const;
  // The rank whose message or entry belongs to another call, or -1.
  int mismatched_peer() const { return mismatched_peer_; }
  // Whether the caller's output is no longer what it was.
  bool touched_output() const { return touched_output_; }
  const Plan* plan() const { return plan_; }
  // Elements at the beginning of the vector, or of each chunk, that no step of this rank touches any more.
  std::uint64_t elements_done() const;
  // Of one that has finished: the recorder's time when its last step was done, where nothing came behind that; else 0.
  std::uint64_t ended_at() const { return records() ? ended_at_ : 0; }

 private:
  struct LaneHead {
    std::uint64_t segment = 0;
    std::uint64_t segments = 0;
    std::uint32_t step = 0;  // index into the plan's steps
    std::uint32_t sent = 0;  // streams: destinations of the step that are done
    bool started = false;    // the step: what it waited for is not asked again
  };

  std::uint64_t segments_of(const PlanLane& lane) const;
  template <bool kRecords>
  Advance advance_lanes();
  bool records() const { return binding_->recorder != nullptr && binding_->recorder->steps; }
  std::uint64_t record(std::size_t lane, std::uint64_t last) const;
  StepOutcome try_step(const PlanStep& step, LaneHead& head);
  StepOutcome run(const PlanStep& step, LaneHead& head);
  // To the next step of the lane: the one at its head is done.
  void go_on(const PlanLane& lane, LaneHead& head) {
    ++head.step;
    head.sent = 0;
    head.started = false;
    if (lane.progress != nullptr) {
      lane.progress->store(progress_word(binding_->epoch, head.segment, head.step - lane.steps_begin),
                           std::memory_order_release);
      if (lane.published) transport_->notify_all();
    }
    if (head.step != lane.steps_end) return;
    head.step = lane.steps_begin;
    if (++head.segment == head.segments) --lanes_left_;
  }
  bool has_lost_peers(const PlanStep& step) const;
  bool input_is_there(const PlanStep& step, std::uint64_t segment) const;
  bool may_write();
  bool gate_opens();
  int first_outside() const;
  bool hears_all();
  // Once all lanes are done. A rank that has nothing to write has yet to see that all are in this very call: flags
  // alone could be those of another.
  bool ends() {
    const bool flushed = flush();
    return (gate_open_ || gate_opens()) && flushed;
  }
  bool flush() {
    bool flushed = true;
    for (transport::Sender* sender : plan_->senders) flushed = sender->try_flush() && flushed;
    return flushed;
  }
  bool waits_hold(const PlanStep& step, std::uint64_t segment) const;
  bool wait_holds(const PlanWait& wait, std::uint64_t segment) const;
  bool is_done(const LaneHead& head, const PlanLane& lane) const {
    return head.segment == head.segments || lane.steps_begin == lane.steps_end;
  }

  // operation_step.cc: how a step moves its bytes
  StepOutcome try_short(const PlanStep& step);
  StepOutcome try_long(const PlanStep& step, std::uint64_t segment);
  StepOutcome try_elsewhere(const PlanStep& step, const LaneHead& head);
  StepOutcome try_stream(const PlanStep& step, LaneHead& head);
  StepOutcome send_stream(const PlanStep& step, LaneHead& head, std::uint64_t bytes);
  void copy_within(const PlanStep& step, std::uint32_t destination, std::uint64_t segment);
  StepOutcome receive_stream(const PlanStep& step, const PlanOperand& source, std::uint64_t segment,
                             std::uint64_t bytes);
  std::span<const transport::Piece> pieces_of(const PlanStep& step, std::uint32_t operand, std::uint64_t segment);
  std::byte* open_slot(const PlanStep& step, const PlanOperand& operand, std::uint64_t bytes);
  bool open_slots(const PlanStep& step, std::uint64_t segment);
  void close_slots(const PlanStep& step);
  void note_touched(const PlanStep& step, std::uint64_t segment);
  template <class Use>
  void for_each_stretch(const PlanStep& step, std::uint64_t segment, Use&& use);
  void run_pieces(const PlanStep& step, std::uint64_t count);
  void copy(const PlanStep& step, std::span<void* const> destinations, const void* source, std::uint64_t count) const;
  void reduce(const PlanStep& step, std::span<void* const> destinations, std::span<void* const> sources,
              std::uint64_t count) const;
  // What a message of this call carries, so that its receiver knows it: where counts differ, also how long its chunks
  // are as a whole, so that the first segment already tells whether both ends mean the same.
  std::uint64_t mark_of(const PlanStep& step) const {
    return layout().uneven() ? mix(binding_->fingerprint, chunk_elements(step)) : binding_->fingerprint;
  }
  std::uint64_t chunk_elements(const PlanStep& step) const;
  std::uint64_t step_bytes(const PlanStep& step, std::uint64_t segment) const;
  template <class Visit>
  void for_each_run(const PlanStep& step, std::uint64_t segment, Visit&& visit) const;
  bool changes_nothing(const PlanStep& step, std::uint64_t segment) const;
  const schedule::Layout& layout() const { return places_->layout; }
  std::byte* base_of(const PlanOperand& operand) const;
  std::byte* address(const PlanOperand& operand, std::uint64_t segment, std::uint64_t begin) const;

  transport::Transport* transport_;
  const Plan* plan_ = nullptr;
  const Binding* binding_ = nullptr;
  const Places* places_ = nullptr;  // the plan's, fitted to this call
  std::vector<LaneHead> heads_;
  std::vector<std::uint64_t> started_at_;  // by lane, where that is recorded: when its step was started
  std::uint64_t ended_at_ = 0;             // likewise: the end of the last step, and of all
  std::vector<std::byte*> slots_;          // per operand of the step at hand, for slots
  std::vector<void*> pieces_;              // per operand of the step at hand, the address of the piece at hand
  std::vector<transport::Piece> stream_;   // the pieces of a message
  OwnReduction own_reduction_;
  std::vector<std::uint8_t> heard_;  // by receiver of the plan: a message of it was here
  std::uint32_t lanes_left_ = 0;
  int mismatched_peer_ = -1;
  bool gate_open_ = false;
  bool heard_all_ = false;  // or need not
  bool touched_output_ = false;
};

}  // namespace tutti::engine
