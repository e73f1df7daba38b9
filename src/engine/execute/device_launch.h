// A call whose buffers lie on devices, on all ranks: one rank of each device does the device's share of the work of all
// of them, by a kernel that reads and writes all ranks' memory. Where all share a device, one launch does it all:
// kernels of several processes would take turns there, each for longer than most calls take.
//
//   each rank:      show a card, state the call ── the stream has come to the call ── arrive ── wait for the outcome
//   each launcher:  ... once all have arrived: open all ranks' memory, say so ── once all have: launch, end, say so
//
// Nobody launches before all launchers can, so that where one cannot, the call goes through host memory on all ranks
// and no buffer has changed. Nobody leaves the call before all launches have ended.
//
// A device is slow to turn to another process. So where all share one, the launcher is the last whose stream kept it
// waiting, which the device has just worked for, and where there is none always the same. Where that one's launches
// take too long, one after the other, the device turns to others in between, and has no work of this one to stay for:
// then the last to arrive takes over, which is likeliest to have some. Where there are several devices it is the lowest
// rank of each.
//
// Whether it comes to this is found out together: a rank that states the call without a card (its buffers are in host
// memory, or cannot be shown) has all others move their buffers through host memory. With a card no rank leaves a call
// before its outcome is told, so that nobody's card changes until then; a rank that has shown one of a later call has
// left this one through host memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/call.h"
#include "engine/execute/device_share.h"
#include "transport/device_card.h"
#include "transport/transport.h"

namespace tutti::engine {

// What stands for the algorithm where a call was done so, by one device or by several.
inline constexpr std::string_view kOneLaunch = "one_launch", kOwnShares = "own_shares";

class DeviceLaunch {
 public:
  enum class Progress : std::uint8_t { stuck, moved, done, through_host };

  DeviceLaunch(transport::Transport& transport, int channel);
  DeviceLaunch(const DeviceLaunch&) = delete;
  DeviceLaunch& operator=(const DeviceLaunch&) = delete;

  // To be called before the call is stated, of a kind that DeviceShare::takes(). False: this rank shows no card.
  bool show(const Call& call, std::uint64_t fingerprint);
  // Once the call is stated; resumable.
  Progress advance(const Call& call);
  // From then on the output may change.
  bool arrived() const { return arrived_; }
  // The call is given up: no launch for it begins any more, and those that other ranks or this one have begun have
  // ended when this returns, so that they write to nobody's buffer; unless who launched is gone, and its launch with
  // it, or a device is busy for very long.
  void withdraw(const Call& call);
  // Why this rank could not launch; empty where it was not that.
  const std::optional<Error>& why_not() const { return why_not_; }
  // Of the last call that was done so.
  std::string_view name() const { return is_shared() ? kOwnShares : kOneLaunch; }
  // Whether a rank that makes a call without a card may have others wait for one, because ranks have shown some before.
  bool may_be_awaited() const {
    return of_all_channels_ != nullptr && of_all_channels_->devices.load(std::memory_order_relaxed) != 0;
  }
  // A rank that has not arrived; -1: all have.
  int awaited() const;

 private:
  using Clock = std::chrono::steady_clock;

  // How far a launcher is; `failed` and `ended` are told.
  enum class Stage : std::uint8_t { none, prepared, started, failed, ended };

  Progress try_advance(const Call& call);
  Progress advance_share(const Call& call);
  void prepare(const Call& call);
  void decide();
  Progress start(const Call& call);
  void give_up_share(const Call& call);
  void end_share(bool well);
  void await_shares(const Call& call) const;
  bool has_ended(int rank) const;
  void judge(const Call& call);
  bool exchanges_in_place(const Call& call) const;
  // `stuck`: it has not been told yet.
  Progress outcome();
  bool is_launching() const;
  // By the last to arrive.
  void appoint(const Call& call);
  std::uint64_t find_launchers();
  void see_launchers();
  void say(transport::ShareState state);
  // Once all launches have ended, whoever finds it first tells the outcome.
  void settle();
  bool is_launcher(int rank) const { return (launchers_ >> rank & 1) != 0; }
  bool is_shared() const { return (launchers_ & (launchers_ - 1)) != 0; }
  template <class Holds>
  bool all_launchers(Holds&& holds) const;
  std::optional<transport::ShareState> said_by(int rank) const;
  bool some_gave_up() const;
  bool some_show_none() const;
  transport::DeviceCard& card_of(int rank) const { return *cards_[static_cast<std::size_t>(rank)]; }
  std::uint64_t shown_fingerprint(int rank) const { return card_of(rank).fingerprint.load(std::memory_order_acquire); }

  transport::Transport* transport_;
  std::vector<transport::DeviceCard*> cards_;  // by rank; empty where the ranks share no memory
  std::vector<transport::Flags*> flags_;
  transport::DeviceCard* of_all_channels_ = nullptr;
  DeviceShare share_;
  std::uint64_t sequence_ = 0;  // of the call at hand
  bool under_way_ = false, waited_ = false, arrived_ = false;
  std::uint64_t launchers_ = 0;  // DeviceCard::launchers, once they are seen
  Stage stage_ = Stage::none;
  std::optional<Error> why_not_;
  Clock::time_point launched_at_;
  double best_rate_ = 0;  // bytes a nanosecond that a launch of this rank has read and written
};

}  // namespace tutti::engine
