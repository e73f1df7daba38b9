// The Work that a call returns: under way, or ended and settled.
//
// A work *ends* when the core has done its part, and is *settled* when somebody has taken its result from the core and
// made the copies that the outputs still need: whoever waits or asks first, or the group's completion thread.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "backend/group.h"

namespace tutti::pytorch {

// What a call is, for people and for PyTorch.
struct Title {
  c10d::OpType type;
  const char* verb;     // "all_reduce"
  const char* profile;  // "tutti:all_reduce"
};

class Work : public c10d::Work {
 public:
  Work(std::shared_ptr<Group> group, const Title& title, const std::vector<at::Tensor>& inputs, std::uint64_t sequence);

  // What the call needs until it has ended, what it gives, and what is left to do then. Before it is started.
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> kept;
  std::function<void()> copies;

  // Starts one more part of the call, blocking or not, by start(comm, handle) -> code; inside Group::enter.
  template <class Start>
  void add(tutti_comm comm, bool blocking, Start&& start) {
    tutti_work handle = nullptr;
    const tutti_code code = start(comm, blocking ? nullptr : &handle);
    if (code != TUTTI_OK) fail_to_start(code);
    if (handle != nullptr) handles_.push_back(handle);
  }
  void add_handles(const std::vector<tutti_work>& handles) {
    handles_.insert(handles_.end(), handles.begin(), handles.end());
  }
  tutti_received* received() { return &received_; }
  // All parts are started: the group may say from now on when they have ended.
  void follow();
  // The call ran on the caller's thread.
  void ended_here();

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(Milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  float getDuration() const override { return duration_ms_; }
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  friend class Group;
  [[noreturn]] void fail_to_start(tutti_code code);
  // Drives the core until the work has ended; throws what waiting failed with, TUTTI_TIMEOUT included.
  void drive(Milliseconds timeout);
  // Takes the result, runs no callbacks; does nothing the second time. Only once the work has ended, and by whoever
  // holds the work.
  void settle() noexcept;
  // The same, and completes the future.
  void conclude() noexcept;
  void take_results();
  void fulfil_future();
  bool settled() const { return settled_.load(std::memory_order_acquire); }

  const std::shared_ptr<Group> group_;
  const std::uint64_t sequence_;
  const char* verb_;
  std::chrono::steady_clock::time_point started_;
  float duration_ms_ = 0;

  std::mutex handles_mutex_;  // whoever holds it may wait for the handles
  std::vector<tutti_work> handles_;
  std::exception_ptr error_;  // the first; guarded by handles_mutex_ until the work is settled
  tutti_received received_{-1, 0, 0};
  std::atomic<bool> settled_{false};

  // Guarded by the group's changed_mutex_.
  int open_handles_ = 0;
  bool ended_ = true;
  bool wanted_ = false;  // by the completion thread
  bool is_kept_ = false;
  std::list<WorkPtr>::iterator place_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool fulfilled_ = false;
};

}  // namespace tutti::pytorch
