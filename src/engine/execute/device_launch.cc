#include "engine/execute/device_launch.h"

#include <algorithm>

#include "device/kernel_compiler.h"
#include "device/launch_reduce.h"
#include "device/shared_allocations.h"

namespace tutti::engine {

using device::SharedAllocations;
using transport::DeviceCard;

DeviceLaunch::DeviceLaunch(transport::Transport& transport, int channel) : transport_(&transport), channel_(channel) {
  if (transport.device_card(channel, 0) == nullptr) return;
  for (int rank = 0; rank < transport.size(); ++rank) {
    cards_.push_back(transport.device_card(channel, rank));
    flags_.push_back(transport.flags(channel, rank));
  }
}

bool DeviceLaunch::takes(const Call& call, int ranks) {
  const bool plain = call.reduce != nullptr && call.own == nullptr && call.scale == nullptr && !call.whole;
  if (call.verb != Verb::all_reduce || !plain || call.row != nullptr || call.count == 0 || ranks < 2) return false;
  const Statement statement = call.statement();
  return device::KernelCompiler::has_reduce(static_cast<DType>(statement.type()), static_cast<ReduceOp>(statement.op()),
                                            ranks);
}

bool DeviceLaunch::show(const Call& call, std::uint64_t fingerprint) {
  waited_ = arrived_ = launched_ = false;
  if (cards_.empty()) return false;
  sequence_ = call.statement().sequence;
  DeviceCard& mine = *cards_[static_cast<std::size_t>(transport_->rank())];
  if (!call.staging->show(call.input, mine.input) || !call.staging->show(call.output, mine.output)) return false;
  mine.fingerprint = fingerprint;
  mine.device = call.staging->home().name;
  mine.process = SharedAllocations::of_process().process();
  mine.shown.store(sequence_, std::memory_order_release);
  return true;
}

DeviceLaunch::Progress DeviceLaunch::advance(const Call& call) {
  DeviceCard& first = *cards_[0];
  const auto rank = static_cast<std::uint64_t>(transport_->rank());
  if (launched_) {
    if (!call.staging->has_launched()) return Progress::stuck;
    tell(true);
    return Progress::done;
  }
  if (!arrived_) {
    if (!call.staging->is_reached()) {
      waited_ = true;
      return some_show_none() ? Progress::through_host : Progress::stuck;
    }
    arrived_ = true;
    if (waited_) first.busy.store(sequence_ << 16 | rank, std::memory_order_relaxed);
    if (arrive(first, sequence_) == transport_->size()) appoint();
  }
  if (first.launcher.load(std::memory_order_acquire) == (sequence_ << 16 | rank)) return launch(call);
  const std::uint64_t outcome = first.outcome.load(std::memory_order_acquire);
  if (outcome >> 1 >= sequence_) return (outcome & 1) != 0 ? Progress::done : Progress::through_host;
  return some_show_none() ? Progress::through_host : Progress::stuck;
}

// By the last to arrive.
void DeviceLaunch::appoint() {
  const std::uint64_t busy = cards_[0]->busy.load(std::memory_order_relaxed);
  const std::uint64_t appointed = busy >> 16 == sequence_ ? busy & 0xffff : 0;
  cards_[0]->launcher.store(sequence_ << 16 | appointed, std::memory_order_release);
  if (appointed != static_cast<std::uint64_t>(transport_->rank())) transport_->notify_all();
}

// A rank that has stated the call has shown its card before, if it shows one; a card of another call does not count.
bool DeviceLaunch::some_show_none() const {
  const std::uint64_t mine = cards_[static_cast<std::size_t>(transport_->rank())]->fingerprint;
  for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
    if (flags_[rank]->sequence.load(std::memory_order_acquire) < sequence_) continue;
    const std::uint64_t shown = cards_[rank]->shown.load(std::memory_order_acquire);
    if (shown < sequence_ || (shown == sequence_ && cards_[rank]->fingerprint != mine)) return true;
  }
  return false;
}

int DeviceLaunch::awaited() const {
  for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
    if (cards_[rank]->shown.load(std::memory_order_acquire) < sequence_) return static_cast<int>(rank);
  }
  return -1;
}

bool DeviceLaunch::all_alike() const {
  const DeviceCard& mine = *cards_[static_cast<std::size_t>(transport_->rank())];
  return std::ranges::all_of(cards_, [&](const DeviceCard* card) {
    return card->fingerprint == mine.fingerprint && card->device == mine.device;
  });
}

DeviceLaunch::Progress DeviceLaunch::launch(const Call& call) {
  if (!all_alike()) {
    tell(false);
    return Progress::through_host;
  }
  // Buffers of a rank that gave up are its caller's again.
  for (int rank = 0; rank < transport_->size(); ++rank) {
    if (transport_->gave_up(rank)) return Progress::stuck;
  }
  const Statement statement = call.statement();
  device::ReduceLaunch reduce{.type = static_cast<DType>(statement.type()),
                              .op = static_cast<ReduceOp>(statement.op()),
                              .divisor = call.divisor,
                              .sources = {},
                              .destinations = {},
                              .count = call.count};
  sources_.clear();
  destinations_.clear();
  try {
    call.staging->prepare_launch([&](const device::Driver& driver, device::CuDevice device) {
      auto& allocations = SharedAllocations::of_process();
      for (const DeviceCard* card : cards_) {
        sources_.push_back(allocations.open(driver, card->process, card->input));
        destinations_.push_back(allocations.open(driver, card->process, card->output));
      }
      device::KernelCompiler::of_process().reduce(driver, device, reduce.type, reduce.op, transport_->size());
    });
  } catch (const Error&) {
    tell(false);  // nothing has been started, and host memory serves
    return Progress::through_host;
  }
  reduce.sources = sources_;
  reduce.destinations = destinations_;
  call.staging->start_launch([&](const device::Driver& driver, device::CuDevice device, device::CuStream stream) {
    launch_reduce(driver, device, stream, reduce);
  });
  launched_ = true;
  return Progress::moved;
}

void DeviceLaunch::tell(bool done) {
  cards_[0]->outcome.store(sequence_ << 1 | (done ? 1 : 0), std::memory_order_release);
  transport_->notify_all();
}

}  // namespace tutti::engine
