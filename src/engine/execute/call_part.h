// Large calls over TCP in parts, by a thread each: to move bytes through sockets keeps a core busy, and where a rank
// has several, the others would look on.
//
//   the caller, or the progress thread:  start ── the first part, on the call's channel ───────── wait for the others
//   other threads of the rank:              ├──── the second, on a channel of its own ── ended ──┤
//                                           └──── the third ...                                  ┘
//
// Each part is the call over a stretch of the vector, or of each chunk, by the same algorithm. It is one call all the
// same: one number, one fingerprint, one statement, and whoever drives it judges whether it is hopeless.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/call.h"
#include "engine/execute/operation.h"
#include "engine/execute/plans.h"
#include "runtime/progress_thread.h"
#include "transport/transport.h"

namespace tutti::engine {

// For less a thread is hardly awake in time.
inline constexpr std::uint64_t kFewestBytesOfPart = 1 << 20;

// In how many parts the call goes, which all ranks know alike; 1: in one piece, as whatever the caller brought goes.
int parts_of(const transport::Transport& transport, const Call& call);
inline int parts_of(const transport::Transport& transport, const Call& call, const schedule::Algorithm& row) {
  return choice::is_given(row) ? 1 : parts_of(transport, call);
}
// What a thread moves of a call of so many bytes.
inline std::uint64_t bytes_of_part(std::uint64_t bytes, int parts) {
  const auto count = static_cast<std::uint64_t>(parts);
  return (bytes + count - 1) / count;
}
// What the choice of its algorithm depends on.
inline choice::Question question_of(const transport::Transport& transport, const Call& call) {
  choice::Question question = call.question();
  question.bytes = bytes_of_part(call.moved_bytes, parts_of(transport, call));
  return question;
}

// The threads that other parts than the first run on, of all communicators of a rank.
using PartThreads = std::array<std::shared_ptr<runtime::ProgressThreads>, transport::kMostCallParts - 1>;
PartThreads make_part_threads();

// One of them, of one call after the other.
class CallPart final : private runtime::Driven {
 public:
  CallPart(transport::Transport& transport, runtime::ProgressThreads& threads)
      : transport_(transport), threads_(threads), operation_(transport) {}
  ~CallPart() override = default;
  CallPart(const CallPart&) = delete;
  CallPart& operator=(const CallPart&) = delete;

  // Elements `first` and following of what is bound, `count` of them.
  void start(const Plan& plan, const Binding& whole, std::uint64_t first, std::uint64_t count);
  // What became of it since the last look; throws what its thread was thrown.
  Advance look();
  // Nobody works on it any more when this returns.
  void withdraw();

  bool ended() const { return state_.load(std::memory_order_acquire) != State::running; }
  Blocked blocked();
  int mismatched_peer();
  bool touched_output();
  // As Operation has it, and where this part begins.
  std::uint64_t elements_done() const { return elements_done_.load(std::memory_order_acquire); }
  std::uint64_t first() const { return first_; }

 private:
  enum class State : std::uint8_t { idle, running, finished, failed };

  // For its thread.
  Progress drive() override;
  Progress drive_or_fail() override { return drive(); }

  transport::Transport& transport_;
  runtime::ProgressThreads& threads_;
  std::uint64_t first_ = 0;
  std::atomic<State> state_{State::idle};
  std::atomic<std::uint64_t> moves_{0}, elements_done_{0};
  std::uint64_t seen_moves_ = 0;
  std::mutex mutex_;  // guards what follows, and changes of the state
  Operation operation_;
  Binding binding_;
  std::exception_ptr thrown_;
  // Made by the first call in parts; where the system gives no thread, whoever looks drives this one, too.
  bool alone_ = false;
  std::unique_ptr<runtime::ProgressThread::Place> thread_;  // last, so that it goes first
};

// All parts but the first of the calls on one channel.
class OtherParts {
 public:
  OtherParts(transport::Transport& transport, int channel, const PartThreads& threads);

  // None, of a call that goes in one piece.
  void forget() { count_ = 0; }
  // Starts them; the first stays in the binding.
  void start(int parts, Plans& plans, const Call& call, const schedule::Algorithm& row, Binding& whole);
  bool any() const { return count_ != 0; }
  std::size_t size() const { return count_; }
  const CallPart& operator[](std::size_t i) const { return *parts_[i]; }

  // Of all of them, as CallPart has it.
  Advance look();
  void withdraw();
  int mismatched_peer() const;
  bool touched_output() const;
  // Of the first that has not ended.
  Blocked blocked() const;
  int blocked_channel() const { return transport_.channel_of_part(channel_, static_cast<int>(first_open()) + 1); }

 private:
  // size(): all have ended.
  std::size_t first_open() const;

  transport::Transport& transport_;
  int channel_;
  std::vector<std::unique_ptr<CallPart>> parts_;
  std::size_t count_ = 0;  // of the call at hand
};

}  // namespace tutti::engine
