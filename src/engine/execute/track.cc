#include "engine/execute/track.h"

#include "schedule/verbs.h"

namespace tutti::engine {

using transport::Flags;

namespace {

// How long a call waits for its peers after others fell out over a later one.
constexpr std::chrono::milliseconds kGrace{1000};

// Whether a rank's part may be done before every other has begun. Else all results depend on all ranks.
bool may_leave_early(Verb verb) {
  const schedule::VerbFacts& facts = schedule::facts_of(verb);
  return facts.rooted || facts.prefix;
}

}  // namespace

Track::Track(transport::Transport& transport, Plans& plans, const choice::Chooser& chooser, int channel, bool check,
             const PartThreads& threads)
    : transport_(&transport),
      plans_(&plans),
      chooser_(&chooser),
      channel_(channel),
      check_(check),
      launch_(transport, channel),
      operation_(transport),
      parts_(transport, channel, threads),
      checking_(transport) {
  for (int rank = 0; rank < transport.size(); ++rank) {
    flags_.push_back(transport.flags(channel, rank));
    const bool seen = rank == transport.rank() || transport.offers().of(transport.rank(), rank).operands_in_slots;
    in_sight_.push_back(seen ? flags_.back() : nullptr);
  }
  input_windows_.resize(static_cast<std::size_t>(transport.size()));
  output_windows_.resize(static_cast<std::size_t>(transport.size()));
  binding_.input_windows = input_windows_.data();
  binding_.output_windows = output_windows_.data();
  checking_binding_.reduce = kernels::find_reduce(DType::uint8, ReduceOp::bor);
}

void Track::start() {
  const Call& call = call_;
  moved_ = true;
  entered_ = looked_ = prepared_ = first_ended_ = returns_early_ = scaled_ = all_symmetric_ = false;
  parts_.forget();
  algorithm_ = nullptr;
  binding_.input = call.input;
  binding_.output = call.output;
  if (call.whole) {
    binding_.output = whole_.fit(call, transport_->rank(), transport_->size());
    call_.input_ref = call_.output_ref = 0;
  }
  binding_.count = call.count;
  binding_.stride = 0;
  binding_.input_chunks = call.input_chunks;
  binding_.output_chunks = call.output_chunks;
  binding_.element_bytes = call.unit_bytes;
  chosen_ = chooser_->choose(question_of(*transport_, call));
  const std::uint64_t mine = programs();
  call_.kinds |= Statement::programs_bits(mine);
  binding_.fingerprint = mix(call.fingerprint, mine);
  binding_.sequence = call.sequence;
  binding_.recorder = call.recorder;
  binding_.arriving = nullptr;
  binding_.gate = {};
  binding_.reduce = call.reduce;
  binding_.own = call.own;
  binding_.divisor = call.divisor;
  binding_.outgrows_caches = call.input_bytes + call.output_bytes > chooser_->cache_bytes();
  if (call.staging == nullptr) [[likely]]
    return move();
  start_on_device();
}

void Track::start_on_device() {
  if (call_.staging->is_deferred()) {
    if (launch_.show(call_, binding_.fingerprint)) {
      state();
      transport_->notify_all();
      phase_ = Phase::launching;
      return;
    }
    go_through_host();
  }
  if (has_fetched()) return move();
  state_without_card();
  phase_ = Phase::fetching;
}

void Track::go_through_host() {
  call_.staging->begin();
  binding_.input = call_.input = call_.staging->input_memory();
  binding_.output = call_.output = call_.staging->output_memory();
}

// Whether there is so much of the input that the call may begin: some of it, where steps wait for the rest one by one.
bool Track::has_fetched() {
  device::Staging& staging = *call_.staging;
  if (!staging.comes_in_slices() || call_.whole || call_.scale != nullptr || chosen_ == nullptr ||
      keeps_input(call_, *chosen_))
    return staging.has_input();
  return staging.any_has_arrived();
}

void Track::begin_check() {
  checking_binding_.input = checking_binding_.output = &checked_;
  checking_binding_.count = 1;
  checking_binding_.fingerprint = binding_.fingerprint;
  state_without_card();
  checking_.start(plans_->get(Call{}, check(), channel_), checking_binding_);
  phase_ = Phase::checking;
}

const schedule::Algorithm& Track::check() {
  static const schedule::Algorithm& row = *schedule::find_algorithm(Verb::all_reduce, "recursive_doubling");
  return row;
}

// What ranks that make the same call compare as well: they may be of different builds, or know different prices.
std::uint64_t Track::programs() const {
  if (chosen_ != nullptr) return programs_of(number_of(*chosen_));
  return programs_of(number_of(*chooser_->choose_entered(call_.question(), false)),
                     number_of(*chooser_->choose_entered(call_.question(), true)));
}

void Track::begin_call() {
  const Plan* plan = chosen_ == nullptr ? nullptr : &plans_->get(call_, *chosen_, channel_);
  const bool enters = plan == nullptr || plan->uses_flags;
  if (enters && open_epoch_ != 0 && !all_retired(open_epoch_)) {
    state_without_card();
    phase_ = Phase::following;
    return;
  }
  if (call_.scale != nullptr) scale_input();
  if (chosen_ != nullptr) {
    begin(*chosen_, *plan);
  } else {
    enter();
    looked_ = true;
    const schedule::Algorithm& likely = *chooser_->choose_entered(call_.question(), true);
    prepare(likely, plans_->get(call_, likely, channel_));  // made ready while the others enter
    phase_ = Phase::entering;
  }
}

// Where every rank has an output of the input's size, that is the place; others have one of their own for it.
void Track::scale_input() {
  const std::uint64_t elements = call_.input_bytes / call_.unit_bytes;
  if (call_.verb == Verb::all_reduce) {
    call_.scale(call_.output, call_.input, elements, call_.factor);
    binding_.input = call_.output;
    call_.input_ref = call_.output_ref;
    scaled_ = true;
    return;
  }
  scaled_input_.resize(call_.input_bytes);
  call_.scale(scaled_input_.data(), call_.input, elements, call_.factor);
  binding_.input = scaled_input_.data();
  call_.input_ref = 0;
}

const schedule::Program* Track::program() const {
  const Operation& at_hand = phase_ == Phase::checking ? checking_ : operation_;
  return at_hand.plan() == nullptr ? nullptr : &at_hand.plan()->lowered.program;
}

Advance Track::advance() {
  const Advance advance = advance_phases();
  if (advance != Advance::stuck) moved_ = true;
  return advance;
}

// Of an output that steps fill from its beginning on, what is done goes back to the device while the rest is under way.
void Track::return_slices(bool all) {
  const auto return_part = [&](std::size_t part, std::uint64_t first, std::uint64_t done) {
    const std::uint64_t bytes = done * call_.unit_bytes, from = returned_[part];
    if (bytes == from || (!all && bytes - from < device::Staging::kSliceBytes)) return;
    call_.staging->return_slice(first * call_.unit_bytes + from, first * call_.unit_bytes + bytes);
    returned_[part] = bytes;
  };
  return_part(0, 0, first_ended_ || all ? binding_.count : operation_.elements_done());
  for (std::size_t i = 0; i < parts_.size(); ++i) return_part(i + 1, parts_[i].first(), parts_[i].elements_done());
}

// Once the operation has finished: what it left in host memory goes to the device.
Advance Track::return_output() {
  const bool begins = phase_ != Phase::returning;
  if (begins && returns_early_) return_slices(true);
  if (begins) call_.staging->start_output(~std::uint64_t{0});
  phase_ = Phase::returning;
  if (call_.staging->has_output()) return Advance::finished;
  return begins ? Advance::moved : Advance::stuck;
}

Advance Track::advance_phases() {
  bool moved = false;
  if (phase_ == Phase::launching) [[unlikely]] {
    switch (launch_.advance(call_)) {
      case DeviceLaunch::Progress::stuck: return Advance::stuck;
      case DeviceLaunch::Progress::moved: return Advance::moved;
      case DeviceLaunch::Progress::done: return Advance::finished;
      case DeviceLaunch::Progress::through_host: break;
    }
    go_through_host();
    phase_ = Phase::fetching;
    moved = true;
  }
  if (phase_ == Phase::fetching) [[unlikely]] {
    if (!has_fetched()) return moved ? Advance::moved : Advance::stuck;
    move();
    moved = true;
  }
  if (phase_ == Phase::returning) [[unlikely]]
    return return_output();
  if (phase_ == Phase::checking) {
    // The check works in scratch, too, where slow peers may still read what the call before it left them.
    if (!all_retired(scratch_epoch_)) return Advance::stuck;
    const Advance advance = checking_.advance();
    if (advance != Advance::finished) return advance;
    begin_call();
    moved = true;
  }
  if (phase_ == Phase::following) {
    if (!all_retired(open_epoch_)) return moved ? Advance::moved : Advance::stuck;
    begin_call();
    moved = true;
  }
  if (phase_ == Phase::entering) {
    if (!all_entered()) return moved ? Advance::moved : Advance::stuck;
    if (all_symmetric_) {
      phase_ = Phase::running;
    } else {
      const schedule::Algorithm& algorithm = *chooser_->choose_entered(call_.question(), false);
      begin(algorithm, plans_->get(call_, algorithm, channel_));
    }
    moved = true;
  }
  if (phase_ == Phase::reusing) {
    if (!all_retired(scratch_epoch_)) return moved ? Advance::moved : Advance::stuck;
    phase_ = Phase::running;
    moved = true;
  }
  const Advance advance = parts_.any() ? advance_parts() : operation_.advance();
  if (returns_early_ && advance == Advance::moved) [[unlikely]]
    return_slices(false);
  if (advance == Advance::finished) {
    finish();
    if (call_.staging != nullptr) [[unlikely]]
      return return_output();
  }
  return advance == Advance::stuck && moved ? Advance::moved : advance;
}

Advance Track::advance_parts() {
  const Advance first = first_ended_ ? Advance::stuck : operation_.advance();
  const Advance others = parts_.look();
  first_ended_ = first_ended_ || first == Advance::finished;
  if (first_ended_ && others == Advance::finished) return Advance::finished;
  return first == Advance::stuck && others != Advance::moved ? Advance::stuck : Advance::moved;
}

// Says what this rank is in.
void Track::state() { transport::state(*flags_[static_cast<std::size_t>(transport_->rank())], call_.statement()); }

// Ranks that have shown a card of this call may sleep until all have: that this one shows none rings no other bell.
void Track::state_without_card() {
  state();
  if (launch_.may_be_awaited()) transport_->notify_all();
}

// Shows this rank's call to all: what it is, and where its buffers lie.
void Track::enter() {
  Flags* mine = flags_[static_cast<std::size_t>(transport_->rank())];
  binding_.epoch = ++epoch_;
  // Lanes that the programs of late did not use must not fall so far behind that comparing wraps around.
  if ((epoch_ & 0x3fffffff) == 0) {
    for (auto& lane : mine->lanes) lane.store(progress_word(epoch_ - 1, 0, 0), std::memory_order_release);
  }
  // All of it at once: peers are waiting for this line, and take it away again and again.
  // Released after the zero, so that whoever sees the new fingerprint cannot take it for the call before.
  mine->entered.store(0, std::memory_order_relaxed);
  state();
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
  bind_windows();
  return true;
}

// The addresses of all ranks' buffers in this process, where the verb has them there.
void Track::bind_windows() {
  using schedule::Buffer;
  const auto bind = [&](int rank, Buffer buffer, transport::MemoryRef ref, std::vector<std::byte*>& windows) {
    if (schedule::holding_of(call_.verb, buffer, transport_->size(), rank, call_.root) == schedule::Holding::nothing)
      return true;
    const bool read = rank == call_.root || !schedule::facts_of(call_.verb).reads_input_at_root_only;
    if (buffer == Buffer::input && !read) return true;  // it may be anything
    if (ref != 0) windows[static_cast<std::size_t>(rank)] = transport_->window(rank, ref);
    return ref != 0;
  };
  all_symmetric_ = true;
  for (int rank = 0; all_symmetric_ && rank < transport_->size(); ++rank) {
    const Flags* flags = flags_[static_cast<std::size_t>(rank)];
    all_symmetric_ = bind(rank, Buffer::input, flags->input.load(std::memory_order_relaxed), input_windows_) &&
                     bind(rank, Buffer::output, flags->output.load(std::memory_order_relaxed), output_windows_);
  }
}

void Track::begin(const schedule::Algorithm& algorithm, const Plan& plan) {
  const bool compared = entered_;  // entering has compared the calls of all ranks
  if (plan.uses_flags && !entered_) enter();
  if (!entered_) state_without_card();
  if (plan.uses_flags && !compared) binding_.gate = in_sight_;
  prepare(algorithm, plan);
  phase_ = plan.uses_scratch ? Phase::reusing : Phase::running;
}

void Track::prepare(const schedule::Algorithm& algorithm, const Plan& plan) {
  algorithm_ = &algorithm;
  if (keeps_input(call_, algorithm)) {
    kept_input_.assign(binding_.input, binding_.input + call_.input_bytes);
    binding_.input = kept_input_.data();
  }
  if (call_.staging != nullptr) [[unlikely]] {
    if (call_.staging->comes_in_slices() && !call_.staging->input_seen()) {
      binding_.arriving = call_.staging;
      binding_.arriving_at = call_.input;
      binding_.arriving_bytes = call_.input_bytes;
    }
    const schedule::VerbFacts& facts = schedule::facts_of(call_.verb);
    const bool from_beginning = facts.cut == schedule::Cut::vector || facts.output == schedule::Share::own;
    returns_early_ = from_beginning && !call_.uneven && !call_.whole && call_.staging->returns_slices();
    returned_ = {};
  }
  const int parts = parts_of(*transport_, call_, algorithm);
  if (parts > 1) parts_.start(parts, *plans_, call_, algorithm, binding_);
  operation_.start(plan, binding_);
  prepared_ = true;
}

bool Track::all_retired(std::uint64_t epoch) const {
  for (const Flags* flags : in_sight_) {
    if (flags != nullptr && flags->retired.load(std::memory_order_acquire) < epoch) return false;
  }
  return true;
}

void Track::finish() {
  if (call_.whole) whole_.fold(call_, transport_->rank(), transport_->size());
  const Plan& plan = *operation_.plan();
  const bool used_scratch = plan.uses_scratch && plan.uses_flags;
  const bool left_early = looked_ && may_leave_early(call_.verb);
  if (!used_scratch && !left_early) return;
  if (used_scratch) scratch_epoch_ = epoch_;
  if (left_early) open_epoch_ = epoch_;
  flags_[static_cast<std::size_t>(transport_->rank())]->retired.store(epoch_, std::memory_order_release);
  transport_->notify_all();
}

int Track::mismatched_peer() const {
  const Operation& at_hand = phase_ == Phase::checking ? checking_ : operation_;
  if (phase_ != Phase::entering && at_hand.mismatched_peer() >= 0) return at_hand.mismatched_peer();
  if (const int peer = parts_.mismatched_peer(); peer >= 0) return peer;
  const Statement mine = call_.statement();
  for (int rank = 0; rank < transport_->size(); ++rank) {
    const Flags& flags = *flags_[static_cast<std::size_t>(rank)];
    const Statement theirs = transport::stated(flags);
    if (mine.sequence != 0 && theirs.sequence == mine.sequence && !theirs.agrees_with(mine)) return rank;
    if (!entered_ || flags.entered.load(std::memory_order_acquire) != epoch_) continue;
    const bool differs = flags.fingerprint.load(std::memory_order_acquire) != binding_.fingerprint;
    if (differs && flags.entered.load(std::memory_order_relaxed) == epoch_) return rank;
  }
  return -1;
}

// Ranks that are stuck in the call have announced it by the time it is given up, unless it is given up very soon.
std::vector<int> Track::absent_ranks() const {
  std::vector<int> ranks;
  if (call_.timeout < 2 * kAnnounceAfter) return ranks;
  for (int rank = 0; rank < transport_->size(); ++rank) {
    if (transport::stated(*flags_[static_cast<std::size_t>(rank)]).sequence < call_.sequence + 1) ranks.push_back(rank);
  }
  return ranks;
}

Blocked Track::blocked() const {
  const bool reuses = phase_ == Phase::reusing || phase_ == Phase::checking;
  if (phase_ == Phase::fetching || phase_ == Phase::returning) return {Blocked::On::device};
  if (phase_ == Phase::launching) {
    const int awaited = launch_.arrived() ? launch_.awaited() : -1;
    return awaited < 0 ? Blocked{Blocked::On::device} : Blocked{Blocked::On::entry, awaited};
  }
  const std::uint64_t awaited = reuses ? scratch_epoch_ : phase_ == Phase::following ? open_epoch_ : 0;
  if (phase_ == Phase::running) return first_ended_ ? parts_.blocked() : operation_.blocked();
  for (int rank = 0; rank < transport_->size(); ++rank) {
    const Flags* flags = in_sight_[static_cast<std::size_t>(rank)];
    if (flags == nullptr) continue;
    if (phase_ == Phase::entering && flags->entered.load(std::memory_order_acquire) < epoch_) {
      return {Blocked::On::entry, rank};
    }
    if (flags->retired.load(std::memory_order_acquire) < awaited) return {Blocked::On::retirement, rank};
  }
  if (phase_ == Phase::checking) return checking_.blocked();
  return {};
}

// Whether ranks fell out over a call that comes after this one: they have done their part in it, and others may yet.
bool Track::is_later(const Failure& failure) const {
  if (failure.died || failure.cause != ErrorCode::mismatch) return false;
  std::uint64_t reached = 0;
  for (int channel = 0; channel < kCollectiveChannels; ++channel)
    reached = std::max(reached, transport::stated(*transport_->flags(channel, failure.rank)).sequence);
  return reached > call_.statement().sequence;
}

bool Track::in_grace() {
  if (!grace_) grace_ = Deadline::after(kGrace);
  return !grace_->passed();
}

bool Track::hopeless() {
  if (moved_) {
    moved_ = announced_ = false;
    deadline_ = Deadline::after(call_.timeout);
    announcement_ = Deadline::after(kAnnounceAfter);
    grace_.reset();
  }
  if (!announced_ && announcement_.passed()) {
    announced_ = true;
    // All of them: what a peer needs to know may be a call that this rank has long left.
    for (int channel = 0; channel <= kCollectiveChannels; ++channel) transport_->announce(channel);
  }
  diagnosis_ = {};
  diagnosis_.blocked = blocked();
  diagnosis_.sequence = call_.statement().sequence;
  diagnosis_.uneven = call_.uneven && !schedule::facts_of(call_.verb).all_know_counts;
  const int waited_for = diagnosis_.blocked.peer;
  // Asked before the failure: a peer that gave up and then left has said so first.
  const int channel = first_ended_ && phase_ == Phase::running ? parts_.blocked_channel() : channel_;
  const bool departed = waited_for >= 0 && transport_->drained(channel, waited_for);
  if (const int peer = mismatched_peer(); peer >= 0) {
    diagnosis_.blocked.peer = peer;
    diagnosis_.kind = Diagnosis::Kind::mismatch;
  } else if (const auto failure = transport_->failure(); failure && !(is_later(*failure) && in_grace())) {
    diagnosis_.failure = *failure;
    diagnosis_.kind = Diagnosis::Kind::failure;
  } else if (departed) {
    diagnosis_.kind = Diagnosis::Kind::departed;
  } else if (deadline_.passed()) {
    diagnosis_.kind = Diagnosis::Kind::timeout;
    diagnosis_.timeout = call_.timeout;
    diagnosis_.absent = absent_ranks();
  }
  return diagnosis_.any();
}

}  // namespace tutti::engine
