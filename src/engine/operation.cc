#include "engine/operation.h"

#include <string>

#include "tutti/error.h"

namespace tutti::engine {

using schedule::Buffer;
using schedule::Operand;
using schedule::Range;
using schedule::StepOp;

void Operation::start(const Plan& plan, const Binding& binding) {
  plan_ = &plan;
  binding_ = binding;
  const schedule::Program& program = plan.lowered.program;
  layout_ = schedule::Layout::make(binding.count, binding.element_bytes, static_cast<std::uint32_t>(program.blocks),
                                   plan.lowered.segment_bytes);
  if (plan.uses_flags && layout_.segments >> kSegmentBits != 0) {
    throw Error(ErrorCode::unsupported,
                "a vector of " + std::to_string(layout_.segments) + " segments is too large for one call");
  }
  scratch_copy_bytes_ = layout_.segment_count * binding.element_bytes;
  heads_.resize(plan.lanes.size());
  slots_.resize(plan.most_operands);
  pieces_.resize(plan.most_operands);
  stream_.resize(plan.most_runs);
  lanes_left_ = 0;
  mismatched_peer_ = -1;
  gate_open_ = binding.gate.empty();
  touched_output_ = false;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    heads_[i] = {0, plan.lanes[i].steps_begin, 0};
    if (plan.lanes[i].steps_begin != plan.lanes[i].steps_end) ++lanes_left_;
  }
}

Advance Operation::advance() {
  bool moved = false;
  partly_ = false;
  for (bool again = lanes_left_ != 0; again;) {
    again = false;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      LaneHead& head = heads_[i];
      const PlanLane& lane = plan_->lanes[i];
      if (head.segment == layout_.segments || lane.steps_begin == lane.steps_end) continue;
      if (!try_step(plan_->steps[head.step], head)) continue;
      again = moved = true;
      ++head.step;
      head.sent = 0;
      if (lane.published != nullptr) {
        lane.published->store(progress_word(binding_.epoch, head.segment, head.step - lane.steps_begin),
                              std::memory_order_release);
        transport_->notify_all();
      }
      if (head.step == lane.steps_end) {
        head = {head.segment + 1, lane.steps_begin, 0};
        if (head.segment == layout_.segments && --lanes_left_ == 0) {
          return flush() ? Advance::finished : Advance::moved;
        }
      }
    }
  }
  // What a peer waits for must not lie here while this rank waits for that peer.
  const bool flushed = flush();
  if (lanes_left_ == 0 && flushed) return Advance::finished;
  return moved || partly_ ? Advance::moved : Advance::stuck;
}

bool Operation::flush() {
  bool flushed = true;
  for (transport::Sender* sender : plan_->senders) flushed = sender->try_flush() && flushed;
  return flushed;
}

bool Operation::try_step(const PlanStep& step, LaneHead& head) {
  if (step.waits_begin != step.waits_end && !waits_hold(step, head.segment)) return false;
  if (step.op == StepOp::wait) return true;
  if (step.writes_output && !gate_open_ && !gate_opens()) return false;
  if (step.stream) return try_stream(step, head);
  if (step.has_slots && !open_slots(step, head.segment)) return false;
  if (step.writes_output && !(step.keeps_input && binding_.input == binding_.output)) touched_output_ = true;
  run_step(step, head.segment);
  if (step.has_slots) close_slots(step);
  return true;
}

// Flags alone could come from another call. A rank that has gone on to a later one has made this comparison itself.
bool Operation::gate_opens() {
  for (std::size_t rank = 0; rank < binding_.gate.size(); ++rank) {
    const transport::Flags& flags = *binding_.gate[rank];
    const std::uint64_t entered = flags.entered.load(std::memory_order_acquire);
    if (entered < binding_.epoch) return false;
    if (entered > binding_.epoch || flags.fingerprint.load(std::memory_order_acquire) == binding_.fingerprint) continue;
    // Read while the rank entered a later call?
    if (flags.entered.load(std::memory_order_relaxed) != entered) return false;
    mismatched_peer_ = static_cast<int>(rank);
    return false;
  }
  return gate_open_ = true;
}

bool Operation::try_stream(const PlanStep& step, LaneHead& head) {
  const std::uint64_t bytes = step_bytes(step, head.segment);
  const PlanOperand& source = plan_->operands[step.sources_begin];
  if (source.receiver != nullptr) return receive_stream(step, source, head.segment, bytes);
  return send_stream(step, head, bytes);
}

