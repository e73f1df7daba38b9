#include "backend/work.h"

#include <utility>

namespace tutti::pytorch {
namespace {

std::exception_ptr exception_of(tutti_code code) {
  try {
    throw_code(code);
  } catch (...) {
    return std::current_exception();
  }
}

// A title asks PyTorch for a record of the call, which costs an allocation even where nobody looks.
const char* profile_of(const Title& title) { return at::hasCallbacks() ? title.profile : nullptr; }

}  // namespace

Work::Work(std::shared_ptr<Group> group, const Title& title, const std::vector<at::Tensor>& inputs,
           std::uint64_t sequence)
    : c10d::Work(group->rank(), title.type, profile_of(title),
                 at::hasCallbacks() ? std::optional<std::vector<at::Tensor>>(inputs) : std::nullopt),
      group_(std::move(group)),
      sequence_(sequence),
      verb_(title.verb),
      started_(std::chrono::steady_clock::now()) {}

void Work::fail_to_start(tutti_code code) {
  // A wrong argument leaves the group as it was.
  if (code != TUTTI_INVALID_ARGUMENT && code != TUTTI_UNSUPPORTED) group_->note_failure();
  throw_code(code);
}

void Work::follow() {
  const std::size_t parts = handles_.size();
  {
    const std::lock_guard lock(group_->changed_mutex_);
    open_handles_ = static_cast<int>(parts);
    ended_ = parts == 0;
  }
  group_->keep(WorkPtr::reclaim_copy(this));
  // The last of them may end the work, whose handles are then others' to free.
  for (std::size_t i = 0; i < parts; ++i) check(tutti_on_end(handles_[i], &Group::ended, this));
}

void Work::ended_here() {
  if (copies) std::exchange(copies, nullptr)();
  kept.clear();
  duration_ms_ = std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - started_).count();
  if (recordFunctionEndCallback_) {
    recordFunctionEndCallback_();
    recordFunctionEndCallback_ = nullptr;
  }
  settled_.store(true, std::memory_order_release);
}

void Work::drive(Milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  const std::lock_guard lock(handles_mutex_);
  for (tutti_work& handle : handles_) {
    if (handle == nullptr) continue;
    tutti_code code = TUTTI_OK;
    if (timeout == kNoTimeout) {
      code = tutti_wait(&handle);
    } else {
      const auto left = std::chrono::ceil<Milliseconds>(until - std::chrono::steady_clock::now());
      code = tutti_wait_for(&handle, std::max<std::int64_t>(left.count(), 0));
    }
    if (code == TUTTI_OK) continue;
    if (handle != nullptr) throw_code(code);  // the time has passed, and the call goes on
    if (!error_) error_ = exception_of(code);
  }
}

void Work::take_results() {
  for (tutti_work& handle : handles_) {
    const tutti_code code = tutti_wait(&handle);
    if (code != TUTTI_OK && !error_) error_ = exception_of(code);
  }
  if (error_) {
    group_->note_failure();
  } else if (copies) {
    try {
      copies();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  copies = nullptr;
  kept.clear();
}

void Work::settle() noexcept {
  {
    const std::lock_guard lock(handles_mutex_);
    if (settled()) return;
    take_results();
    duration_ms_ = std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - started_).count();
    c10d::Work::finish(error_);
    settled_.store(true, std::memory_order_release);
  }
  group_->release(*this);
}

void Work::conclude() noexcept {
  settle();
  fulfil_future();
}

bool Work::isCompleted() {
  if (settled()) return true;
  {
    const std::lock_guard lock(group_->changed_mutex_);
    if (!ended_) return false;
  }
  conclude();
  return true;
}

bool Work::isSuccess() const { return settled() && !error_; }
std::exception_ptr Work::exception() const { return settled() ? error_ : nullptr; }
int Work::sourceRank() const { return settled() ? received_.source : -1; }

std::vector<at::Tensor> Work::result() {
  wait();
  return outputs;
}

void Work::synchronize() { wait(); }

bool Work::wait(Milliseconds timeout) {
  if (!settled()) {
    group_->await(*this, timeout);
    conclude();
  }
  if (error_) std::rethrow_exception(error_);
  return true;
}

void Work::abort() { group_->abort(); }

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  {
    const std::lock_guard lock(group_->changed_mutex_);
    if (!future_) future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  }
  if (settled()) {
    fulfil_future();
  } else {
    group_->complete_later(*this);
  }
  return future_;
}

void Work::fulfil_future() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(group_->changed_mutex_);
    if (!future_ || std::exchange(fulfilled_, true)) return;
    future = future_;
  }
  group_->enter_callbacks();
  try {
    if (error_) {
      future->setError(error_);
    } else {
      future->markCompleted(c10::IValue(outputs));
    }
  } catch (const std::exception& error) {
    TORCH_WARN("tutti: a callback of a future threw, which nobody can catch: ", error.what());
  }
  group_->leave_callbacks();
}

}  // namespace tutti::pytorch
