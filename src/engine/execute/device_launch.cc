#include "engine/execute/device_launch.h"

#include <algorithm>
#include <bit>
#include <string>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "device/kernel_compiler.h"
#include "device/shared_allocations.h"
#include "engine/execute/own_operator.h"

namespace tutti::engine {

using device::SharedAllocations;
using transport::DeviceCard;
using transport::LaunchState;
using transport::ShareState;
using transport::state_word;

namespace {

// A launch that had to wait until the device turned to it took longer than the quickest so far by this much; turning to
// a process that nobody competes with takes half of it.
constexpr std::chrono::microseconds kTurnOfOthers{300};
// The device has left others for this rank in the first of them, and would have stayed if it had work of its own.
constexpr std::uint64_t kSlowInARow = 2;

constexpr std::chrono::microseconds kLooksApart{50};

static_assert(device::kMostOperands <= 64, "launchers are bits of a word");

std::vector<DeviceCard*> cards_of(transport::Transport& transport, int channel) {
  std::vector<DeviceCard*> cards;
  if (transport.device_card(channel, 0) == nullptr) return cards;
  for (int rank = 0; rank < transport.size(); ++rank) cards.push_back(transport.device_card(channel, rank));
  return cards;
}

std::uint64_t bit_of(int rank) { return std::uint64_t{1} << rank; }

}  // namespace

DeviceLaunch::DeviceLaunch(transport::Transport& transport, int channel)
    : transport_(&transport), cards_(cards_of(transport, channel)), share_(cards_) {
  if (cards_.empty()) return;
  for (int rank = 0; rank < transport.size(); ++rank) flags_.push_back(transport.flags(channel, rank));
  of_all_channels_ = transport.device_card(0, 0);
}

bool DeviceLaunch::show(const Call& call, std::uint64_t fingerprint) {
  under_way_ = waited_ = arrived_ = false;
  launchers_ = 0;
  stage_ = Stage::none;
  why_not_.reset();
  if (cards_.empty()) return false;
  sequence_ = call.statement().sequence;
  DeviceCard& mine = card_of(transport_->rank());
  const auto place = [&](const std::byte* buffer, std::uint64_t bytes, DevicePlace& shown) {
    if (bytes != 0) return call.staging->show(buffer, shown);
    shown = {};
    return true;
  };
  if (!place(call.input, call.input_bytes, mine.input)) return false;
  if (call.output == call.input && call.output_bytes != 0 && call.input_bytes != 0) {
    mine.output = mine.input;
  } else if (!place(call.output, call.output_bytes, mine.output)) {
    return false;
  }
  mine.fingerprint.store(fingerprint, std::memory_order_release);  // who sees it sees what became of the call before
  mine.device = call.staging->home().name;
  mine.process = SharedAllocations::of_process().process();
  mine.shown.store(sequence_, std::memory_order_release);
  if (!may_be_awaited()) of_all_channels_->devices.store(1, std::memory_order_relaxed);
  return under_way_ = true;
}

DeviceLaunch::Progress DeviceLaunch::advance(const Call& call) {
  const Progress progress = try_advance(call);
  if (progress == Progress::done || progress == Progress::through_host) under_way_ = false;
  return progress;
}

DeviceLaunch::Progress DeviceLaunch::try_advance(const Call& call) {
  DeviceCard& first = *cards_[0];
  const int rank = transport_->rank();
  if (!arrived_) {
    if (!call.staging->is_reached()) {
      waited_ = true;
      return some_show_none() ? Progress::through_host : Progress::stuck;
    }
    arrived_ = true;
    if (waited_) first.busy.store(sequence_ << 16 | static_cast<std::uint64_t>(rank), std::memory_order_relaxed);
    if (arrive(first, sequence_) == transport_->size()) appoint(call);
  }
  see_launchers();
  if (is_launcher(rank)) return advance_share(call);
  if (const Progress told = outcome(); told != Progress::stuck) return told;
  if (!some_show_none()) return Progress::stuck;
  const Progress told = outcome();  // before which no rank with a card has gone on
  return told == Progress::stuck ? Progress::through_host : told;
}

DeviceLaunch::Progress DeviceLaunch::outcome() {
  const LaunchState told = transport::outcome_of(*cards_[0], sequence_);
  if (told == LaunchState::launching) return Progress::stuck;
  see_launchers();  // whom one that ended well has had
  return told == LaunchState::done ? Progress::done : Progress::through_host;
}

bool DeviceLaunch::is_launching() const {
  return cards_[0]->outcome.load(std::memory_order_acquire) == state_word(sequence_, LaunchState::launching);
}

void DeviceLaunch::appoint(const Call& call) {
  const std::uint64_t mine = shown_fingerprint(transport_->rank());
  const bool alike = std::ranges::all_of(cards_, [&](const DeviceCard* card) { return card->fingerprint == mine; });
  if (!alike || exchanges_in_place(call)) {
    begin_outcome(*cards_[0], sequence_, LaunchState::through_host);
    return transport_->notify_all();
  }
  const std::uint64_t launchers = find_launchers();
  cards_[0]->launchers.store(launchers, std::memory_order_relaxed);
  cards_[0]->appointed.store(sequence_, std::memory_order_release);
  if (launchers != bit_of(transport_->rank())) transport_->notify_all();
}

std::uint64_t DeviceLaunch::find_launchers() {
  std::uint64_t launchers = 0;
  for (auto card = cards_.begin(); card != cards_.end(); ++card) {
    const auto shares = [&](const DeviceCard* lower) { return lower->device == (*card)->device; };
    if (std::none_of(cards_.begin(), card, shares)) launchers |= bit_of(static_cast<int>(card - cards_.begin()));
  }
  const auto devices = static_cast<std::uint64_t>(std::popcount(launchers));
  if (of_all_channels_->devices.load(std::memory_order_relaxed) != devices)
    of_all_channels_->devices.store(devices, std::memory_order_relaxed);
  if (devices > 1) return launchers;
  const std::uint64_t busy = cards_[0]->busy.load(std::memory_order_relaxed);
  const std::uint64_t usual = of_all_channels_->usual.load(std::memory_order_relaxed);
  if (busy >> 16 == sequence_) return bit_of(static_cast<int>(busy & 0xffff));
  if (usual >> 16 < kSlowInARow) return bit_of(static_cast<int>(usual & 0xffff));
  of_all_channels_->usual.store(static_cast<std::uint64_t>(transport_->rank()), std::memory_order_relaxed);
  return bit_of(transport_->rank());
}

void DeviceLaunch::see_launchers() {
  if (launchers_ != 0 || cards_[0]->appointed.load(std::memory_order_acquire) != sequence_) return;
  launchers_ = cards_[0]->launchers.load(std::memory_order_relaxed);
}

// A rank that has stated the call has shown its card before, if it shows one; a card of an earlier call does not count.
// One of a later call tells that the rank has done without, unless the outcome is told.
bool DeviceLaunch::some_show_none() const {
  const std::uint64_t mine = shown_fingerprint(transport_->rank());
  for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
    if (flags_[rank]->sequence.load(std::memory_order_acquire) < sequence_) continue;
    const std::uint64_t shown = cards_[rank]->shown.load(std::memory_order_acquire);
    if (shown != sequence_ || shown_fingerprint(static_cast<int>(rank)) != mine) return true;
  }
  return false;
}

