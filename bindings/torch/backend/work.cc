#include "backend/work.h"

#include <string_view>
#include <utility>

#include "backend/profile.h"

namespace tutti::pytorch {
namespace {

c10::intrusive_ptr<c10::ivalue::Future> new_future(const std::optional<c10::Device>& gpu) {
  std::vector<c10::Device> devices;
  if (gpu) devices.push_back(*gpu);
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

std::exception_ptr exception_of(tutti_code code) {
  try {
    throw_code(code);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

Work::Work(std::shared_ptr<Group> group, Call&& call, std::uint64_t sequence)
    : c10d::Work(group->rank(), call.title.type),
      group_(std::move(group)),
      sequence_(sequence),
      gpu_(gpu_of(call.inputs, call.outputs)),
      outputs_(call.outputs.vec()),
      kept_(std::move(call.kept)),
      copies_(std::move(call.copies)),
      verb_(call.title.verb),
      started_(std::chrono::steady_clock::now()) {
  if (auto row = begin_row(call, true)) recordFunctionEndCallback_ = at::wrapPropagateTLSState([row] { row->end(); });
}

tutti_verb Work::core_verb() const {
  constexpr std::pair<std::string_view, tutti_verb> kVerbs[] = {
      {"all_reduce", TUTTI_ALL_REDUCE}, {"all_gather", TUTTI_ALL_GATHER},
      {"all_to_all", TUTTI_ALL_TO_ALL}, {"reduce_scatter", TUTTI_REDUCE_SCATTER},
      {"reduce", TUTTI_REDUCE},         {"broadcast", TUTTI_BROADCAST},
      {"gather", TUTTI_GATHER},         {"scatter", TUTTI_SCATTER},
      {"barrier", TUTTI_BARRIER}};
  for (const auto& [begin, verb] : kVerbs)
    if (std::string_view(verb_).starts_with(begin)) return verb;
  return TUTTI_SEND_RECV;
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
  } else if (copies_) {
    try {
      const StreamAside aside(gpu_);  // whoever settles this may have a stream that nobody waits for
      copies_();
      aside.finish();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  copies_ = nullptr;
  kept_.clear();
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
  return outputs_;
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
    if (!future_) future_ = new_future(gpu_);
  }
  if (settled()) {
    fulfil_future();
  } else {
    group_->complete_later(*this);
    group_->took_future();
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
      const StreamAside aside(gpu_);  // what waits for the future on a device has nothing to wait for
      future->markCompleted(c10::IValue(outputs_));
    }
  } catch (const std::exception& error) {
    TORCH_WARN("tutti: a callback of a future threw, which nobody can catch: ", error.what());
  }
  group_->leave_callbacks();
}

c10::intrusive_ptr<c10::ivalue::Future> EndedWork::getFuture() {
  auto future = new_future(gpu_of({}, outputs_));
  future->markCompleted(c10::IValue(outputs_));
  return future;
}

}  // namespace tutti::pytorch
