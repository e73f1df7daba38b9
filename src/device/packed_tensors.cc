#include "device/packed_tensors.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/interrupt.h"
#include "tutti/error.h"

namespace tutti::device {
namespace {

constexpr int kLooksWithoutSleep = 1000;
constexpr std::chrono::microseconds kLooksApart{50};

// Stagings of all packed tensors of this process: what they use is used again. Handles are opened one at a time.
struct Stagings {
  std::mutex opening;
  StagingPool pool{[] {}};
};

Stagings& stagings() {
  static Stagings* const kStagings = new Stagings;  // the driver may be gone when static objects go
  return *kStagings;
}

}  // namespace

PackedTensors::PackedTensors(std::span<const TensorToPack> tensors, std::size_t alignment, void* stream,
                             std::chrono::milliseconds timeout)
    : timeout_(timeout), own_(nullptr, Release{static_cast<std::align_val_t>(alignment)}) {
  look_for_driver();
  const Driver* const known = driver();
  for (const TensorToPack& tensor : tensors) {
    const FoundMemory found = known == nullptr ? FoundMemory{} : find_memory(*known, tensor.data);
    const StagedPiece piece{static_cast<const std::byte*>(tensor.data), bytes_, tensor.bytes};
    bytes_ += tensor.bytes;
    if (found.device == kOnHost) {
      on_host_.push_back(piece);
    } else {
      on_device(found).plan.input.push_back(piece);
    }
  }
  for (OnDevice& each : devices_) {
    each.plan.output = each.plan.input;
    each.plan.bytes = bytes_;
    each.plan.stream = stream;
    const std::lock_guard lock(stagings().opening);
    each.staging = stagings().pool.open(*known, each.plan);
  }
  if (devices_.empty()) own_.reset(static_cast<std::byte*>(::operator new(bytes_, own_.get_deleter().alignment)));
  memory_ = devices_.empty() ? own_.get() : devices_.front().staging->memory();
  for (const StagedPiece& piece : on_host_) std::memcpy(memory_ + piece.offset, piece.on_device, piece.bytes);
  wait_for_all([](Staging& staging) { return staging.has_input(); });
  copy_others([&](std::byte* theirs, std::size_t at, std::size_t bytes) { std::memcpy(memory_ + at, theirs, bytes); });
}

PackedTensors::~PackedTensors() = default;

PackedTensors::OnDevice& PackedTensors::on_device(const FoundMemory& found) {
  const auto same = [&](const OnDevice& each) {
    return each.plan.input_device == found.device && each.plan.input_context == found.context;
  };
  if (const auto known = std::ranges::find_if(devices_, same); known != devices_.end()) return *known;
  OnDevice& made = devices_.emplace_back();
  made.plan.input_device = made.plan.output_device = found.device;
  made.plan.input_context = made.plan.output_context = found.context;
  made.plan.holds = false;
  made.plan.background = true;  // not the one of a caller that waits: several threads may have one each
  return made;
}

template <class HasEnded>
void PackedTensors::wait_for_all(HasEnded&& has_ended) const {
  const Deadline deadline = Deadline::after(timeout_);
  Deadline asking = Deadline::after(kAskedEvery);
  const auto ended = [&](const OnDevice& each) { return has_ended(*each.staging); };
  for (int look = 0; !std::ranges::all_of(devices_, ended); ++look) {
    if (look < kLooksWithoutSleep) {
      std::this_thread::yield();
      continue;
    }
    if (deadline.passed()) {
      throw Error(ErrorCode::timeout,
                  "still waits for the work of the stream it was given, or a copy between device and host");
    }
    if (asking.passed()) {
      throw_if_interrupted();
      asking = Deadline::after(kAskedEvery);
    }
    std::this_thread::sleep_for(kLooksApart);
  }
}

template <class Copy>
void PackedTensors::copy_others(Copy&& copy) const {
  for (std::size_t i = 1; i < devices_.size(); ++i) {
    for (const StagedPiece& piece : devices_[i].plan.input)
      copy(devices_[i].staging->memory() + piece.offset, piece.offset, piece.bytes);
  }
}

void PackedTensors::unpack() {
  for (const StagedPiece& piece : on_host_)
    std::memcpy(const_cast<std::byte*>(piece.on_device), memory_ + piece.offset, piece.bytes);
  copy_others([&](std::byte* theirs, std::size_t at, std::size_t bytes) { std::memcpy(theirs, memory_ + at, bytes); });
  for (OnDevice& each : devices_) each.staging->start_output(~std::uint64_t{0});
  wait_for_all([](Staging& staging) { return staging.has_output(); });
}

}  // namespace tutti::device