int DeviceLaunch::awaited() const {
  for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
    if (cards_[rank]->shown.load(std::memory_order_acquire) < sequence_) return static_cast<int>(rank);
  }
  return -1;
}

// Where pieces of a rank's input lie in the place of others that it is to get, they would be overwritten before all are
// read.
bool DeviceLaunch::exchanges_in_place(const Call& call) const {
  return call.verb == Verb::all_to_all && std::ranges::any_of(cards_, [](const DeviceCard* card) {
           return card->input.allocation == card->output.allocation && card->input.offset == card->output.offset;
         });
}

// ---- of a launcher

DeviceLaunch::Progress DeviceLaunch::advance_share(const Call& call) {
  if (stage_ == Stage::started) {
    if (!call.staging->has_launched()) return Progress::stuck;
    if (!is_shared()) judge(call);
    end_share(true);
  }
  if (stage_ == Stage::ended) settle();
  if (const Progress told = outcome(); told != Progress::stuck) return told;
  if (stage_ == Stage::ended || some_gave_up()) return Progress::stuck;
  if (stage_ == Stage::none) prepare(call);
  if (!is_launching()) decide();
  if (const Progress told = outcome(); told != Progress::stuck) return told;
  return is_launching() ? start(call) : Progress::stuck;
}

void DeviceLaunch::prepare(const Call& call) {
  try {
    share_.prepare(call);
    stage_ = Stage::prepared;
  } catch (const Error& error) {  // nothing has been started, and host memory serves
    why_not_ = call.own == nullptr ? error : Error(error.code(), words_of(*call.own) + ": " + error.what());
    stage_ = Stage::failed;
  }
  say(stage_ == Stage::prepared ? ShareState::prepared : ShareState::failed);
}

