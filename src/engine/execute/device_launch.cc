#include "engine/execute/device_launch.h"

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "choice/device_price.h"
#include "device/kernel_compiler.h"
#include "device/launch.h"
#include "device/shared_allocations.h"
#include "engine/execute/own_operator.h"
#include "schedule/verbs.h"

namespace tutti::engine {

using device::SharedAllocations;
using transport::DeviceCard;
using transport::LaunchState;
using transport::outcome_word;

namespace {

// A launch that had to wait until the device turned to it took longer than the quickest so far by this much; turning to
// a process that nobody competes with takes half of it.
constexpr std::chrono::microseconds kTurnOfOthers{300};
// The device has left others for this rank in the first of them, and would have stayed if it had work of its own.
constexpr std::uint64_t kSlowInARow = 2;

// Of a rank that gives up, with a launch that still writes to its buffer: most take less than a millisecond, and wait
// for as long as the device takes to turn.
constexpr std::chrono::milliseconds kPatienceWithLaunches{2000};
constexpr std::chrono::microseconds kLooksApart{50};

device::OwnSource own_source_of(const Operator& own) {
  const Element& element = own.element;
  return {.text = own.device_source,
          .type = element.opaque() ? std::nullopt : std::optional(element.dtype()),
          .bytes = element.bytes(),
          .alignment = element.alignment()};
}

}  // namespace

DeviceLaunch::DeviceLaunch(transport::Transport& transport, int channel) : transport_(&transport), channel_(channel) {
  if (transport.device_card(channel, 0) == nullptr) return;
  for (int rank = 0; rank < transport.size(); ++rank) {
    cards_.push_back(transport.device_card(channel, rank));
    flags_.push_back(transport.flags(channel, rank));
  }
  opened_.resize(cards_.size());
  usual_ = &transport.device_card(0, 0)->usual;
}

bool DeviceLaunch::takes(const Call& call, int ranks) {
  const schedule::VerbFacts& facts = schedule::facts_of(call.verb);
  if (call.is_message() || facts.prefix || call.uneven || call.whole || call.row != nullptr) return false;
  if (call.count == 0 || ranks < 2 || ranks > device::kMostOperands) return false;
  if (!facts.reduces) return true;
  if (call.own != nullptr) return own_source_of(*call.own).serves(ranks);
  const Statement statement = call.statement();
  return call.reduce != nullptr && call.scale == nullptr &&
         device::KernelCompiler::has_reduce(static_cast<DType>(statement.type()), static_cast<ReduceOp>(statement.op()),
                                            ranks);
}

bool DeviceLaunch::show(const Call& call, std::uint64_t fingerprint) {
  under_way_ = waited_ = arrived_ = launched_ = false;
  why_not_.reset();
  if (cards_.empty()) return false;
  sequence_ = call.statement().sequence;
  DeviceCard& mine = *cards_[static_cast<std::size_t>(transport_->rank())];
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
  mine.fingerprint.store(fingerprint, std::memory_order_relaxed);
  mine.device = call.staging->home().name;
  mine.process = SharedAllocations::of_process().process();
  mine.shown.store(sequence_, std::memory_order_release);
  return under_way_ = true;
}

DeviceLaunch::Progress DeviceLaunch::advance(const Call& call) {
  const Progress progress = try_advance(call);
  if (progress == Progress::done || progress == Progress::through_host) under_way_ = false;
  return progress;
}

DeviceLaunch::Progress DeviceLaunch::try_advance(const Call& call) {
  DeviceCard& first = *cards_[0];
  const auto rank = static_cast<std::uint64_t>(transport_->rank());
  if (launched_) {
    if (!call.staging->has_launched()) return Progress::stuck;
    judge(call);
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
  if (told >> 2 < sequence_ || told == outcome_word(sequence_, LaunchState::launching)) return Progress::stuck;
  return static_cast<LaunchState>(told & 3) == LaunchState::done ? Progress::done : Progress::through_host;
}

// By the last to arrive.
void DeviceLaunch::appoint() {
  const std::uint64_t busy = cards_[0]->busy.load(std::memory_order_relaxed);
  const std::uint64_t usual = usual_->load(std::memory_order_relaxed);
  std::uint64_t appointed = usual & 0xffff;
  if (busy >> 16 == sequence_) {
    appointed = busy & 0xffff;
  } else if (usual >> 16 >= kSlowInARow) {
    appointed = static_cast<std::uint64_t>(transport_->rank());
    usual_->store(appointed, std::memory_order_relaxed);
  }
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
        [&](const device::Driver& driver, const device::UsedDevice& device) { prepare(call, driver, device); });
  } catch (const Error& error) {
    why_not_ = call.own == nullptr ? error : Error(error.code(), words_of(*call.own) + ": " + error.what());
    tell(false);  // nothing has been started, and host memory serves
    return Progress::through_host;
  }
  if (!begin_outcome(*cards_[0], sequence_, LaunchState::launching)) return Progress::through_host;  // one gave up
  try {
    start(call);
  } catch (...) {
    tell(false);
    throw;
  }
  launched_ = true;
  return Progress::moved;
}