bool Operation::send_stream(const PlanStep& step, LaneHead& head, std::uint64_t bytes) {
  for (; step.operands_begin + head.sent < step.sources_begin; ++head.sent) {
    const std::uint32_t destination = step.operands_begin + head.sent;
    const PlanOperand& operand = plan_->operands[destination];
    if (operand.sender == nullptr) {
      copy_within(step, destination, head.segment);
      continue;
    }
    const auto pieces = pieces_of(step, step.sources_begin, head.segment);
    if (!operand.sender->try_send(pieces, bytes, binding_.fingerprint)) return false;
    partly_ = true;
  }
  return true;
}

// One destination of a message's source that is memory of this rank.
void Operation::copy_within(const PlanStep& step, std::uint32_t destination, std::uint64_t segment) {
  if (step.keeps_input && binding_.input == binding_.output) return;
  touched_output_ = touched_output_ || step.writes_output;
  for (std::uint32_t r = step.runs_begin; r < step.runs_end; ++r) {
    const PlanRun& run = plan_->runs[r];
    const std::uint32_t* firsts = &plan_->run_firsts[run.first_index];
    const auto place = [&](std::uint32_t operand) {
      const Range range = layout_.blocks_from(segment, firsts[operand - step.operands_begin], run.blocks);
      return std::pair(address(plan_->operands[operand], segment, range.begin), range.count * binding_.element_bytes);
    };
    const auto [source, bytes] = place(step.sources_begin);
    void* const target = place(destination).first;
    if (bytes != 0 && target != source) kernels::copy(&target, 1, source, bytes);
  }
}

bool Operation::receive_stream(const PlanStep& step, const PlanOperand& source, std::uint64_t segment,
                               std::uint64_t bytes) {
  const auto pieces = pieces_of(step, step.operands_begin, segment);
  const transport::Arrival arrival = source.receiver->try_receive(pieces, bytes, binding_.fingerprint);
  if (arrival == transport::Arrival::other) mismatched_peer_ = source.rank;
  if (arrival == transport::Arrival::moved) partly_ = true;
  if (arrival == transport::Arrival::moved || arrival == transport::Arrival::whole) {
    touched_output_ = touched_output_ || step.writes_output;
  }
  return arrival == transport::Arrival::whole;
}

// The memory of one operand of a step, run by run.
std::span<const transport::Piece> Operation::pieces_of(const PlanStep& step, std::uint32_t operand,
                                                       std::uint64_t segment) {
  std::size_t count = 0;
  for (std::uint32_t r = step.runs_begin; r < step.runs_end; ++r) {
    const PlanRun& run = plan_->runs[r];
    const std::uint32_t first = plan_->run_firsts[run.first_index + (operand - step.operands_begin)];
    const Range range = layout_.blocks_from(segment, first, run.blocks);
    if (range.count == 0) continue;
    stream_[count++] = {address(plan_->operands[operand], segment, range.begin), range.count * binding_.element_bytes};
  }
  return {stream_.data(), count};
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
  const std::uint64_t needed = progress_word(binding_.epoch, segment - wait.segments_back, wait.step + 1);
  return static_cast<std::int64_t>(wait.word->load(std::memory_order_acquire) - needed) >= 0;
}

std::uint64_t Operation::step_bytes(const PlanStep& step, std::uint64_t segment) const {
  std::uint64_t elements = 0;
  for (std::uint32_t r = step.runs_begin; r < step.runs_end; ++r) {
    const PlanRun& run = plan_->runs[r];
    elements += layout_.blocks_from(segment, plan_->run_firsts[run.first_index], run.blocks).count;
  }
  return elements * binding_.element_bytes;
}

bool Operation::open_slots(const PlanStep& step, std::uint64_t segment) {
  const std::uint64_t bytes = step_bytes(step, segment);
  for (std::uint32_t i = step.operands_begin; i < step.operands_end; ++i) {
    const PlanOperand& operand = plan_->operands[i];
    std::byte*& slot = slots_[i - step.operands_begin];
    if (operand.sender != nullptr) {
      slot = operand.sender->try_begin(bytes);
      if (slot == nullptr) return false;
    } else if (operand.receiver != nullptr) {
      std::uint64_t fingerprint = 0;
      slot = const_cast<std::byte*>(operand.receiver->try_begin(bytes, &fingerprint));  // only ever read
      if (slot == nullptr) return false;
      if (fingerprint != binding_.fingerprint) {
        mismatched_peer_ = operand.rank;
        return false;
      }
    }
  }
  return true;
}

