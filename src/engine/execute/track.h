// A track: one channel and the collectives that run on it, one after the other. Different tracks run independently.
//
// A call goes through phases: *launching* (a rank of each device that buffers lie on does the device's share of the
// work of all, and the call ends there, or goes on through host memory); *fetching* (wait until input that lies on a
// device is in host memory, or of large input the beginning); *checking* (all ranks learn that all are in this very
// call) where that was asked for; *following* (wait until all ranks have finished an earlier call that this one may
// have left before they had seen where its buffers were: the next entry replaces it); *entering* (tell all ranks where
// the buffers lie, and learn theirs) where the choice of algorithm depends on it; *reusing* (wait until no peer still
// reads this channel's scratch on behalf of the call before); *running* (the operation, of which other threads may run
// parts); *returning* (wait until output that belongs on a device is back there).
// Resumable in each. Driven by one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "choice/chooser.h"
#include "engine/call.h"
#include "engine/execute/call_part.h"
#include "engine/execute/device_launch.h"
#include "engine/execute/operation.h"
#include "engine/execute/plans.h"
#include "engine/execute/whole_elements.h"
#include "engine/failures/diagnosis.h"
#include "tutti/error.h"

namespace tutti::engine {

struct Pending;

// Channels of the calls of the whole group; messages between two ranks have one more.
inline constexpr int kCollectiveChannels = 4;

class Track {
 public:
  // `check`: every call of the whole group is checked on all ranks before any buffer is touched. `threads`: of those
  // that run parts of calls.
  Track(transport::Transport& transport, Plans& plans, const choice::Chooser& chooser, int channel, bool check,
        const PartThreads& threads);

  // The algorithm, of an all_reduce of one byte, after which every rank knows that all ranks are in the same call:
  // every result depends on every rank, along messages that were all compared.
  static const schedule::Algorithm& check();

  // The call to start: to be filled in while none runs.
  Call& draft() { return call_; }
  void start();
  Advance advance();
  std::string_view algorithm() const { return algorithm_ == nullptr ? launch_.name() : algorithm_->name; }
  DoneBy done_by() const { return {algorithm_, algorithm()}; }
  const Call& call() const { return call_; }
  // Of a call that has finished and is recorded: when, where the clock was read at that very moment; else 0.
  std::uint64_t ended_at() const {
    return prepared_ && !call_.whole && call_.staging == nullptr && !parts_.any() ? operation_.ended_at() : 0;
  }
  // What it waits for, of a call that is under way.
  Blocked blocked() const;
  const schedule::Program* program() const;
  // Whether the caller's output is no longer what it was before the call.
  bool touched_output() const {
    if (call_.staging != nullptr && call_.staging->is_deferred()) return launch_.arrived();
    if (call_.staging != nullptr) return call_.staging->output_started();
    return scaled_ || (prepared_ && !call_.whole && operation_.touched_output()) || parts_.touched_output();
  }

  // The call that is under way has failed here: from now on nobody writes to its buffers, as far as that can be had.
  void withdraw() {
    if (phase_ == Phase::launching) launch_.withdraw(call_);
    parts_.withdraw();
  }
  // Why this rank could not launch the call for all; empty where it was not that.
  const std::optional<Error>& why_not_launched() const { return launch_.why_not(); }

  // Whether waiting for this call is in vain: a peer made another call, is gone or gave up, or nothing has moved for
  // the call's timeout. To be called between advances that were stuck, and to be believed only if the next one is, too:
  // what a peer published before it failed or left counts. Makes system calls, but builds no text.
  bool hopeless();
  const Diagnosis& diagnosis() const { return diagnosis_; }
  // Whether it has been stuck for so long that it has said so.
  bool announced() const { return announced_; }

  std::deque<std::shared_ptr<Pending>> queue;  // async calls that wait for their turn or run; guarded by AsyncCalls
  std::atomic<std::uint32_t> queued{0};        // their number

 private:
  enum class Phase : std::uint8_t { launching, fetching, checking, following, entering, reusing, running, returning };

  Advance advance_phases();
  Advance advance_parts();
  void start_on_device();
  void go_through_host();
  bool has_fetched();
  void return_slices(bool all);
  Advance return_output();
  // From here on bytes move, or the ranks compare their calls.
  void move() {
    // Scaling into the output touches it, so it too must wait until all ranks are known to be in this call.
    const bool scales_output = call_.scale != nullptr && call_.verb == Verb::all_reduce;
    if (transport_->size() == 1 || !(check_ || scales_output)) return begin_call();
    begin_check();
  }
  void begin_check();
  std::uint64_t programs() const;
  void begin_call();
  void scale_input();
  void state();
  void state_without_card();
  void enter();
  bool all_entered();
  void bind_windows();
  void begin(const schedule::Algorithm& algorithm, const Plan& plan);
  void prepare(const schedule::Algorithm& algorithm, const Plan& plan);
  bool all_retired(std::uint64_t epoch) const;
  void finish();
  int mismatched_peer() const;
  bool is_later(const Failure& failure) const;
  bool in_grace();
  std::vector<int> absent_ranks() const;

  transport::Transport* transport_;
  Plans* plans_;
  const choice::Chooser* chooser_;
  int channel_;
  bool check_;
  DeviceLaunch launch_;
  Operation operation_;
  OtherParts parts_;  // of the call, where it goes in several
  Operation checking_;
  std::byte checked_{};  // what checking_ reduces
  Call call_;
  Binding binding_, checking_binding_;
  Phase phase_ = Phase::running;
  const schedule::Algorithm* chosen_ = nullptr;  // nullptr: entering will tell
  const schedule::Algorithm* algorithm_ = nullptr;
  bool entered_ = false;        // this rank's call is shown to all
  bool looked_ = false;         // and all ranks' buffers were looked up
  bool prepared_ = false;       // the operation is this call's, not that of the call before
  bool returns_early_ = false;  // what is done of the output goes back to the device meanwhile
  std::array<std::uint64_t, transport::kMostCallParts> returned_{};  // bytes of each part that have
  bool first_ended_ = false;                                         // the first part of a call that goes in several
  bool scaled_ = false;                                              // premul_sum: the output holds the scaled input
  bool all_symmetric_ = false;
  std::uint64_t epoch_ = 0;               // operations on this channel that used flags
  std::uint64_t scratch_epoch_ = 0;       // the last of them that used scratch
  std::uint64_t open_epoch_ = 0;          // the last of them that this rank may have left before others had looked
  std::vector<transport::Flags*> flags_;  // of this channel, by rank: what each states of its call
  // The same of ranks that share memory with this one, which see each other enter, move on and retire; else nullptr.
  std::vector<transport::Flags*> in_sight_;
  std::vector<std::byte*> input_windows_, output_windows_;
  std::vector<std::byte> scaled_input_;  // premul_sum, where the output is no place for it
  std::vector<std::byte> kept_input_;    // of a call in place whose input peers copy
  WholeElements whole_;

  // For hopeless(): the deadline counts since the last movement.
  bool moved_ = true;
  bool announced_ = false;
  Deadline deadline_;
  Deadline announcement_;          // a rank that is stuck for so long tells what it is in
  std::optional<Deadline> grace_;  // since others fell out over a later call
  Diagnosis diagnosis_;
};

}  // namespace tutti::engine