// Once all launchers have said whether they can; any of them does it.
void DeviceLaunch::decide() {
  if (!all_launchers([&](int rank) { return said_by(rank).has_value(); })) return;
  const bool can = all_launchers([&](int rank) { return said_by(rank) != ShareState::failed; });
  const LaunchState state = can ? LaunchState::launching : LaunchState::through_host;
  if (begin_outcome(*cards_[0], sequence_, state) && (!can || is_shared())) transport_->notify_all();
}

DeviceLaunch::Progress DeviceLaunch::start(const Call& call) {
  const std::uint64_t lower = launchers_ & (bit_of(transport_->rank()) - 1);
  launched_at_ = Clock::now();
  const bool starts = share_.start(call, {.index = static_cast<std::uint64_t>(std::popcount(lower)),
                                          .of = static_cast<std::uint64_t>(std::popcount(launchers_))});
  stage_ = Stage::started;
  if (!starts) end_share(true);
  return Progress::moved;
}

void DeviceLaunch::end_share(bool well) {
  stage_ = well ? Stage::ended : Stage::failed;
  say(well ? ShareState::done : ShareState::failed);
  settle();
}

void DeviceLaunch::settle() {
  if (!all_launchers([&](int rank) { return has_ended(rank); })) return;
  const bool well = all_launchers([&](int rank) { return said_by(rank) == ShareState::done; });
  if (end_outcome(*cards_[0], sequence_, well ? LaunchState::done : LaunchState::through_host))
    transport_->notify_all();
}

void DeviceLaunch::say(ShareState state) {
  card_of(transport_->rank()).share.store(state_word(sequence_, state), std::memory_order_release);
  if (is_shared()) transport_->notify_all();
}

std::optional<ShareState> DeviceLaunch::said_by(int rank) const {
  const std::uint64_t said = card_of(rank).share.load(std::memory_order_acquire);
  if (said >> 2 != sequence_) return std::nullopt;
  return static_cast<ShareState>(said & 3);
}

bool DeviceLaunch::has_ended(int rank) const {
  const auto said = said_by(rank);
  return said == ShareState::done || said == ShareState::failed;
}

template <class Holds>
bool DeviceLaunch::all_launchers(Holds&& holds) const {
  for (std::uint64_t left = launchers_; left != 0; left &= left - 1) {
    if (!holds(std::countr_zero(left))) return false;
  }
  return true;
}

// Their buffers are their callers' again.
bool DeviceLaunch::some_gave_up() const {
  for (int rank = 0; rank < transport_->size(); ++rank) {
    if (transport_->gave_up(rank)) return true;
  }
  return false;
}

// Whether the device had to turn to this rank for the launch, if it is the one that launches as a rule.
void DeviceLaunch::judge(const Call& call) {
  const std::uint64_t usual = of_all_channels_->usual.load(std::memory_order_relaxed);
  const auto took = static_cast<double>((Clock::now() - launched_at_).count());
  const auto bytes = static_cast<double>(share_.bytes_touched(call));
  const bool slow = best_rate_ > 0 && took > 2 * bytes / best_rate_ + std::chrono::nanoseconds(kTurnOfOthers).count();
  best_rate_ = std::max(best_rate_, bytes / took);
  if ((usual & 0xffff) != static_cast<std::uint64_t>(transport_->rank())) return;
  const std::uint64_t next = slow ? usual + (1 << 16) : usual & 0xffff;
  if (next != usual) of_all_channels_->usual.store(next, std::memory_order_relaxed);
}

// ---- of a rank that gives up

void DeviceLaunch::withdraw(const Call& call) {
  if (!std::exchange(under_way_, false) || !arrived_) return;
  if (begin_outcome(*cards_[0], sequence_, LaunchState::through_host)) return transport_->notify_all();
  if (!is_launching()) return;
  see_launchers();
  if (is_launcher(transport_->rank())) give_up_share(call);
  await_shares(call);
}

// One that has not been started never will be.
void DeviceLaunch::give_up_share(const Call& call) {
  if (stage_ == Stage::ended || stage_ == Stage::failed) return;
  const bool started = stage_ == Stage::started;
  try {
    if (call.staging->await_writing()) end_share(started);
  } catch (const Error&) {
    end_share(false);
  }
}

// The driver ends what a process that is gone has launched.
void DeviceLaunch::await_shares(const Call& call) const {
  const auto over = [&](int rank) {
    if (has_ended(rank)) return true;
    const auto failure = transport_->failure();
    if (!failure || failure->cause != ErrorCode::peer_lost) return false;
    return (failure->died ? failure->rank : failure->blamed) == rank;
  };
  while (is_launching() && !all_launchers(over) && !call.staging->patience().passed())
    std::this_thread::sleep_for(kLooksApart);
}

}  // namespace tutti::engine