void Operation::close_slots(const PlanStep& step) {
  for (std::uint32_t i = step.operands_begin; i < step.operands_end; ++i) {
    const PlanOperand& operand = plan_->operands[i];
    if (operand.sender != nullptr) operand.sender->end(binding_.fingerprint);
    if (operand.receiver != nullptr) operand.receiver->end();
  }
}

std::byte* Operation::address(const PlanOperand& operand, std::uint64_t segment, std::uint64_t begin) const {
  const std::uint64_t bytes = binding_.element_bytes;
  if (operand.buffer == Buffer::scratch) {
    const auto depth = static_cast<std::uint64_t>(plan_->lowered.program.scratch_depth);
    return operand.scratch + (operand.plane * depth + segment % depth) * scratch_copy_bytes_ + begin * bytes;
  }
  const std::uint64_t offset = (layout_.begin_of_segment(segment) + begin) * bytes;
  const bool input = operand.buffer == Buffer::input;
  if (operand.kind == Operand::Kind::own) {
    return input ? const_cast<std::byte*>(binding_.input) + offset
                 : binding_.output + offset;  // input is only ever read
  }
  return (input ? binding_.input_windows : binding_.output_windows)[operand.rank] + offset;
}

void Operation::run_step(const PlanStep& step, std::uint64_t segment) {
  std::uint64_t slot_offset = 0;
  for (std::uint32_t r = step.runs_begin; r < step.runs_end; ++r) {
    const PlanRun& run = plan_->runs[r];
    const std::uint32_t* firsts = &plan_->run_firsts[run.first_index];
    const Range range = layout_.blocks_from(segment, firsts[0], run.blocks);
    if (range.count == 0) continue;
    for (std::uint32_t i = step.operands_begin; i < step.operands_end; ++i) {
      const std::uint32_t k = i - step.operands_begin;
      const PlanOperand& operand = plan_->operands[i];
      if (operand.kind == Operand::Kind::slot) {
        pieces_[k] = slots_[k] + slot_offset;
      } else {
        const std::uint64_t begin =
            step.uniform ? range.begin : layout_.blocks_from(segment, firsts[k], run.blocks).begin;
        pieces_[k] = address(operand, segment, begin);
      }
    }
    run_pieces(step, range.count);
    slot_offset += range.count * binding_.element_bytes;
  }
}

void Operation::run_pieces(const PlanStep& step, std::uint64_t count) {
  void* const* destinations = pieces_.data();
  const std::size_t destination_count = step.sources_begin - step.operands_begin;
  void* const* sources = destinations + destination_count;
  if (step.op == StepOp::reduce) {
    binding_.reduce(destinations, destination_count, const_cast<const void* const*>(sources),
                    step.operands_end - step.sources_begin, count, step.last ? binding_.divisor : 1);
    return;
  }
  kernels::copy(destinations, destination_count, sources[0], count * binding_.element_bytes);
}

Blocked Operation::blocked() const {
  for (std::size_t i = 0; plan_ != nullptr && i < heads_.size(); ++i) {
    const LaneHead& head = heads_[i];
    const PlanLane& lane = plan_->lanes[i];
    if (head.segment == layout_.segments || lane.steps_begin == lane.steps_end) continue;
    const PlanStep& step = plan_->steps[head.step];
    const auto at = [&](Blocked::On on, int peer) {
      return Blocked{on, peer, static_cast<std::uint32_t>(i), head.step - lane.steps_begin, head.segment};
    };
    for (std::uint32_t w = step.waits_begin; w < step.waits_end; ++w) {
      if (!wait_holds(plan_->waits[w], head.segment)) return at(Blocked::On::progress, plan_->waits[w].rank);
    }
    for (std::uint32_t o = step.operands_begin; o < step.operands_end; ++o) {
      const PlanOperand& operand = plan_->operands[o];
      if (operand.receiver != nullptr && !operand.receiver->ready()) return at(Blocked::On::message, operand.rank);
      if (operand.sender != nullptr && !operand.sender->has_credit()) return at(Blocked::On::credit, operand.rank);
    }
    for (std::size_t rank = 0; step.writes_output && !gate_open_ && rank < binding_.gate.size(); ++rank) {
      if (binding_.gate[rank]->entered.load(std::memory_order_acquire) < binding_.epoch) {
        return at(Blocked::On::entry, static_cast<int>(rank));
      }
    }
  }
  for (std::size_t s = 0; plan_ != nullptr && s < plan_->senders.size(); ++s) {
    if (!plan_->senders[s]->has_credit()) return {Blocked::On::credit, plan_->sender_ranks[s], kNoLane, 0, 0};
  }
  return {};
}

}  // namespace tutti::engine
