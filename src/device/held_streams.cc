#include "device/held_streams.h"

namespace tutti::device {

HeldStreams& HeldStreams::of_process() {
  static HeldStreams* const kStreams = new HeldStreams;  // calls may end after static objects
  return *kStreams;
}

bool HeldStreams::begin_loose() {
  const std::lock_guard lock(mutex_);
  if (any_held()) return false;
  ++loose_;
  return true;
}

void HeldStreams::end_loose() {
  const std::lock_guard lock(mutex_);
  if (--loose_ == 0) none_loose_.notify_all();
}

bool HeldStreams::begin_hold(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  if (!none_loose_.wait_for(lock, deadline.left(), [&] { return loose_ == 0; })) return false;
  ++held_;
  return true;
}

void HeldStreams::end_hold() {
  const std::lock_guard lock(mutex_);
  --held_;
}

}  // namespace tutti::device
