#include "device/staging.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "device/held_streams.h"
#include "device/shared_allocations.h"
#include "tutti/error.h"

namespace tutti::device {
namespace {

constexpr char kFetching[] = "copying the input from ", kReturning[] = "copying the output to ",
               kLaunching[] = "a kernel on ";

// Of a call that was given up: most launches take less than a millisecond, and wait for as long as the device takes to
// turn.
constexpr std::chrono::milliseconds kPatienceWithWriting{2000};
constexpr std::chrono::microseconds kLooksApart{50};

// The driver hands the device copies to it of fewer bytes than these together with the work of a kernel, for which the
// device has to turn to this process: where several share it, some 150 us each way. Rows are copied by the engine that
// does nothing else, whoever's turn it is (on an H200, driver 580: up to 24 KB).
constexpr std::size_t kFewestForCopyEngine = 64 << 10;

CuResult copy_two_rows(const Driver& driver, CuAddress to, const std::byte* from, std::size_t row, CuStream stream) {
  CuCopyOfRows copy;
  copy.rows = 2;
  copy.row_bytes = copy.from.pitch = copy.to.pitch = row;
  copy.from.memory_type = kCuInHostMemory;
  copy.from.host = from;
  copy.to.memory_type = kCuOnDevice;
  copy.to.device = to;
  return driver.cuMemcpy2DAsync_v2(&copy, stream);
}

CuResult copy_to_device(const Driver& driver, CuAddress to, const std::byte* from, std::size_t bytes, CuStream stream) {
  if (bytes < 2 || bytes >= kFewestForCopyEngine) return driver.cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
  const CuResult result = copy_two_rows(driver, to, from, bytes / 2, stream);
  if (bytes % 2 == 0 || result != kCuSuccess) return result;
  return copy_two_rows(driver, to + bytes - 2, from + bytes - 2, 1, stream);  // the last byte, beside one that is there
}

// Handles of the default streams are small numbers; they belong to whatever context is current.
bool is_default(CuStream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= kCuLastDefaultStream; }

// Whether what is put into the stream comes after its own work alone. Default streams and those that block them come
// after each other, too, and asking one of them tells nothing of the others. In the stream's context.
bool is_by_itself(const Driver& driver, CuStream stream) {
  unsigned flags = 0;
  if (is_default(stream)) return false;
  driver.check(driver.cuStreamGetFlags(stream, &flags), "asking about the caller's stream");
  return (flags & kCuNonBlockingStream) != 0;
}

void refuse_capture(const Driver& driver, CuStream stream) {
  int status = 0;
  const CuResult result = driver.cuStreamIsCapturing(stream, &status);
  if (result == kCuImplicitCapture) {
    throw Error(ErrorCode::unsupported,
                "the call begins after what the default stream holds, and a stream that blocks that one is being "
                "captured into a CUDA graph; give the call a stream that does not (cudaStreamNonBlocking)");
  }
  driver.check(result, "asking about the caller's stream");
  if (status == 0) return;
  throw Error(ErrorCode::unsupported,
              "the stream is being captured into a CUDA graph, and a call of several ranks cannot be replayed from "
              "one; make the call outside of the capture");
}

// In the current context, which is the stream's.
void require_device(const Driver& driver, const UsedDevice& home) {
  CuDevice device = 0;
  driver.check(driver.cuCtxGetDevice(&device), "asking about the caller's stream");
  if (device == home.device) return;
  throw Error(ErrorCode::invalid_argument, "the stream belongs to " + name_of_device(device) +
                                               " and the buffer lies on " + name_of_device(home.device) +
                                               "; pass a stream of the buffer's device");
}

}  // namespace

void Staging::wake_rank(void* argument) {
  Staging& stage = *static_cast<Way*>(argument)->stage;
  stage.pool_->wake_();
  stage.to_come_.fetch_sub(1, std::memory_order_release);
}

// What is put into the stream is followed by an event for those who ask, and by a call for those who sleep. Where
// something of it fails, the call never comes, and the stage's memory is nobody else's any more.
template <class Copy>
void Staging::start(Way& way, CuStream stream, const char* what, Copy&& copy) {
  const Driver& driver = *pool_->driver_;
  const Current current(driver, way.device->context);
  to_come_.fetch_add(1, std::memory_order_relaxed);
  for (const StagedPiece& piece : way.pieces) {
    const CuResult result = copy(piece);
    if (result != kCuSuccess) driver.check(result, what + name_of_device(way.device->device));
  }
  record(way, stream);
  ask_for_call(way, stream);
}

void Staging::record(Way& way, CuStream stream) {
  way.marked = true;
  pool_->driver_->check(pool_->driver_->cuEventRecord(way.event, stream), "recording an event");
}

void Staging::ask_for_call(Way& way, CuStream stream) {
  pool_->driver_->check(pool_->driver_->cuLaunchHostFunc(stream, wake_rank, &way), "asking the driver for a call");
}

// To ask takes tens of microseconds beside a launch that runs, so it is left until shortly before whoever looks would
// sleep: the progress thread does so soon, a caller who has a core yields for milliseconds first.
bool Staging::looked_for_long() {
  if (asked_) return false;
  ++looks_;
  if (background_ && !pool_->caller_drives_) return asked_ = looks_ >= kLooksOfThread;
  if (pool_->crowded_) return asked_ = looks_ >= kLooksOfCaller;
  if (looks_ == kLooksOfCaller) asking_ = Deadline::after(kCallersYield);
  return asked_ = looks_ > kLooksOfCaller && asking_.passed();
}

// There is nothing else in the stream, so that it tells. Behind the launch comes an event only where the driver is
// asked for a call: by the time that comes the stream has not ended yet, but the event has been reached.
bool Staging::has_launched() {
  Way& way = launched();
  if (way.ended) return true;
  if (way.marked && !has_ended(way, kLaunching)) return false;
  if (way.marked) return end_launch(way);
  const Driver& driver = *pool_->driver_;
  const Current current(driver, way.device->context);
  const CuResult result = driver.cuStreamQuery(way.stream);
  if (result == kCuSuccess) return end_launch(way);
  if (result != kCuNotReady) driver.check(result, kLaunching + name_of_device(way.device->device));
  if (looked_for_long()) {
    record(way, way.stream);
    to_come_.fetch_add(1, std::memory_order_relaxed);
    ask_for_call(way, way.stream);
  }
  return false;
}

bool Staging::end_launch(Way& way) {
  uses_.clear();
  launching_ = false;
  return way.ended = true;
}

const Driver* Staging::driver() const { return pool_->driver_; }

// Most streams hold nothing when a call is made, and asking costs a fraction of an event. An event in a default stream,
// or in one that blocks it, comes after all that work which is put there now would.
void Staging::come_after(CuStream stream) {
  const Driver& driver = *pool_->driver_;
  CuContext context = home().context;
  if (!is_default(stream)) driver.check(driver.cuStreamGetCtx(stream, &context), "asking about the caller's stream");
  const Current current(driver, context);
  if (context != home().context) require_device(driver, home());
  refuse_capture(driver, stream);
  reached_ = false;
  if (is_by_itself(driver, stream)) {
    const CuResult result = driver.cuStreamQuery(stream);
    reached_ = result != kCuNotReady;
    if (reached_) return driver.check(result, "asking about the caller's stream");
  }
  mark_end(stream, context);
}

// In the current context, which is the stream's own. Whoever waits for an earlier use of the event goes on to do so.
void Staging::mark_end(CuStream stream, CuContext context) {
  const Driver& driver = *pool_->driver_;
  if (earlier_ != nullptr && earlier_context_ != context) forget_earlier();
  if (earlier_ == nullptr) {
    driver.check(driver.cuEventCreate(&earlier_, kCuEventWithoutTiming), "making an event");
    earlier_context_ = context;
  }
  driver.check(driver.cuEventRecord(earlier_, stream), "recording an event in the caller's stream");
}

bool Staging::is_reached() {
  if (reached_) return true;
  const Driver& driver = *pool_->driver_;
  const Current current(driver, context_);
  const CuResult result = driver.cuEventQuery(earlier_);
  if (result != kCuNotReady) {
    driver.check(result, "waiting for the caller's stream");
    return reached_ = true;
  }
  if (looked_for_long()) {
    Way& way = in_.device != nullptr ? in_ : out_;  // the one that a launch does not take, where there are both
    driver.check(driver.cuStreamWaitEvent(way.stream, earlier_, 0), "waiting for the caller's stream");
    to_come_.fetch_add(1, std::memory_order_relaxed);
    ask_for_call(way, way.stream);
  }
  return false;
}

bool Staging::show(const void* buffer, DevicePlace& place) const {
  const Current current(*pool_->driver_, context_);
  return SharedAllocations::of_process().show(*pool_->driver_, buffer, place);
}

// A launch may have taken one of the ways before.
void Staging::begin() {
  deferred_ = false;
  in_.marked = in_.ended = out_.marked = out_.ended = false;
  {
    const Current current(*pool_->driver_, context_);
    block_ = pool_->memory_->take(bytes_);
  }
  pool_->order(*this);
  start_input();
}

void Staging::forget_earlier() {
  if (earlier_ == nullptr) return;
  pool_->driver_->cuEventDestroy_v2(earlier_);  // which the driver does once nobody waits for it any more
  earlier_ = nullptr;
}

// A context that is not the one that the pool keeps may go with its stream.
void Staging::settle_earlier() {
  if (earlier_ == nullptr || earlier_context_ == context_) return;
  const Current current(*pool_->driver_, context_);
  forget_earlier();
}

bool Staging::has_ended(Way& way, const char* what) {
  if (way.ended || way.device == nullptr) return true;
  const Driver& driver = *pool_->driver_;
  const Current current(driver, way.device->context);
  const CuResult result = driver.cuEventQuery(way.event);
  if (result == kCuNotReady) return false;
  if (result != kCuSuccess) driver.check(result, what + name_of_device(way.device->device));
  return way.ended = true;
}

bool Staging::has_input() { return has_ended(in_, kFetching); }
bool Staging::has_output() {
  if (output_ready_ && chained_ && gated_) let_output_go();
  return has_ended(out_, kReturning);
}

void Staging::start_input() {
  if (in_.device == nullptr) return;
  const std::uint64_t bytes = in_.pieces.size() == 1 ? in_.pieces.front().bytes : 0;
  slices_ = 0;
  if (bytes >= kFewestBytesInSlices) order_slices(bytes);
  start(in_, in_.stream, kFetching, [&](const StagedPiece& piece) {
    return slices_ != 0 ? fetch_in_slices(piece) : fetch(block_.data + piece.offset, piece, in_.stream);
  });
}

// The first one of each part, then the second ones, and so on.
void Staging::order_slices(std::uint64_t bytes) {
  arrived_slices_.store(0, std::memory_order_relaxed);
  slices_ = (bytes + kSliceBytes - 1) / kSliceBytes;
  const auto parts = static_cast<std::size_t>(parts_);
  const std::size_t of_a_part = (slices_ + parts - 1) / parts;
  order_.clear();
  turns_.resize(slices_);
  for (std::size_t i = 0; i < of_a_part; ++i) {
    for (std::size_t slice = i; slice < slices_; slice += of_a_part) {
      turns_[slice] = static_cast<std::uint32_t>(order_.size());
      order_.push_back(static_cast<std::uint32_t>(slice));
    }
  }
}

// A thread that sleeps soon is woken by the first slice; the others come sooner than a call has done with it.
CuResult Staging::fetch_in_slices(const StagedPiece& piece) {
  const Driver& driver = *pool_->driver_;
  CuResult result = kCuSuccess;
  for (std::size_t turn = 0; turn < slices_ && result == kCuSuccess; ++turn) {
    if (turn == in_.slice_events.size()) {
      CuEvent made = nullptr;
      driver.check(driver.cuEventCreate(&made, kCuEventWithoutTiming), "making an event");
      in_.slice_events.push_back(made);
    }
    const std::uint64_t begin = order_[turn] * kSliceBytes;
    const StagedPiece part{piece.on_device + begin, piece.offset + begin, std::min(kSliceBytes, piece.bytes - begin)};
    result = fetch(block_.data + part.offset, part, in_.stream);
    if (result == kCuSuccess) result = driver.cuEventRecord(in_.slice_events[turn], in_.stream);
    if (turn != 0 || !background_ || result != kCuSuccess) continue;
    to_come_.fetch_add(1, std::memory_order_relaxed);
    ask_for_call(in_, in_.stream);
  }
  return result;
}

std::size_t Staging::arrived_slices() {
  std::size_t there = arrived_slices_.load(std::memory_order_acquire);
  if (there == slices_ || !asking_for_slices_.try_lock()) return there;
  const std::lock_guard asking(asking_for_slices_, std::adopt_lock);
  const Driver& driver = *pool_->driver_;
  const Current current(driver, in_.device->context);
  for (there = arrived_slices_.load(std::memory_order_relaxed); there != slices_; ++there) {
    const CuResult result = driver.cuEventQuery(in_.slice_events[there]);
    if (result == kCuNotReady) break;
    if (result != kCuSuccess) driver.check(result, kFetching + name_of_device(in_.device->device));
  }
  arrived_slices_.store(there, std::memory_order_release);
  return there;
}

bool Staging::has_arrived(std::uint64_t begin, std::uint64_t end) {
  const std::size_t there = arrived_slices();
  if (there == slices_) return true;
  for (std::uint64_t slice = begin / kSliceBytes; slice * kSliceBytes < end; ++slice) {
    if (turns_[slice] >= there) return false;
  }
  return true;
}

CuResult Staging::fetch(std::byte* to, const StagedPiece& piece, CuStream stream) {
  return pool_->driver_->cuMemcpyDtoHAsync_v2(to, reinterpret_cast<CuAddress>(piece.on_device), piece.bytes, stream);
}

void Staging::put_back(std::uint64_t most_bytes) {
  const Driver& driver = *pool_->driver_;
  start(out_, out_.stream, kReturning, [&](const StagedPiece& piece) {
    const std::size_t bytes = std::min<std::uint64_t>(piece.bytes, most_bytes);
    most_bytes -= bytes;
    if (bytes == 0) return kCuSuccess;
    return copy_to_device(driver, reinterpret_cast<CuAddress>(piece.on_device), block_.data + piece.offset, bytes,
                          out_.stream);
  });
}

void Staging::return_slice(std::uint64_t from, std::uint64_t to) {
  const Driver& driver = *pool_->driver_;
  const Current current(driver, out_.device->context);
  const StagedPiece& whole = out_.pieces.front();
  returning_ = true;
  const CuResult result = copy_to_device(driver, reinterpret_cast<CuAddress>(whole.on_device + from),
                                         block_.data + whole.offset + from, to - from, out_.stream);
  if (result != kCuSuccess) driver.check(result, kReturning + name_of_device(out_.device->device));
  record(out_, out_.stream);  // for whoever gives up
}

void Staging::start_output(std::uint64_t most_bytes) {
  output_ready_ = true;
  if (out_.device == nullptr) return;
  if (returning_) most_bytes = 0;  // all of it has been put there
  if (!chained_) return put_back(most_bytes);
  new_bytes_ = most_bytes;
  let_output_go();
}

const Deadline& Staging::patience() {
  if (!patience_) patience_ = Deadline::after(kPatienceWithWriting);
  return *patience_;
}

// A stream that was held comes after the output; where none was, who is told of the failure frees its buffers.
bool Staging::await_writing() {
  const bool returns = out_.device != nullptr && out_.marked && !out_.ended && !(chained_ && callers_ != nullptr);
  if (!returns && !launching_) return true;
  const bool launches = launching_;
  while (!(launches ? has_launched() : has_ended(out_, kReturning))) {
    if (patience().passed()) return false;
    std::this_thread::sleep_for(kLooksApart);
  }
  return true;
}

void Staging::finish_writing() {
  try {
    if (await_writing()) return;
    const bool asked = launching_ ? launched().marked : !returning_ || output_ready_;
    if (asked) return;
    Way& way = launching_ ? launched() : out_;
    to_come_.fetch_add(1, std::memory_order_relaxed);  // before which nothing of this stage is used again
    const Current current(*pool_->driver_, way.device->context);
    record(way, way.stream);
    ask_for_call(way, way.stream);
  } catch (const Error&) {
    return;  // the device has failed, and writes nothing any more
  }
}

// What is new of a chained output has come; the rest has, too, once the device has shown it.
void Staging::let_output_go() {
  if (kept_.device != nullptr) {
    std::uint64_t at = 0;
    for (const StagedPiece& piece : out_.pieces) at += piece.bytes;
    if (new_bytes_ < at && !has_ended(kept_, kFetching)) return;
    at = 0;
    for (const StagedPiece& piece : out_.pieces) {
      const std::uint64_t fresh = std::min<std::uint64_t>(piece.bytes, new_bytes_ - std::min(new_bytes_, at));
      std::memcpy(block_.data + piece.offset + fresh, kept_block_.data + at + fresh, piece.bytes - fresh);
      at += piece.bytes;
    }
  }
  open_gate();
}

void Staging::open_gate() {
  if (!std::exchange(gated_, false)) return;
  gate_.open();
  HeldStreams::of_process().end_hold();
}

// Into memory of its own, behind what the caller's stream holds.
void Staging::keep_output() {
  std::vector<StagedPiece> pieces = out_.pieces;
  std::uint64_t bytes = 0;
  for (StagedPiece& piece : pieces) {
    piece.offset = bytes;
    bytes += piece.bytes;
  }
  pool_->bind(kept_, out_.device->device, pieces);
  kept_block_ = pool_->memory_->take(bytes);
  pool_->memory_->require_registered(kept_block_);
  start(kept_, out_.stream, kFetching,
        [&](const StagedPiece& piece) { return fetch(kept_block_.data + piece.offset, piece, out_.stream); });
}

// The word that opens the gate, in the current context.
CuAddress Staging::gate_word() {
  const Driver& driver = *pool_->driver_;
  if (const CuAddress word = gate_.shown(driver); word != 0) return word;
  gate_ = StreamGates::of_process().take(driver);
  return gate_.shown(driver);
}

void Staging::prepare_chain(bool keeps_rest) {
  chained_ = out_.device != nullptr;
  if (!chained_) return;
  const Current current(*pool_->driver_, out_.device->context);
  pool_->memory_->require_registered(block_);
  if (keeps_rest) keep_output();
}

void Staging::chain_output(const Deadline& deadline) {
  const Driver& driver = *pool_->driver_;
  if (!chained_ && callers_ == nullptr) return;
  CuStream const held = chained_ ? out_.stream : callers_;
  const Current current(driver, chained_ ? out_.device->context : context_);
  const CuAddress word = gate_word();
  if (!HeldStreams::of_process().begin_hold(deadline)) {
    throw Error(ErrorCode::timeout,
                "an async call that is to hold a stream waits until those of this process that hold none have ended, "
                "and they have not; wait for them first, or give all of them streams");
  }
  gated_ = true;
  driver.check(driver.cuStreamWaitValue32_v2(held, word, gate_.value + 1, kCuWaitUntilAtLeast),
               "having a stream wait for an async call");
  if (!chained_) return;
  put_back(~std::uint64_t{0});
  if (callers_ == nullptr) return;
  const Current callers(driver, context_);
  driver.check(driver.cuStreamWaitEvent(callers_, out_.event, 0), "having the caller's stream wait for an async call");
}

}  // namespace tutti::device
