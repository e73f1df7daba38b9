#include "engine/track.h"

#include <string>

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
  moved_ = true;
  verdict_ = Verdict::none;
  entered_ = compared_ = all_symmetric_ = false;
  binding_.input = call.input;
  binding_.output = call.output;
  binding_.count = call.count;
  binding_.element_bytes = static_cast<std::uint32_t>(size_of(call.type));
  binding_.fingerprint = call.fingerprint(chooser_->options_hash());
  if (call.verb == Verb::all_reduce) {
    binding_.reduce = call.reduce;
    binding_.divisor = call.op == ReduceOp::average ? static_cast<std::uint32_t>(transport_->size()) : 1;
  }
  if (const schedule::Algorithm* chosen = chooser_->choose(call)) {
    begin(*chosen);
  } else {
    enter();
    prepare(*chooser_->choose_entered(call, true));  // the likely outcome, made ready while the others enter
    phase_ = Phase::entering;
  }
}

Advance Track::advance() {
  const Advance advance = advance_phases();
  if (advance != Advance::stuck) moved_ = true;
  return advance;
}

Advance Track::advance_phases() {
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
  // Lanes that the programs of late did not use must not fall so far behind that comparing wraps around.
  if ((epoch_ & 0x3fffffff) == 0) {
    for (auto& lane : mine->lanes) lane.store(progress_word(epoch_ - 1, 0, 0), std::memory_order_relaxed);
  }
  // Released after the zero, so that whoever sees the new fingerprint cannot take it for the call before.
  mine->entered.store(0, std::memory_order_relaxed);
  mine->fingerprint.store(binding_.fingerprint, std::memory_order_release);
  mine->input.store(call_.input_ref, std::memory_order_relaxed);
  mine->output.store(call_.output_ref, std::memory_order_relaxed);
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

Blocked Track::blocked() const {
  if (phase_ == Phase::running || phase_ == Phase::mismatched) return operation_.blocked();
  for (int rank = 0; rank < transport_->size(); ++rank) {
    const Flags* flags = flags_[static_cast<std::size_t>(rank)];
    if (phase_ == Phase::entering && flags->entered.load(std::memory_order_acquire) < epoch_) {
      return {Blocked::On::entry, rank, 0, 0, 0};
    }
    if (phase_ == Phase::reusing && flags->retired.load(std::memory_order_acquire) < scratch_epoch_) {
      return {Blocked::On::retirement, rank, 0, 0, 0};
    }
  }
  return {};
}

bool Track::hopeless(std::chrono::nanoseconds timeout) {
  if (moved_) {
    moved_ = false;
    timeout_ = timeout;
    deadline_ = Deadline::after(timeout);
    departed_peer_ = -1;
  }
  blocked_ = blocked();
  if (const int peer = mismatched_peer(); peer >= 0) {
    blocked_.peer = peer;
    verdict_ = Verdict::mismatch;
  } else if (const auto failure = transport_->failure()) {
    failure_ = *failure;
    verdict_ = Verdict::failure;
  } else if (blocked_.peer >= 0 && transport_->departed(blocked_.peer)) {
    // What it published before it left counts: only if it is still missing at the next look, it will never come.
    if (departed_peer_ == blocked_.peer) verdict_ = Verdict::departed;
    departed_peer_ = blocked_.peer;
  } else if (deadline_.passed()) {
    verdict_ = Verdict::timeout;
  }
  return verdict_ != Verdict::none;
}

namespace {

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

std::string words_of(const Blocked& blocked, const schedule::Program* program) {
  const std::string peer = rank_name(blocked.peer);
  std::string where;
  if (program != nullptr && blocked.lane < program->lanes.size()) {
    where = "lane '" + program->lanes[blocked.lane].name + "' step " + std::to_string(blocked.step) + " segment " +
            std::to_string(blocked.segment) + " of '" + program->algorithm + "' waits for ";
  }
  switch (blocked.on) {
    case Blocked::On::nothing: return "nothing is missing";
    case Blocked::On::entry: return peer + " has not made this call";
    case Blocked::On::retirement: return peer + " has not finished an earlier call";
    case Blocked::On::progress: return where + "progress of " + peer;
    case Blocked::On::message: return where + "a message from " + peer;
    case Blocked::On::credit: return where + peer + " to take a message";
  }
  return {};
}

}  // namespace

Error Track::error() const {
  const std::string mine = rank_name(transport_->rank()) + ", " + call_.describe() + ": ";
  const std::string where =
      words_of(blocked_, operation_.plan() == nullptr ? nullptr : &operation_.plan()->lowered.program);
  const std::string peer = rank_name(blocked_.peer);
  switch (verdict_) {
    case Verdict::mismatch:
      return {ErrorCode::mismatch,
              mine + peer + " made another call at this point; all ranks must make the same calls in the same order",
              blocked_.peer};
    case Verdict::failure: {
      const std::string culprit = rank_name(failure_.rank);
      if (failure_.died) return {ErrorCode::peer_lost, mine + culprit + " has ended (" + where + ")", failure_.rank};
      const bool blames = failure_.blamed >= 0;
      return {ErrorCode::peer_failed,
              mine + culprit + " gave up after an error" + (blames ? ", blaming " + rank_name(failure_.blamed) : "") +
                  " (" + where + ")",
              blames ? failure_.blamed : failure_.rank};
    }
    case Verdict::departed:
      return {ErrorCode::peer_lost, mine + peer + " has left the group (" + where + ")", blocked_.peer};
    case Verdict::timeout:
    case Verdict::none: break;
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count();
  return {ErrorCode::timeout,
          mine + where + ", and nothing moved for " + std::to_string(ms) + " ms; is " + peer +
              " in the same call? Options::timeout sets the deadline",
          blocked_.peer};
}

}  // namespace tutti::engine
