#include "engine/track.h"

namespace tutti::engine {

using transport::Flags;

Track::Track(transport::Transport& transport, Plans& plans, const Chooser& chooser, int channel)
    : transport_(&transport), plans_(&plans), chooser_(&chooser), channel_(channel), operation_(transport) {
  for (int rank = 0; rank < transport.size(); ++rank) flags_.push_back(transport.flags(channel, rank));
  input_windows_.resize(static_cast<std::size_t>(transport.size()));
  output_windows_.resize(static_cast<std::size_t>(transport.size()));
  binding_.input_windows = input_windows_.data();
  binding_.output_windows = output_windows_.data();
}

void Track::start(const Call& call) {
  call_ = call;
  entered_ = compared_ = all_symmetric_ = false;
  binding_.input = call.input;
  binding_.output = call.output;
  binding_.count = call.count;
  binding_.element_bytes = static_cast<std::uint32_t>(size_of(call.type));
  binding_.fingerprint = call.fingerprint();
  if (call.verb == Verb::all_reduce) {
    binding_.reduce = call.reduce;
    binding_.divisor = call.op == ReduceOp::average ? static_cast<std::uint32_t>(transport_->size()) : 1;
  }
  if (const schedule::Algorithm* chosen = chooser_->choose(call, transport_->has_allocations())) {
    begin(*chosen);
  } else {
    enter();
    prepare(*chooser_->choose_entered(call, true));  // the likely outcome, made ready while the others enter
    phase_ = Phase::entering;
  }
}

Advance Track::advance() {
  bool moved = false;
  if (phase_ == Phase::entering) {
    if (!all_entered()) return Advance::stuck;
    if (all_symmetric_) {
      phase_ = Phase::running;
    } else {
      begin(*chooser_->choose_entered(call_, false));
    }
    moved = true;
  }
  if (phase_ == Phase::reusing) {
    if (!scratch_is_free()) return moved ? Advance::moved : Advance::stuck;
    phase_ = Phase::running;
    moved = true;
  }
  if (phase_ == Phase::mismatched) return Advance::stuck;
  const Advance advance = operation_.advance();
  if (advance == Advance::finished) {
    // Messages carry the fingerprint of their call, and entering compared them; flags alone could come from another.
    if (entered_ && !compared_ && mismatched_peer() >= 0) {
      phase_ = Phase::mismatched;
      return Advance::stuck;
    }
    finish();
  }
  return advance == Advance::stuck && moved ? Advance::moved : advance;
}

// Shows this rank's call to all: what it is, and where its buffers lie.
void Track::enter() {
  Flags* mine = flags_[static_cast<std::size_t>(transport_->rank())];
  binding_.epoch = ++epoch_;
  // Released after the zero, so that whoever sees the new fingerprint cannot take it for the call before.
  mine->entered.store(0, std::memory_order_relaxed);
  mine->fingerprint.store(binding_.fingerprint, std::memory_order_release);
  mine->input.store(transport_->locate(call_.input, call_.bytes()), std::memory_order_relaxed);
  mine->output.store(transport_->locate(call_.output, call_.bytes()), std::memory_order_relaxed);
  mine->entered.store(epoch_, std::memory_order_release);
  transport_->notify_all();
  entered_ = true;
}

bool Track::all_entered() {
  for (const Flags* flags : flags_) {
    if (flags->entered.load(std::memory_order_acquire) < epoch_) return false;
    if (flags->fingerprint.load(std::memory_order_relaxed) != binding_.fingerprint) return false;
  }
  compared_ = true;
  bind_windows();
  return true;
}

void Track::bind_windows() {
  all_symmetric_ = true;
  for (int rank = 0; rank < transport_->size(); ++rank) {
    const Flags* flags = flags_[static_cast<std::size_t>(rank)];
    const transport::MemoryRef input = flags->input.load(std::memory_order_relaxed);
    const transport::MemoryRef output = flags->output.load(std::memory_order_relaxed);
    if (input == 0 || output == 0) {
      all_symmetric_ = false;
      return;
    }
    input_windows_[static_cast<std::size_t>(rank)] = transport_->window(rank, input);
    output_windows_[static_cast<std::size_t>(rank)] = transport_->window(rank, output);
  }
}

void Track::begin(const schedule::Algorithm& algorithm) {
  prepare(algorithm);
  const Plan& plan = *operation_.plan();
  if (plan.uses_flags && !entered_) {
    enter();
    operation_.set_epoch(epoch_);
  }
  phase_ = plan.uses_scratch && plan.uses_flags ? Phase::reusing : Phase::running;
}

void Track::prepare(const schedule::Algorithm& algorithm) {
  algorithm_ = &algorithm;
  operation_.start(plans_->get(call_, algorithm, channel_), binding_);
}

bool Track::scratch_is_free() const {
  for (const Flags* flags : flags_) {
    if (flags->retired.load(std::memory_order_acquire) < scratch_epoch_) return false;
  }
  return true;
}

void Track::finish() {
  const Plan& plan = *operation_.plan();
  if (!plan.uses_scratch || !plan.uses_flags) return;
  scratch_epoch_ = epoch_;
  flags_[static_cast<std::size_t>(transport_->rank())]->retired.store(epoch_, std::memory_order_release);
  transport_->notify_all();
}

int Track::mismatched_peer() const {
  if (operation_.mismatched_peer() >= 0) return operation_.mismatched_peer();
  if (!entered_) return -1;
  for (int rank = 0; rank < transport_->size(); ++rank) {
    const Flags* flags = flags_[static_cast<std::size_t>(rank)];
    if (flags->entered.load(std::memory_order_acquire) != epoch_) continue;
    const bool differs = flags->fingerprint.load(std::memory_order_acquire) != binding_.fingerprint;
    if (differs && flags->entered.load(std::memory_order_relaxed) == epoch_) return rank;
  }
  return -1;
}

std::string Track::stuck_at(int* peer) const {
  if (phase_ == Phase::running) return operation_.stuck_at(peer);
  for (int rank = 0; rank < transport_->size(); ++rank) {
    const Flags* flags = flags_[static_cast<std::size_t>(rank)];
    if (phase_ == Phase::entering && flags->entered.load(std::memory_order_acquire) < epoch_) {
      *peer = rank;
      return "rank " + std::to_string(rank) + " has not made this call";
    }
    if (phase_ == Phase::reusing && flags->retired.load(std::memory_order_acquire) < scratch_epoch_) {
      *peer = rank;
      return "rank " + std::to_string(rank) + " has not finished an earlier call";
    }
  }
  return "all ranks are there";
}

}  // namespace tutti::engine
