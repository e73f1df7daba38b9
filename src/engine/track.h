// A track: one channel and the calls that run on it, one after the other. Different tracks run independently.
//
// A call goes through phases: *entering* (tell all ranks where the buffers lie, and learn theirs) where the choice of
// algorithm depends on it; *reusing* (wait until no peer still reads this channel's scratch on behalf of the call
// before); *running* (the operation). Resumable in each.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/call.h"
#include "engine/choose.h"
#include "engine/operation.h"
#include "engine/plans.h"

namespace tutti::engine {

struct Pending;

class Track {
 public:
  Track(transport::Transport& transport, Plans& plans, const Chooser& chooser, int channel);

  void start(const Call& call);
  Advance advance();

  const Call& call() const { return call_; }
  std::string_view algorithm() const { return algorithm_->name; }
  // For errors: a peer that is in another call, or -1; what this rank waits for.
  int mismatched_peer() const;
  std::string stuck_at(int* peer) const;

  std::deque<std::shared_ptr<Pending>> queue;  // async calls that wait for their turn or run; guarded by the engine
  std::atomic<std::uint32_t> queued{0};        // their number

 private:
  enum class Phase : std::uint8_t { entering, reusing, running, mismatched };

  void enter();
  bool all_entered();
  void bind_windows();
  void begin(const schedule::Algorithm& algorithm);
  void prepare(const schedule::Algorithm& algorithm);
  bool scratch_is_free() const;
  void finish();

  transport::Transport* transport_;
  Plans* plans_;
  const Chooser* chooser_;
  int channel_;
  Operation operation_;
  Call call_;
  Binding binding_;
  Phase phase_ = Phase::running;
  const schedule::Algorithm* algorithm_ = nullptr;
  bool entered_ = false;   // this rank's call is shown to all
  bool compared_ = false;  // ... and all ranks' calls were the same
  bool all_symmetric_ = false;
  std::uint64_t epoch_ = 0;               // operations on this channel that used flags
  std::uint64_t scratch_epoch_ = 0;       // the last of them that used scratch
  std::vector<transport::Flags*> flags_;  // of this channel, by rank
  std::vector<std::byte*> input_windows_, output_windows_;
};

}  // namespace tutti::engine
