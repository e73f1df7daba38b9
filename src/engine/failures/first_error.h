// Why a communicator is lost: the first cause, which all later calls repeat, and whether the caller has heard of it.
//
// Any thread may call any of it. Whether there is an error is one flag, which costs a call that goes well one load.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tutti/error.h"

namespace tutti::engine {

class FirstError {
 public:
  bool exists() const { return exists_.load(std::memory_order_acquire); }
  // Whether this process itself ended the communicator, whose calls under way then end as soon as they look.
  bool aborted_here() const { return aborted_here_.load(std::memory_order_acquire); }

  // Where there is one: throws it, if the caller does not know it yet, and Error(aborted) afterwards.
  void require_none() {
    if (exists()) throw_known();
  }
  // There must be one.
  Error get() {
    const std::lock_guard lock(mutex_);
    return *error_;
  }

  // Has no effect on the one that there is.
  void record(const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = error;
    }
    exists_.store(true, std::memory_order_release);
  }
  // The same on behalf of this process, which needs not be told; false where there is one.
  bool abort_here(Error error) {
    {
      const std::lock_guard lock(mutex_);
      if (error_) return false;
      error_ = std::move(error);
      told_->store(true);
    }
    aborted_here_.store(true, std::memory_order_release);
    exists_.store(true, std::memory_order_release);
    return true;
  }

  // The caller hears of it, from the call at hand.
  void tell() { told_->store(true); }
  // Whether the caller has heard of it, from a call or from a Work, which may outlive the communicator.
  const std::shared_ptr<std::atomic<bool>>& told() const { return told_; }

 private:
  [[noreturn]] void throw_known() {
    const std::lock_guard lock(mutex_);
    // What the progress thread found is news to the caller.
    if (!told_->exchange(true)) throw Error(*error_);
    throw Error(ErrorCode::aborted, std::string("this communicator failed earlier: ") + error_->what(), error_->peer());
  }

  std::atomic<bool> exists_{false};  // set after error_
  std::atomic<bool> aborted_here_{false};
  std::mutex mutex_;
  std::optional<Error> error_;  // guarded by mutex_; never changes once it is there
  const std::shared_ptr<std::atomic<bool>> told_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace tutti::engine
