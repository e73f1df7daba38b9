#include "engine/execute/operation.h"

#include <algorithm>
#include <string>

#include "tutti/error.h"

namespace tutti::engine {

using schedule::Buffer;
using schedule::StepOp;

namespace {

void require_movable(const Plan& plan, const Binding& binding) {
  const bool streams = std::any_of(plan.steps.begin(), plan.steps.end(), [](const PlanStep& s) { return s.stream; });
  if (!streams && binding.own == nullptr) return;
  throw Error(ErrorCode::unsupported,
              std::string("a device takes no ") + (streams ? "messages of streams" : "operator of the caller's"));
}

}  // namespace

void Operation::start(const Plan& plan, const Binding& binding) {
  plan_ = &plan;
  binding_ = &binding;
  const schedule::Program& program = plan.lowered.program;
  if (binding.input_chunks.counts != nullptr || binding.output_chunks.counts != nullptr) {
    plan.places.fit_uneven(plan, binding.input_chunks, binding.output_chunks, binding.element_bytes);
  } else {
    plan.places.fit(plan, binding.count, binding.stride, binding.element_bytes);
  }
  places_ = &plan.places;
  if (binding.mover != nullptr) require_movable(plan, binding);
  heads_.resize(plan.lanes.size());
  if (records()) {
    started_at_.resize(plan.lanes.size());
    ended_at_ = 0;
    plan.find_peers();
  }
  slots_.resize(plan.most_operands);
  pieces_.resize(plan.most_operands);
  stream_.resize(plan.most_pieces);
  lanes_left_ = 0;
  mismatched_peer_ = -1;
  gate_open_ = binding.gate.empty();
  touched_output_ = false;
  heard_all_ = !program.hears_first;
  heard_.assign(heard_all_ ? 0 : plan.receivers.size(), 0);
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    heads_[i] = {.segment = 0, .segments = segments_of(plan.lanes[i]), .step = plan.lanes[i].steps_begin};
    if ((plan.uses_flags || plan.lanes_wait) && heads_[i].segments >> kSegmentBits != 0) {
      throw Error(ErrorCode::unsupported,
                  "a call of " + std::to_string(heads_[i].segments) + " segments is too large for its flags");
    }
    if (plan.lanes[i].steps_begin != plan.lanes[i].steps_end) ++lanes_left_;
    // What only this rank sees begins anew: calls without flags may all have the same epoch.
    if (plan.lanes[i].progress != nullptr && !plan.lanes[i].published)
      plan.lanes[i].progress->store(progress_word(binding.epoch, 0, 0), std::memory_order_relaxed);
  }
}

// A lane runs as many segments as the largest chunk it names needs, so that a rank which knows only its own counts runs
// as many as the peer at the other end of the lane. Lanes that wait for each other all run as many as the largest.
std::uint64_t Operation::segments_of(const PlanLane& lane) const {
  if (!layout().uneven()) return layout().segments;
  std::uint64_t most = 1;
  const auto count_in = [&](const schedule::Chunks& chunks, std::uint32_t block) {
    if (chunks.counts != nullptr) most = std::max(most, layout().segments_of(chunks.counts[block]));
  };
  if (plan_->uses_flags || plan_->lanes_wait) {
    for (std::uint32_t block = 0; block < layout().blocks; ++block) {
      count_in(layout().input, block);
      count_in(layout().output, block);
    }
    return most;
  }
  for (std::uint32_t s = lane.steps_begin; s < lane.steps_end; ++s) {
    const PlanStep& step = plan_->steps[s];
    for (std::uint32_t r = step.runs_begin; r < step.runs_end; ++r) {
      const PlanRun& run = plan_->runs[r];
      for (std::uint32_t i = 0; i < run.blocks; ++i) {
        count_in(step.sized == Buffer::output ? layout().output : layout().input, run.sized_first + i);
      }
    }
  }
  return most;
}

