// Which stagings there are, with the streams, events and memory that they go on to use.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/held_streams.h"
#include "device/staging.h"
#include "tutti/error.h"

namespace tutti::device {
namespace {

// All is done in the primary context: what the default stream of another one holds would not be waited for.
void require_primary(const UsedDevice* used, CuContext context) {
  if (used == nullptr || context == nullptr || context == used->context) return;
  throw Error(ErrorCode::invalid_argument,
              "the buffer was allocated in a context of " + name_of_device(used->device) +
                  " that is not its primary one, with which calls are ordered; allocate it in the primary context "
                  "(cuDevicePrimaryCtxRetain), as cudaMalloc, PyTorch and CuPy do");
}

}  // namespace

StagingPool::~StagingPool() {
  if (driver_ == nullptr) return;
  const AmidCaptures amid_captures(*driver_);
  for (const auto& stage : all_) {
    drop(stage->in_);
    drop(stage->out_);
    drop(stage->kept_);
    drop_event(*stage);
    StreamGates::of_process().give_back(stage->gate_);
  }
  for (Staging* const stage : closing_) give_back_memory(*stage);
  if (callers_ != nullptr) give_back_memory(*callers_);
  memory_.reset();
  for (const auto& used : devices_) driver_->cuDevicePrimaryCtxRelease_v2(used->device);
}

UsedDevice& StagingPool::use(CuDevice device) {
  for (const auto& used : devices_) {
    if (used->device == device) return *used;
  }
  auto made = std::make_unique<UsedDevice>();
  made->device = device;
  driver_->check(driver_->cuDevicePrimaryCtxRetain(&made->context, device), "using " + name_of_device(device));
  CuUuid name{};
  driver_->check(driver_->cuDeviceGetUuid_v2(&name, device), "asking for the name of " + name_of_device(device));
  made->name = name.bytes;
  int multiprocessors = 0;
  driver_->check(driver_->cuDeviceGetAttribute(&multiprocessors, kCuMultiprocessors, device),
                 "asking what " + name_of_device(device) + " can do");
  made->multiprocessors = static_cast<unsigned>(std::max(1, multiprocessors));
  return *devices_.emplace_back(std::move(made));
}

void StagingPool::equip(Staging::Way& way) {
  const Current current(*driver_, way.device->context);
  way.context = way.device->context;
  driver_->check(driver_->cuEventCreate(&way.event, kCuEventWithoutTiming), "making an event");
  // Of a priority that programs rarely use: streams of one priority may share a queue of the device, and a copy of ours
  // must never stand behind a stream that waits for it.
  int least = 0, greatest = 0;
  driver_->check(driver_->cuCtxGetStreamPriorityRange(&least, &greatest), "asking about priorities");
  driver_->check(driver_->cuStreamCreateWithPriority(&way.stream, kCuNonBlockingStream, greatest), "making a stream");
}

void StagingPool::drop(Staging::Way& way) {
  if (way.context == nullptr || driver_->cuCtxPushCurrent_v2(way.context) != kCuSuccess) return;
  if (way.stream != nullptr) {
    driver_->cuStreamSynchronize(way.stream);  // what was called back in it has returned then
    driver_->cuStreamDestroy_v2(way.stream);
  }
  if (way.event != nullptr) driver_->cuEventDestroy_v2(way.event);
  for (CuEvent event : way.slice_events) driver_->cuEventDestroy_v2(event);
  way.slice_events.clear();
  way.stream = nullptr;
  way.event = nullptr;
  way.context = nullptr;
  CuContext popped = nullptr;
  driver_->cuCtxPopCurrent_v2(&popped);
}

void StagingPool::drop_event(Staging& stage) {
  if (stage.earlier_ == nullptr || driver_->cuCtxPushCurrent_v2(stage.earlier_context_) != kCuSuccess) return;
  stage.forget_earlier();
  CuContext popped = nullptr;
  driver_->cuCtxPopCurrent_v2(&popped);
}

StagingPool::Plan& StagingPool::draft() {
  Plan fresh;
  fresh.input.swap(draft_.input);
  fresh.output.swap(draft_.output);
  fresh.input.clear();
  fresh.output.clear();
  return draft_ = std::move(fresh);
}

// The lists are locked.
Staging& StagingPool::make_stage() {
  Staging& made = *all_.emplace_back(std::make_unique<Staging>());
  made.pool_ = this;
  made.in_.stage = made.out_.stage = made.kept_.stage = &made;
  return made;
}

Staging& StagingPool::callers_stage() {
  if (callers_ == nullptr) {
    const std::lock_guard lock(mutex_);
    callers_ = &make_stage();
    callers_->is_callers_ = true;
  }
  if (callers_is_open_ || !callers_->has_called_back()) return idle_stage();
  give_back_memory(*callers_);
  callers_is_open_ = true;
  return *callers_;
}

Staging& StagingPool::idle_stage() {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < closing_.size();) {
    if (!closing_[i]->has_called_back()) {
      ++i;
      continue;
    }
    recycle(*closing_[i]);
    closing_[i] = closing_.back();
    closing_.pop_back();
  }
  if (idle_.empty()) return make_stage();
  Staging& stage = *idle_.back();
  idle_.pop_back();
  return stage;
}

