// A call whose buffers lie on one device, on all ranks: one rank does the work of all of them in one launch. Kernels of
// several processes would take turns on the device, each for longer than most calls take.
//
//   each rank:  show a card, state the call ── the stream has come to the call ── arrive ── wait for the outcome
//   one:                                 ... once all have arrived: open all ranks' memory, launch, tell
//
// The device is slow to turn to another process. So the one is the last whose stream kept it waiting, which the device
// has just worked for, and where there is none always the same. Where that one's launches take too long, one after the
// other, the device turns to others in between, and has no work of this one to stay for: then the last to arrive takes
// over, which is likeliest to have some.
//
// Whether it comes to this is found out together: a rank that states the call without a card (its buffers are in host
// memory, or cannot be shown) has all others move their buffers through host memory, and so does a launch that cannot
// be. With a card no rank leaves a call before its outcome is told, so that nobody's card changes until then; a rank
// that has shown one of a later call has left this one through host memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/shared_allocations.h"
#include "device/staging.h"
#include "engine/call.h"
#include "transport/device_card.h"
#include "transport/transport.h"
#include "tutti/element.h"

namespace tutti::engine {

class DeviceLaunch {
 public:
  enum class Progress : std::uint8_t { stuck, moved, done, through_host };

  DeviceLaunch(transport::Transport& transport, int channel);

  // Whether calls of this kind can be done so at all, as far as every rank knows by itself.
  static bool takes(const Call& call, int ranks);
  // To be called before the call is stated. False: this rank shows no card.
  bool show(const Call& call, std::uint64_t fingerprint);
  // Once the call is stated; resumable.
  Progress advance(const Call& call);
  // From then on the output may change.
  bool arrived() const { return arrived_; }
  // The call is given up: no launch for it begins any more, and one that another rank or this one has begun has ended
  // when this returns, so that it writes to nobody's buffer; unless who launched it is gone, and its launch with it, or
  // the device is busy for very long.
  void withdraw(const Call& call);
  // Why this rank could not launch; empty where it was not that.
  const std::optional<Error>& why_not() const { return why_not_; }
  // A rank that has not arrived; -1: all have.
  int awaited() const;

 private:
  using Clock = std::chrono::steady_clock;

  // What this rank launched last of its kind, so that the next of the kind need not ask for it again.
  struct Kernel {
    device::CuContext context = nullptr;
    bool reduces = false;
    DType type{};
    ReduceOp op{};
    std::string own = {};      // the source of an operator of the caller's instead of `op`
    Element of_own = DType{};  // and what it reduces
    device::CuFunction function = nullptr;

    bool serves(const Call& call, device::CuContext in) const;
  };
  struct OpenedBuffers {
    device::SharedAllocations::Last input, output;
  };

  Progress try_advance(const Call& call);
  Progress launch(const Call& call);
  void start(const Call& call);
  void finish_launch(const Call& call);
  void await_launch() const;
  void prepare(const Call& call, const device::Driver& driver, const device::UsedDevice& device);
  void find_kernel(const Call& call, const device::Driver& driver, const device::UsedDevice& device);
  void judge(const Call& call);
  bool exchanges_in_place(const Call& call) const;
  // `stuck`: it has not been told yet.
  Progress outcome() const;
  void appoint();
  void tell(bool done);
  bool all_alike() const;
  bool some_show_none() const;
  std::uint64_t shown_fingerprint(int rank) const {
    return cards_[static_cast<std::size_t>(rank)]->fingerprint.load(std::memory_order_relaxed);
  }

  transport::Transport* transport_;
  int channel_;
  std::vector<transport::DeviceCard*> cards_;  // by rank; empty where the ranks share no memory
  std::vector<transport::Flags*> flags_;
  std::atomic<std::uint64_t>* usual_ = nullptr;  // DeviceCard::usual
  std::uint64_t sequence_ = 0;                   // of the call at hand
  bool under_way_ = false, waited_ = false, arrived_ = false, launched_ = false;
  std::optional<Error> why_not_;
  std::vector<void*> sources_, destinations_;  // of the launch
  std::vector<OpenedBuffers> opened_;          // by rank
  Kernel kernel_;
  Clock::time_point launched_at_;
  double best_rate_ = 0;  // bytes a nanosecond that a launch of this rank has read and written
};

}  // namespace tutti::engine