template <bool kRecords>
Advance Operation::advance_lanes() {
  bool moved = false;
  int rounds = 0;
  // Between the end of a step and that of the next there are only looks at heads that are not ready.
  std::uint64_t last = kRecords ? binding_->recorder->recorder->now() : 0;
  for (bool again = lanes_left_ != 0; again;) {
    again = false;
    // A copy out of a peer's memory takes long, and this rank's own messages must go on meanwhile: who only receives
    // keeps its peer waiting, which then only receives, and so on in turns.
    if (plan_->single_copy && ++rounds > kSingleCopyRounds) break;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      LaneHead& head = heads_[i];
      const PlanLane& lane = plan_->lanes[i];
      if (is_done(head, lane)) continue;
      const StepOutcome outcome = try_step(plan_->steps[head.step], head);
      if (outcome == StepOutcome::blocked) continue;
      moved = true;
      if (outcome == StepOutcome::started) {
        if (kRecords && !head.started) started_at_[i] = last;
        head.started = true;
        continue;
      }
      again = true;
      if (kRecords) last = record(i, last);
      go_on(lane, head);
      if (lanes_left_ == 0) {
        if (!ends()) return Advance::moved;
        if (kRecords) ended_at_ = last;
        return Advance::finished;
      }
    }
  }
  if (lanes_left_ == 0) {
    if (ends()) return Advance::finished;
  } else {
    flush();  // what a peer waits for must not lie here while this rank waits for that peer
  }
  return moved ? Advance::moved : Advance::stuck;
}

template Advance Operation::advance_lanes<false>();
template Advance Operation::advance_lanes<true>();

// Before anybody is told that the step is done: a trace never lacks what a peer has seen. Returns when it was done.
std::uint64_t Operation::record(std::size_t lane, std::uint64_t last) const {
  const LaneHead& head = heads_[lane];
  const StepPeers& peers = plan_->step_peers[head.step];
  trace::Recorder& recorder = *binding_->recorder->recorder;
  const std::uint64_t now = recorder.now();
  recorder.record({.kind = trace::EventKind::step,
                   .what = static_cast<std::uint8_t>(plan_->steps[head.step].op),
                   .flags = peers.flags,
                   .communicator = binding_->recorder->communicator,
                   .name = static_cast<std::uint16_t>(lane),
                   .sequence = binding_->sequence,
                   .begin = head.started ? started_at_[lane] : last,
                   .end = now,
                   .middle = trace::TraceEvent::which_step(head.step - plan_->lanes[lane].steps_begin, head.segment),
                   .amount = peers.to.word(),
                   .other = peers.from.word()});
  return now;
}

StepOutcome Operation::try_step(const PlanStep& step, LaneHead& head) {
  if (!head.started) {
    if (step.waits_begin != step.waits_end && !waits_hold(step, head.segment)) return StepOutcome::blocked;
    if (step.op == StepOp::wait) return StepOutcome::done;
    if (binding_->arriving != nullptr && !input_is_there(step, head.segment)) [[unlikely]]
      return StepOutcome::blocked;
    if (step.writes_output && !(gate_open_ && heard_all_) && !may_write()) return StepOutcome::blocked;
  }
  if (!step.reaches_peers) return run(step, head);
  // Before anything is stored there, and again once all was loaded.
  if (has_lost_peers(step)) return StepOutcome::blocked;
  const StepOutcome outcome = run(step, head);
  return outcome == StepOutcome::done && has_lost_peers(step) ? StepOutcome::blocked : outcome;
}

// Whether a peer gave up whose buffers the step reaches: they are its caller's again. That happens to a rank that was
// stopped for so long that the others went on without it.
bool Operation::has_lost_peers(const PlanStep& step) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!transport_->given_up()) return false;
  const auto first = plan_->operands.begin();
  return std::any_of(first + step.operands_begin, first + step.operands_end, [&](const PlanOperand& operand) {
    return operand.is_peers_buffer() && transport_->gave_up(operand.rank);
  });
}

StepOutcome Operation::run(const PlanStep& step, LaneHead& head) {
  if (step.stream) return try_stream(step, head);
  if (binding_->mover != nullptr) [[unlikely]]
    return try_elsewhere(step, head);
  if (places_->kept() && step.runs_end - step.runs_begin == 1) return try_short(step);
  return try_long(step, head.segment);
}

bool Operation::may_write() { return (gate_open_ || gate_opens()) && (heard_all_ || hears_all()); }

// Whether a message of this call is here, or was, from every rank that sends to this one.
bool Operation::hears_all() {
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    if (heard_[i] != 0) continue;
    const transport::Arrival arrival = plan_->receivers[i]->hear(mark_of(plan_->steps[plan_->receiver_steps[i]]));
    if (arrival == transport::Arrival::other) mismatched_peer_ = plan_->receiver_ranks[i];
    if (arrival != transport::Arrival::whole) return false;
    heard_[i] = 1;
  }
  return heard_all_ = true;
}

