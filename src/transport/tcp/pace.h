// When to ask a socket for more.
//
// A message that comes alone is best taken at once. In a stream of small messages, though, every read of one or two of
// them makes the system acknowledge them, and gets in the way of the sender's next: letting them pile up makes each of
// them several times cheaper, for the sender too. So once a read has brought several, the next one waits for a moment,
// and for twice as long when that paid, up to kLongest; when it did not pay, reads are not kept waiting for a while.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace tutti::transport {

class Pace {
 public:
  // `settling` counts how often this rank's threads were about to sleep: nobody may sleep over what lies unread.
  explicit Pace(const std::atomic<std::uint32_t>* settling) : settling_(settling) {}

  // A message of what was read has been taken.
  void count_message() { ++batch_; }
  // A read has brought something.
  void count_read() { asked_ = false; }

  // Asked when all that was read is used up: whether to wait before the next read.
  template <class Clock = std::chrono::steady_clock>
  bool holds() {
    if (!asked_) {
      asked_ = true;
      decide();
      if (wait_ != wait_.zero()) {
        until_ = Clock::now().time_since_epoch() + wait_;
        settled_ = settling_->load(std::memory_order_relaxed);
      }
    }
    return wait_ != wait_.zero() && settling_->load(std::memory_order_relaxed) == settled_ &&
           Clock::now().time_since_epoch() < until_;
  }

 private:
  static constexpr std::chrono::nanoseconds kFirst{4000}, kLongest{64000};
  static constexpr std::uint32_t kStream = 2, kGoodBatch = 4, kLongestRest = 255;

  void decide() {
    if (wait_ != wait_.zero()) {
      const bool paid = batch_ >= kGoodBatch || batch_ > batch_before_;
      wait_ = paid ? std::min(2 * wait_, kLongest) : wait_.zero();
      rest_ = left_ = paid ? 0 : std::min(2 * rest_ + 1, kLongestRest);
    } else if (batch_ >= kStream) {
      if (left_ == 0) wait_ = kFirst;
      if (left_ != 0) --left_;
    }
    batch_before_ = batch_;
    batch_ = 0;
  }

  const std::atomic<std::uint32_t>* settling_;
  std::uint32_t settled_ = 0;
  std::chrono::nanoseconds wait_{0}, until_{0};
  bool asked_ = false;
  std::uint32_t batch_ = 0, batch_before_ = 0;  // messages that the last read brought, and the one before
  std::uint32_t rest_ = 0, left_ = 0;           // how many batches are not kept waiting, and how many of them are left
};

}  // namespace tutti::transport
