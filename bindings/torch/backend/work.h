// The Work that a call returns: under way, or ended and settled.
//
// A work *ends* when the core has done its part, and is *settled* when somebody has taken its result from the core and
// made the copies that the outputs still need: whoever waits or asks first, or the group's completion thread.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "backend/devices.h"
#include "backend/group.h"

namespace tutti::pytorch {

// What a call is, for people and for PyTorch.
struct Title {
  c10d::OpType type;
  const char* verb;     // "all_reduce"
  const char* profile;  // "tutti:all_reduce"
};

// A call that is about to be carried out, on the stack of its operation.
struct Call {
  Title title;
  at::TensorList inputs, outputs;
  c10::SmallVector<at::Tensor, 4> kept{};  // needed until it has ended
  std::function<void()> copies{};          // left to do then

  void keep(at::TensorList tensors) { kept.append(tensors.begin(), tensors.end()); }
};

class Work : public c10d::Work {
 public:
  Work(std::shared_ptr<Group> group, Call&& call, std::uint64_t sequence);

  // All parts are started: the group may say from now on when they have ended.
  void follow();

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
  friend class Parts;
  // Drives the core until the work has ended; throws what waiting failed with, TUTTI_TIMEOUT included.
  void drive(Milliseconds timeout);
  // Takes the result, runs no callbacks; does nothing the second time. Only once the work has ended, and by whoever
  // holds the work.
  void settle() noexcept;
  // The same, and completes the future.
  void conclude() noexcept;
  void take_results();
  void fulfil_future();
  // The verb of the core that the operation is made of.
  tutti_verb core_verb() const;
  bool settled() const { return settled_.load(std::memory_order_acquire); }

  const std::shared_ptr<Group> group_;
  const std::uint64_t sequence_;
  const std::optional<c10::Device> gpu_;
  const std::vector<at::Tensor> outputs_;
  c10::SmallVector<at::Tensor, 4> kept_;
  std::function<void()> copies_;
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

// Of a call that has ended well on the caller's thread, for those who ask for a work all the same.
class EndedWork : public c10d::Work {
 public:
  EndedWork(int rank, const Call& call, std::uint64_t sequence)
      : c10d::Work(rank, call.title.type), outputs_(call.outputs.vec()), sequence_(sequence) {}

  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  std::exception_ptr exception() const override { return nullptr; }
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override {}
  bool wait(Milliseconds /*timeout*/) override { return true; }
  void abort() override {}
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  const std::vector<at::Tensor> outputs_;
  const std::uint64_t sequence_;
};

// Starts the parts of a call, inside Group::enter: those of a work, or, without one, each to its end.
class Parts {
 public:
  Parts(Group& group, tutti_comm comm, Work* work) : group_(group), comm_(comm), work_(work) {}

  // One more, by start(comm, handle) -> code.
  template <class Start>
  void add(Start&& start) {
    tutti_work handle = nullptr;
    const tutti_code code = start(comm_, work_ == nullptr ? nullptr : &handle);
    if (code != TUTTI_OK) group_.fail_to_start(code);
    if (handle != nullptr) work_->handles_.push_back(handle);
  }
  // `count` at once, of a work, by start(comm, handles) -> code.
  template <class Start>
  void add_all(std::size_t count, Start&& start) {
    std::vector<tutti_work> handles(count);
    const tutti_code code = start(comm_, handles.data());
    if (code != TUTTI_OK) group_.fail_to_start(code);
    work_->handles_.insert(work_->handles_.end(), handles.begin(), handles.end());
  }
  tutti_received* received() { return work_ == nullptr ? nullptr : &work_->received_; }

 private:
  Group& group_;
  const tutti_comm comm_;
  Work* const work_;
};

}  // namespace tutti::pytorch