void DeviceLaunch::start(const Call& call) {
  launched_at_ = Clock::now();
  call.staging->start_launch(
      [&](const device::Driver& driver, const device::UsedDevice& device, device::CuStream stream) {
        const schedule::VerbFacts& facts = schedule::facts_of(call.verb);
        const auto ranks = static_cast<std::uint32_t>(transport_->size());
        const bool by_chunks = facts.cut == schedule::Cut::chunks;
        if (!facts.reduces) {
          const bool in_columns = by_chunks && facts.input != schedule::Share::own;
          return launch_copy(driver, device, stream, kernel_.function,
                             {sources_, destinations_, call.count * call.unit_bytes, in_columns ? ranks : 1});
        }
        launch_reduce(driver, device, stream, kernel_.function,
                      {.element_bytes = call.unit_bytes,
                       .divisor = call.divisor,
                       .sources = sources_,
                       .destinations = destinations_,
                       .count = call.count,
                       .blocks = by_chunks ? ranks : 1});
      });
}

void DeviceLaunch::withdraw(const Call& call) {
  if (!std::exchange(under_way_, false) || !arrived_) return;
  if (launched_) return finish_launch(call);
  if (begin_outcome(*cards_[0], sequence_, LaunchState::through_host)) return transport_->notify_all();
  await_launch();
}

void DeviceLaunch::finish_launch(const Call& call) {
  const Deadline patience = Deadline::after(kPatienceWithLaunches);
  try {
    while (!call.staging->has_launched()) {
      if (patience.passed()) return;
      std::this_thread::sleep_for(kLooksApart);
    }
  } catch (const Error&) {
    return tell(false);
  }
  tell(true);
}

// By another rank. The driver ends what a process that is gone has launched.
void DeviceLaunch::await_launch() const {
  const Deadline patience = Deadline::after(kPatienceWithLaunches);
  const std::uint64_t launching = outcome_word(sequence_, LaunchState::launching);
  const auto launcher = static_cast<int>(cards_[0]->launcher.load(std::memory_order_relaxed) & 0xffff);
  while (cards_[0]->outcome.load(std::memory_order_acquire) == launching && !patience.passed()) {
    if (const auto failure = transport_->failure(); failure && failure->died && failure->rank == launcher) return;
    std::this_thread::sleep_for(kLooksApart);
  }
}

// All that may fail before anything is started.
void DeviceLaunch::prepare(const Call& call, const device::Driver& driver, const device::UsedDevice& device) {
  auto& allocations = SharedAllocations::of_process();
  sources_.clear();
  destinations_.clear();
  for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
    const DeviceCard& card = *cards_[rank];
    const auto open = [&](const DevicePlace& place, SharedAllocations::Last& last, std::vector<void*>& operands) {
      if (place.address == 0) return;
      operands.push_back(call.staging->use(allocations.open(driver, device.context, card.process, place, last)));
    };
    open(card.input, opened_[rank].input, sources_);
    open(card.output, opened_[rank].output, destinations_);
  }
  find_kernel(call, driver, device);
}

void DeviceLaunch::find_kernel(const Call& call, const device::Driver& driver, const device::UsedDevice& device) {
  if (kernel_.serves(call, device.context)) return;
  auto& compiler = device::KernelCompiler::of_process();
  Kernel wanted{.context = device.context, .reduces = schedule::facts_of(call.verb).reduces};
  if (!wanted.reduces) {
    wanted.function = compiler.copy(driver, device.device);
  } else if (call.own == nullptr) {
    const Statement statement = call.statement();
    wanted.type = static_cast<DType>(statement.type());
    wanted.op = static_cast<ReduceOp>(statement.op());
    wanted.function = compiler.reduce(driver, device.device, wanted.type, wanted.op, transport_->size());
  } else {
    wanted.own = call.own->device_source;
    wanted.of_own = call.own->element;
    wanted.function = compiler.reduce(driver, device.device, own_source_of(*call.own), transport_->size());
  }
  kernel_ = std::move(wanted);
}

bool DeviceLaunch::Kernel::serves(const Call& call, device::CuContext in) const {
  if (function == nullptr || context != in || reduces != schedule::facts_of(call.verb).reduces) return false;
  if (!reduces) return true;
  if (call.own != nullptr) return own == call.own->device_source && of_own == call.own->element;
  const Statement statement = call.statement();
  return own.empty() && type == static_cast<DType>(statement.type()) && op == static_cast<ReduceOp>(statement.op());
}

// Whether the device had to turn to this rank for the launch, if it is the one that launches as a rule.
void DeviceLaunch::judge(const Call& call) {
  const std::uint64_t usual = usual_->load(std::memory_order_relaxed);
  const auto took = static_cast<double>((Clock::now() - launched_at_).count());
  const auto bytes = static_cast<double>(choice::bytes_touched(
      call.verb, call.count * call.unit_bytes, call.moved_bytes, sources_.size(), destinations_.size()));
  const bool slow = best_rate_ > 0 && took > 2 * bytes / best_rate_ + std::chrono::nanoseconds(kTurnOfOthers).count();
  best_rate_ = std::max(best_rate_, bytes / took);
  if ((usual & 0xffff) != static_cast<std::uint64_t>(transport_->rank())) return;
  const std::uint64_t next = slow ? usual + (1 << 16) : usual & 0xffff;
  if (next != usual) usual_->store(next, std::memory_order_relaxed);
}

void DeviceLaunch::tell(bool done) {
  const LaunchState state = done ? LaunchState::done : LaunchState::through_host;
  cards_[0]->outcome.store(outcome_word(sequence_, state), std::memory_order_release);
  transport_->notify_all();
}

}  // namespace tutti::engine
