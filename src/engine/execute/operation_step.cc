// How a step of an operation moves its bytes: through slots, as streams, or within memory.
#include <algorithm>

#include "engine/execute/operation.h"

namespace tutti::engine {

using schedule::Buffer;
using schedule::Operand;
using schedule::StepOp;

// Calls visit(elements, address of an operand by its number in the step) for every stretch of the step that lies in one
// piece in all its operands. Blocks of a run do, unless they are chunks cut into segments or placed by the caller.
template <class Visit>
void Operation::for_each_run(const PlanStep& step, std::uint64_t segment, Visit&& visit) const {
  if (places_->kept()) {
    for (std::uint32_t r = step.runs_begin; r < step.runs_end; ++r) {
      const std::uint64_t count = places_->run_counts[r];
      if (count == 0) continue;
      const std::uint64_t* offsets = &places_->offsets[plan_->runs[r].first_index];
      visit(count, [&](std::uint32_t number) {
        return base_of(plan_->operands[step.operands_begin + number]) + offsets[number];
      });
    }
    return;
  }
  const bool contiguous = layout().contiguous();
  for (std::uint32_t r = step.runs_begin; r < step.runs_end; ++r) {
    const PlanRun& run = plan_->runs[r];
    const std::uint32_t* firsts = &plan_->run_firsts[run.first_index];
    const std::uint32_t width = contiguous ? run.blocks : 1;
    for (std::uint32_t i = 0; i < run.blocks; i += width) {
      const auto place_of = [&](std::uint32_t number) {
        const PlanOperand& operand = plan_->operands[step.operands_begin + number];
        return layout().place(operand.buffer, operand.alone, segment, firsts[number] + i, width);
      };
      const std::uint64_t count = layout().place(step.sized, false, segment, run.sized_first + i, width).count;
      if (count == 0) continue;
      visit(count, [&](std::uint32_t number) {
        return address(plan_->operands[step.operands_begin + number], segment, place_of(number).begin);
      });
    }
  }
}

// The output, too, may lie in the place where the input is to come, and must not be overwritten by that.
bool Operation::input_is_there(const PlanStep& step, std::uint64_t segment) const {
  const std::byte* const input = binding_->arriving_at;
  bool there = true;
  for_each_run(step, segment, [&](std::uint64_t count, const auto& address_of) {
    for (std::uint32_t k = 0; k < step.operands_end - step.operands_begin; ++k) {
      const PlanOperand& operand = plan_->operands[step.operands_begin + k];
      if (operand.kind != Operand::Kind::own || operand.buffer == Buffer::scratch) continue;
      const std::byte* const begin = std::max<const std::byte*>(address_of(k), input);
      const std::byte* const end =
          std::min<const std::byte*>(address_of(k) + count * binding_->element_bytes, input + binding_->arriving_bytes);
      if (begin >= end) continue;
      const auto first = static_cast<std::uint64_t>(begin - input), behind = static_cast<std::uint64_t>(end - input);
      there = there && binding_->arriving->has_arrived(first, behind);
    }
  });
  return there;
}

// Calls use(elements) for every stretch of the step, whose places are then in pieces_.
template <class Use>
void Operation::for_each_stretch(const PlanStep& step, std::uint64_t segment, Use&& use) {
  std::uint64_t slot_offset = 0;
  const std::uint32_t operands = step.operands_end - step.operands_begin;
  for_each_run(step, segment, [&](std::uint64_t count, const auto& address_of) {
    for (std::uint32_t k = 0; k < operands; ++k) {
      const bool slot = plan_->operands[step.operands_begin + k].kind == Operand::Kind::slot;
      pieces_[k] = slot ? slots_[k] + slot_offset : address_of(k);
    }
    use(count);
    slot_offset += count * binding_->element_bytes;
  });
}

// A step of one run whose places are kept, as most steps of small calls are: the general way, without its detours.
StepOutcome Operation::try_short(const PlanStep& step) {
  const auto number = static_cast<std::size_t>(&step - plan_->steps.data());
  const std::uint64_t* const offsets = &places_->offsets[plan_->runs[step.runs_begin].first_index];
  const std::uint32_t operands = step.operands_end - step.operands_begin;
  const std::uint32_t from = step.sources_begin - step.operands_begin;
  for (std::uint32_t k = 0; k < operands; ++k) {
    const PlanOperand& operand = plan_->operands[step.operands_begin + k];
    if (operand.kind == Operand::Kind::slot) {
      pieces_[k] = open_slot(step, operand, places_->step_bytes[number]);
      if (pieces_[k] == nullptr) return StepOutcome::blocked;
    } else {
      pieces_[k] = base_of(operand) + offsets[k];
    }
  }
  for (std::uint32_t k = 0; step.writes_output && k < from; ++k) {
    const PlanOperand& operand = plan_->operands[step.operands_begin + k];
    const bool output = operand.kind == Operand::Kind::own && operand.buffer == Buffer::output;
    if (output && !(step.keeps_input && pieces_[k] == pieces_[from])) touched_output_ = true;
  }
  if (const std::uint64_t count = places_->run_counts[step.runs_begin]; count != 0) run_pieces(step, count);
  if (step.has_slots) close_slots(step);
  return StepOutcome::done;
}

// Any other step.
StepOutcome Operation::try_long(const PlanStep& step, std::uint64_t segment) {
  if (step.has_slots && !open_slots(step, segment)) return StepOutcome::blocked;
  note_touched(step, segment);
  for_each_stretch(step, segment, [&](std::uint64_t count) { run_pieces(step, count); });
  if (step.has_slots) close_slots(step);
  return StepOutcome::done;
}

// By the mover: its slots stay open until it has ended.
StepOutcome Operation::try_elsewhere(const PlanStep& step, const LaneHead& head) {
  const auto lane = static_cast<std::uint32_t>(&head - heads_.data());
  if (!head.started) {
    if (step.has_slots && !open_slots(step, head.segment)) return StepOutcome::blocked;
    note_touched(step, head.segment);
    const std::span<void* const> operands(pieces_.data(), step.operands_end - step.operands_begin);
    const std::size_t from = step.sources_begin - step.operands_begin;
    for_each_stretch(step, head.segment, [&](std::uint64_t count) {
      binding_->mover->start(lane, {.op = step.op,
                                    .destinations = operands.first(from),
                                    .sources = operands.subspan(from),
                                    .count = count,
                                    .divisor = step.last ? binding_->divisor : 1});
    });
  }
  if (!binding_->mover->ended(lane)) return head.started ? StepOutcome::blocked : StepOutcome::started;
  if (step.has_slots) close_slots(step);
  return StepOutcome::done;
}

void Operation::note_touched(const PlanStep& step, std::uint64_t segment) {
  if (step.writes_output && !touched_output_ && !changes_nothing(step, segment)) touched_output_ = true;
}

StepOutcome Operation::try_stream(const PlanStep& step, LaneHead& head) {
  const std::uint64_t bytes = step_bytes(step, head.segment);
  const PlanOperand& source = plan_->operands[step.sources_begin];
  if (source.receiver != nullptr) return receive_stream(step, source, head.segment, bytes);
  return send_stream(step, head, bytes);
}

StepOutcome Operation::send_stream(const PlanStep& step, LaneHead& head, std::uint64_t bytes) {
  const std::uint32_t before = head.sent;
  for (; step.operands_begin + head.sent < step.sources_begin; ++head.sent) {
    const std::uint32_t destination = step.operands_begin + head.sent;
    const PlanOperand& operand = plan_->operands[destination];
    if (operand.sender == nullptr) {
      copy_within(step, destination, head.segment);
      continue;
    }
    const auto pieces = pieces_of(step, step.sources_begin, head.segment);
    const bool taken = operand.single_copy ? operand.sender->try_expose(pieces, bytes, mark_of(step),
                                                                        {binding_->input, binding_->input_ref})
                                           : operand.sender->try_send(pieces, bytes, mark_of(step));
    if (!taken) return head.sent == before ? StepOutcome::blocked : StepOutcome::started;
  }
  return StepOutcome::done;
}

// One destination of a message's source that is memory of this rank.
void Operation::copy_within(const PlanStep& step, std::uint32_t destination, std::uint64_t segment) {
  if (changes_nothing(step, segment)) return;
  touched_output_ = touched_output_ || step.writes_output;
  const std::uint32_t to = destination - step.operands_begin, from = step.sources_begin - step.operands_begin;
  for_each_run(step, segment, [&](std::uint64_t count, const auto& address_of) {
    void* const target = address_of(to);
    copy(step, {&target, 1}, address_of(from), count);
  });
}

StepOutcome Operation::receive_stream(const PlanStep& step, const PlanOperand& source, std::uint64_t segment,
                                      std::uint64_t bytes) {
  const auto pieces = pieces_of(step, step.operands_begin, segment);
  const bool touched = touched_output_;
  touched_output_ = touched || step.writes_output;  // also where it throws half-way
  const transport::Arrival arrival = source.single_copy ? source.receiver->try_pull(pieces, bytes, mark_of(step))
                                                        : source.receiver->try_receive(pieces, bytes, mark_of(step));
  if (arrival == transport::Arrival::moved) return StepOutcome::started;
  if (arrival == transport::Arrival::whole) {
    if (!heard_all_) heard_[source.receiver_number] = 1;
    return StepOutcome::done;
  }
  if (arrival == transport::Arrival::other) mismatched_peer_ = source.rank;
  touched_output_ = touched;
  return StepOutcome::blocked;
}

// The memory of one operand of a step, run by run.
std::span<const transport::Piece> Operation::pieces_of(const PlanStep& step, std::uint32_t operand,
                                                       std::uint64_t segment) {
  std::size_t pieces = 0;
  for_each_run(step, segment, [&](std::uint64_t count, const auto& address_of) {
    stream_[pieces++] = {address_of(operand - step.operands_begin), count * binding_->element_bytes};
  });
  return {stream_.data(), pieces};
}

std::uint64_t Operation::step_bytes(const PlanStep& step, std::uint64_t segment) const {
  if (places_->kept()) return places_->step_bytes[static_cast<std::size_t>(&step - plan_->steps.data())];
  std::uint64_t elements = 0;
  for_each_run(step, segment, [&](std::uint64_t count, const auto&) { elements += count; });
  return elements * binding_->element_bytes;
}

// Of the chunks that a step of a v-verb names, in all segments together.
std::uint64_t Operation::chunk_elements(const PlanStep& step) const {
  const std::uint64_t* const counts = (step.sized == Buffer::output ? layout().output : layout().input).counts;
  std::uint64_t elements = 0;
  for (std::uint32_t r = step.runs_begin; r < step.runs_end; ++r) {
    const PlanRun& run = plan_->runs[r];
    for (std::uint32_t i = 0; counts != nullptr && i < run.blocks; ++i) elements += counts[run.sized_first + i];
  }
  return elements;
}

// The memory of a message that leaves or has come; nullptr where it must be waited for, or belongs to another call.
std::byte* Operation::open_slot(const PlanStep& step, const PlanOperand& operand, std::uint64_t bytes) {
  if (operand.sender != nullptr) return operand.sender->try_begin(bytes);
  std::uint64_t fingerprint = 0;
  const std::byte* const slot = operand.receiver->try_begin(bytes, &fingerprint);
  if (slot != nullptr && fingerprint != mark_of(step)) {
    mismatched_peer_ = operand.rank;
    return nullptr;
  }
  return const_cast<std::byte*>(slot);  // only ever read
}

bool Operation::open_slots(const PlanStep& step, std::uint64_t segment) {
  const std::uint64_t bytes = step_bytes(step, segment);
  for (std::uint32_t i = step.operands_begin; i < step.operands_end; ++i) {
    const PlanOperand& operand = plan_->operands[i];
    if (operand.kind != Operand::Kind::slot) continue;
    std::byte*& slot = slots_[i - step.operands_begin];
    slot = open_slot(step, operand, bytes);
    if (slot == nullptr) return false;
  }
  return true;
}

void Operation::close_slots(const PlanStep& step) {
  const std::uint64_t mark = mark_of(step);
  for (std::uint32_t i = step.operands_begin; i < step.operands_end; ++i) {
    const PlanOperand& operand = plan_->operands[i];
    if (operand.sender != nullptr) operand.sender->end(mark);
    if (operand.receiver == nullptr) continue;
    if (!heard_all_) heard_[operand.receiver_number] = 1;
    operand.receiver->end();
  }
}

// `begin` counts from the start of the operand's buffer, or of its plane of scratch.
std::byte* Operation::address(const PlanOperand& operand, std::uint64_t segment, std::uint64_t begin) const {
  const std::uint64_t offset = begin * binding_->element_bytes;
  if (operand.buffer != Buffer::scratch) return base_of(operand) + offset;
  const auto depth = static_cast<std::uint64_t>(plan_->lowered.program.scratch_depth);
  return operand.scratch + (operand.plane * depth + segment % depth) * places_->scratch_copy_bytes + offset;
}

// Where the operand's buffer begins, or all its scratch.
std::byte* Operation::base_of(const PlanOperand& operand) const {
  if (operand.buffer == Buffer::scratch) return operand.scratch;
  const bool input = operand.buffer == Buffer::input;
  if (operand.kind == Operand::Kind::own) {
    return input ? const_cast<std::byte*>(binding_->input) : binding_->output;  // input is only ever read
  }
  return (input ? binding_->input_windows : binding_->output_windows)[operand.rank];
}

// Whether a copy from the input to the output finds them to be the same memory.
bool Operation::changes_nothing(const PlanStep& step, std::uint64_t segment) const {
  if (!step.keeps_input || !step.writes_output) return false;
  bool same = true;
  const std::uint32_t from = step.sources_begin - step.operands_begin;
  for_each_run(step, segment, [&](std::uint64_t, const auto& address_of) {
    for (std::uint32_t i = 0; i < from; ++i) {
      const PlanOperand& operand = plan_->operands[step.operands_begin + i];
      if (operand.kind == Operand::Kind::own && operand.buffer == Buffer::output)
        same = same && address_of(i) == address_of(from);
    }
  });
  return same;
}

void Operation::run_pieces(const PlanStep& step, std::uint64_t count) {
  void* const* destinations = pieces_.data();
  const std::size_t destination_count = step.sources_begin - step.operands_begin;
  void* const* sources = destinations + destination_count;
  if (step.op == StepOp::reduce && binding_->own != nullptr) {
    return own_reduction_.run(*binding_->own, binding_->element_bytes, {destinations, destination_count},
                              {sources, step.operands_end - step.sources_begin}, count);
  }
  if (step.op == StepOp::reduce) {
    return reduce(step, {destinations, destination_count}, {sources, step.operands_end - step.sources_begin}, count);
  }
  copy(step, {destinations, destination_count}, sources[0], count);
}

void Operation::copy(const PlanStep& step, std::span<void* const> destinations, const void* source,
                     std::uint64_t count) const {
  const std::uint64_t bytes = count * binding_->element_bytes;
  if (binding_->outgrows_caches && step.fills_outputs && destinations.size() == 1)
    return kernels::stream(destinations[0], source, bytes);
  kernels::copy(destinations.data(), destinations.size(), source, bytes);
}

// Results that outgrow the caches go past them. Not where they replace a source: its lines are in the caches already.
void Operation::reduce(const PlanStep& step, std::span<void* const> destinations, std::span<void* const> sources,
                       std::uint64_t count) const {
  const auto replaced = [&](const void* place) {
    return std::find(sources.begin(), sources.end(), place) != sources.end();
  };
  const bool past_caches = binding_->outgrows_caches && step.fills_outputs &&
                           std::none_of(destinations.begin(), destinations.end(), replaced);
  binding_->reduce(destinations.data(), destinations.size(), const_cast<const void* const*>(sources.data()),
                   sources.size(), count, {step.last ? binding_->divisor : 1, past_caches});
}

}  // namespace tutti::engine