// Stream and event of an earlier call are of use again, unless that was on another device.
void StagingPool::bind(Staging::Way& way, int device, const std::vector<StagedPiece>& pieces) {
  way.marked = way.ended = false;
  way.device = nullptr;
  if (device == kOnHost) return;
  way.device = &use(device);
  way.pieces.assign(pieces.begin(), pieces.end());
  if (way.context == way.device->context && way.stream != nullptr) return;
  drop(way);
  equip(way);
}

// Both ways come after what the caller's stream holds: the output may still be read there.
void StagingPool::order(Staging& stage) {
  if (stage.reached_) return;
  CuResult result = kCuSuccess;
  for (const Staging::Way* const way : {&stage.in_, &stage.out_}) {
    if (way->device == nullptr || result != kCuSuccess) continue;
    const Current current(*driver_, way->device->context);
    result = driver_->cuStreamWaitEvent(way->stream, stage.earlier_, 0);
  }
  driver_->check(result, "waiting for the caller's stream");
}

StagingPool::Handle StagingPool::open(const Driver& driver, const Plan& plan) {
  driver.require_complete();
  const AmidCaptures amid_captures(driver);
  if (driver_ == nullptr) driver_ = &driver;  // there is one; stages that are open read it on other threads
  if (memory_ == nullptr) memory_ = std::make_unique<PinnedMemory>(driver);
  Handle stage(plan.background ? &idle_stage() : &callers_stage());
  stage->chained_ = stage->output_ready_ = stage->returning_ = false;
  stage->slices_ = 0;
  stage->parts_ = plan.parts;
  stage->begin_to_look();
  stage->background_ = plan.background;
  stage->loose_ = plan.loose && HeldStreams::of_process().begin_loose();
  stage->kept_.device = nullptr;
  stage->patience_.reset();
  bind(stage->in_, plan.input_device, plan.input);
  bind(stage->out_, plan.output_device, plan.output);
  require_primary(stage->in_.device, plan.input_context);
  require_primary(stage->out_.device, plan.output_context);
  stage->callers_ = static_cast<CuStream>(plan.stream);
  stage->context_ = stage->home().context;
  stage->bytes_ = plan.bytes;
  stage->come_after(stage->callers_);
  if (!plan.holds) stage->callers_ = nullptr;
  stage->deferred_ = plan.deferred;
  if (!plan.deferred) stage->begin();
  return stage;
}

void StagingPool::close(Staging& stage) {
  stage.open_gate();
  stage.finish_writing();
  if (std::exchange(stage.loose_, false)) HeldStreams::of_process().end_loose();
  stage.settle_earlier();
  if (stage.is_callers_) {
    if (stage.has_called_back()) give_back_memory(stage);
    callers_is_open_ = false;
    return;
  }
  const std::lock_guard lock(mutex_);
  if (stage.has_called_back()) {
    recycle(stage);
  } else {
    closing_.push_back(&stage);
  }
}

void StagingPool::give_back_memory(Staging& stage) {
  stage.uses_.clear();
  stage.launching_ = false;
  for (PinnedMemory::Block* const block : {&stage.block_, &stage.kept_block_}) {
    if (block->data != nullptr) memory_->give_back(*block);
    *block = {};
  }
}

void StagingPool::recycle(Staging& stage) {
  give_back_memory(stage);
  idle_.push_back(&stage);
}

}  // namespace tutti::device
