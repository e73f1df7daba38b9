#include "engine/execute/device_launch.h"

#include <algorithm>

#include "device/kernel_compiler.h"
#include "device/launch.h"
#include "device/shared_allocations.h"
#include "schedule/verbs.h"

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
  const schedule::VerbFacts& facts = schedule::facts_of(call.verb);
  if (call.is_message() || facts.prefix || call.uneven || call.whole || call.row != nullptr) return false;
  if (call.count == 0 || ranks < 2 || ranks > device::kMostOperands) return false;
  if (!facts.reduces) return true;
  const Statement statement = call.statement();
  return call.reduce != nullptr && call.own == nullptr && call.scale == nullptr &&
         device::KernelCompiler::has_reduce(static_cast<DType>(statement.type()), static_cast<ReduceOp>(statement.op()),
                                            ranks);
}

bool DeviceLaunch::show(const Call& call, std::uint64_t fingerprint) {
  waited_ = arrived_ = launched_ = false;
  if (cards_.empty()) return false;
  sequence_ = call.statement().sequence;
  DeviceCard& mine = *cards_[static_cast<std::size_t>(transport_->rank())];
  const auto place = [&](const std::byte* buffer, std::uint64_t bytes, DevicePlace& shown) {
    shown = {};
    return bytes == 0 || call.staging->show(buffer, shown);
  };
  if (!place(call.input, call.input_bytes, mine.input) || !place(call.output, call.output_bytes, mine.output))
    return false;
  mine.fingerprint.store(fingerprint, std::memory_order_relaxed);
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
  if (const Progress told = outcome(); told != Progress::stuck) return told;
  if (!some_show_none()) return Progress::stuck;
  const Progress told = outcome();  // before which no rank with a card has gone on
  return told == Progress::stuck ? Progress::through_host : told;
}

DeviceLaunch::Progress DeviceLaunch::outcome() const {
  const std::uint64_t told = cards_[0]->outcome.load(std::memory_order_acquire);
  if (told >> 1 < sequence_) return Progress::stuck;
  return (told & 1) != 0 ? Progress::done : Progress::through_host;
}

// By the last to arrive.
void DeviceLaunch::appoint() {
  const std::uint64_t busy = cards_[0]->busy.load(std::memory_order_relaxed);
  const std::uint64_t appointed = busy >> 16 == sequence_ ? busy & 0xffff : 0;
  cards_[0]->launcher.store(sequence_ << 16 | appointed, std::memory_order_release);
  if (appointed != static_cast<std::uint64_t>(transport_->rank())) transport_->notify_all();
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

bool DeviceLaunch::all_alike() const {
  const DeviceCard& mine = *cards_[static_cast<std::size_t>(transport_->rank())];
  return std::ranges::all_of(cards_, [&](const DeviceCard* card) {
    return card->fingerprint == mine.fingerprint && card->device == mine.device;
  });
}

// Where pieces of a rank's input lie in the place of others that it is to get, they would be overwritten before all are
// read.
bool DeviceLaunch::exchanges_in_place(const Call& call) const {
  return call.verb == Verb::all_to_all && std::ranges::any_of(cards_, [](const DeviceCard* card) {
           return card->input.allocation == card->output.allocation && card->input.offset == card->output.offset;
         });
}

DeviceLaunch::Progress DeviceLaunch::launch(const Call& call) {
  if (!all_alike() || exchanges_in_place(call)) {
    tell(false);
    return Progress::through_host;
  }
  // Buffers of a rank that gave up are its caller's again.
  for (int rank = 0; rank < transport_->size(); ++rank) {
    if (transport_->gave_up(rank)) return Progress::stuck;
  }
  try {
    call.staging->prepare_launch(
        [&](const device::Driver& driver, device::CuDevice device) { prepare(call, driver, device); });
  } catch (const Error&) {
    tell(false);  // nothing has been started, and host memory serves
    return Progress::through_host;
  }
  call.staging->start_launch([&](const device::Driver& driver, device::CuDevice device, device::CuStream stream) {
    const schedule::VerbFacts& facts = schedule::facts_of(call.verb);
    const auto ranks = static_cast<std::uint32_t>(transport_->size());
    const bool by_chunks = facts.cut == schedule::Cut::chunks;
    if (!facts.reduces) {
      const bool in_columns = by_chunks && facts.input != schedule::Share::own;
      return launch_copy(driver, device, stream,
                         {sources_, destinations_, call.count * call.unit_bytes, in_columns ? ranks : 1});
    }
    const Statement statement = call.statement();
    launch_reduce(driver, device, stream,
                  {.type = static_cast<DType>(statement.type()),
                   .op = static_cast<ReduceOp>(statement.op()),
                   .divisor = call.divisor,
                   .sources = sources_,
                   .destinations = destinations_,
                   .count = call.count,
                   .blocks = by_chunks ? ranks : 1});
  });
  launched_ = true;
  return Progress::moved;
}

// All that may fail before anything is started.
void DeviceLaunch::prepare(const Call& call, const device::Driver& driver, device::CuDevice device) {
  auto& allocations = SharedAllocations::of_process();
  sources_.clear();
  destinations_.clear();
  for (const DeviceCard* card : cards_) {
    if (card->input.address != 0) sources_.push_back(allocations.open(driver, card->process, card->input));
    if (card->output.address != 0) destinations_.push_back(allocations.open(driver, card->process, card->output));
  }
  auto& compiler = device::KernelCompiler::of_process();
  const Statement statement = call.statement();
  if (schedule::facts_of(call.verb).reduces) {
    compiler.reduce(driver, device, static_cast<DType>(statement.type()), static_cast<ReduceOp>(statement.op()),
                    transport_->size());
  } else {
    compiler.copy(driver, device);
  }
}

void DeviceLaunch::tell(bool done) {
  cards_[0]->outcome.store(sequence_ << 1 | (done ? 1 : 0), std::memory_order_release);
  transport_->notify_all();
}

}  // namespace tutti::engine