// Flags alone could come from another call. A rank that has gone on to a later one has made this comparison itself.
bool Operation::gate_opens() {
  for (std::size_t rank = 0; rank < binding_->gate.size(); ++rank) {
    if (binding_->gate[rank] == nullptr) continue;
    const transport::Flags& flags = *binding_->gate[rank];
    const std::uint64_t entered = flags.entered.load(std::memory_order_acquire);
    if (entered < binding_->epoch) return false;
    if (entered > binding_->epoch || flags.fingerprint.load(std::memory_order_acquire) == binding_->fingerprint)
      continue;
    // Read while the rank entered a later call?
    if (flags.entered.load(std::memory_order_relaxed) != entered) return false;
    mismatched_peer_ = static_cast<int>(rank);
    return false;
  }
  return gate_open_ = true;
}

bool Operation::waits_hold(const PlanStep& step, std::uint64_t segment) const {
  for (std::uint32_t i = step.waits_begin; i < step.waits_end; ++i) {
    if (!wait_holds(plan_->waits[i], segment)) return false;
  }
  return true;
}

// Entry needs no look: windows onto peers' buffers are bound only after all ranks have entered.
bool Operation::wait_holds(const PlanWait& wait, std::uint64_t segment) const {
  if (wait.word == nullptr || segment < wait.segments_back) return true;
  const std::uint64_t needed = progress_word(binding_->epoch, segment - wait.segments_back, wait.step + 1);
  return static_cast<std::int64_t>(wait.word->load(std::memory_order_acquire) - needed) >= 0;
}

std::uint64_t Operation::elements_done() const {
  std::uint64_t segments = layout().segments;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    if (!is_done(heads_[i], plan_->lanes[i])) segments = std::min(segments, heads_[i].segment);
  }
  return std::min(layout().count, layout().begin_of_segment(segments));
}

Blocked Operation::blocked() const {
  Blocked own;  // by another lane of this rank's, which may itself wait for a peer, or by a device
  for (std::size_t i = 0; plan_ != nullptr && i < heads_.size(); ++i) {
    const LaneHead& head = heads_[i];
    const PlanLane& lane = plan_->lanes[i];
    if (is_done(head, lane)) continue;
    const PlanStep& step = plan_->steps[head.step];
    const auto at = [&](Blocked::On on, int peer) {
      return Blocked{on, peer, static_cast<std::uint32_t>(i), head.step - lane.steps_begin, head.segment};
    };
    if (binding_->arriving != nullptr && !head.started && !input_is_there(step, head.segment))
      return at(Blocked::On::device, -1);
    bool waits = false;
    for (std::uint32_t w = step.waits_begin; w < step.waits_end; ++w) {
      if (wait_holds(plan_->waits[w], head.segment)) continue;
      const Blocked found = at(Blocked::On::progress, plan_->waits[w].rank);
      if (found.peer != transport_->rank()) return found;
      if (own.on == Blocked::On::nothing) own = found;
      waits = true;
    }
    if (waits) continue;
    if (head.started && !step.stream) {  // by a device
      own = at(Blocked::On::device, -1);
      continue;
    }
    for (std::uint32_t o = step.operands_begin + head.sent; o < step.operands_end; ++o) {
      const PlanOperand& operand = plan_->operands[o];
      if (operand.receiver != nullptr && !operand.receiver->ready()) return at(Blocked::On::message, operand.rank);
      if (operand.sender != nullptr && !operand.sender->has_credit()) return at(Blocked::On::credit, operand.rank);
    }
    if (const int missing = step.writes_output ? first_outside() : -1; missing >= 0) {
      return at(Blocked::On::entry, missing);
    }
    for (std::size_t r = 0; step.writes_output && !heard_all_ && r < heard_.size(); ++r) {
      if (heard_[r] == 0 && !plan_->receivers[r]->ready()) return at(Blocked::On::message, plan_->receiver_ranks[r]);
    }
  }
  for (std::size_t s = 0; plan_ != nullptr && s < plan_->senders.size(); ++s) {
    if (!plan_->senders[s]->try_flush()) return {Blocked::On::credit, plan_->sender_ranks[s], kNoLane, 0, 0};
  }
  if (const int missing = plan_ != nullptr ? first_outside() : -1; missing >= 0)
    return {Blocked::On::entry, missing, kNoLane, 0, 0};
  return own;
}

// The first rank that has not entered, where that is waited for; -1: there is none.
int Operation::first_outside() const {
  for (std::size_t rank = 0; !gate_open_ && rank < binding_->gate.size(); ++rank) {
    const transport::Flags* const flags = binding_->gate[rank];
    if (flags != nullptr && flags->entered.load(std::memory_order_acquire) < binding_->epoch)
      return static_cast<int>(rank);
  }
  return -1;
}

}  // namespace tutti::engine
