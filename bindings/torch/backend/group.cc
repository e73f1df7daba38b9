#include "backend/group.h"

#include <pthread.h>
#include <pybind11/pybind11.h>
#include <signal.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <set>
#include <utility>

#include "backend/store.h"
#include "backend/work.h"

namespace tutti::pytorch {
namespace {

// How long works that nobody has waited for may still take when their group is left.
constexpr Milliseconds kGrace{2000};

std::atomic<int> forks{0};
const int kWatchForks = ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });

// The group that this thread completes futures for.
thread_local const Group* settles_for = nullptr;

struct Registry {
  std::mutex mutex;
  std::set<std::weak_ptr<Group>, std::owner_less<std::weak_ptr<Group>>> groups;
};
Registry& registry() {
  static auto* const kRegistry = new Registry;  // groups may go after all else
  return *kRegistry;
}

// The calling thread is held up in here, where that is recorded. The core takes no lock of a communicator's for it, so
// that changed_mutex_ may be held.
class RecordedWait {
 public:
  RecordedWait() { tutti_trace_wait_begin(&wait_); }
  ~RecordedWait() { tutti_trace_wait_end(&wait_); }
  RecordedWait(const RecordedWait&) = delete;
  RecordedWait& operator=(const RecordedWait&) = delete;

 private:
  tutti_trace_wait wait_{};
};

bool is_traced() {
  tutti_trace_wait wait{};
  return tutti_trace_wait_begin(&wait) == TUTTI_OK && wait.trace != 0;
}

// Whoever joins a thread that runs Python callbacks must not hold what they need.
class WithoutPython {
 public:
  WithoutPython() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) state_ = PyEval_SaveThread();
  }
  ~WithoutPython() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutPython(const WithoutPython&) = delete;
  WithoutPython& operator=(const WithoutPython&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace

Group::Group(const GroupOptions& options)
    : rank_(options.rank),
      size_(options.size),
      name_(options.name),
      options_(c10::make_intrusive<c10d::Backend::Options>("tutti", options.timeout)),
      forks_(forks.load()) {}

std::shared_ptr<Group> Group::meet(const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options) {
  tutti_options wanted;
  check(tutti_options_default(&wanted, sizeof wanted));
  const std::string job = "torch " + options.name;
  wanted.timeout_ms = options.timeout.count();
  wanted.rank = options.rank;
  wanted.world_size = options.size;
  wanted.job = job.c_str();
  const std::shared_ptr<Group> group(new Group(options));
  StoreFunctions functions(store);
  check(tutti_init_with_store(&wanted, functions.get(), &group->comm_));
  group->begin();
  return group;
}

std::shared_ptr<Group> Group::duplicate(const std::string& name) {
  const std::shared_ptr<Group> group(new Group({.rank = rank_, .size = size_, .name = name, .timeout = timeout()}));
  enter(Milliseconds(0), [&](tutti_comm comm) { check(tutti_comm_duplicate(comm, &group->comm_)); });
  group->begin();
  return group;
}

void Group::begin() {
  std::int64_t timeout_ms = 0;  // a variable may have changed it
  check(tutti_get_timeout(comm_, &timeout_ms));
  set_timeout_ = Milliseconds(timeout_ms);
  set_timeout(set_timeout_);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.groups.insert(weak_from_this());
}

// The completion thread holds the group, so it has been stopped by leave(), or was never started.
Group::~Group() {
  if (comm_ != nullptr) tutti_comm_free(&comm_);
}

void Group::set_timeout(Milliseconds timeout) {
  if (timeout <= Milliseconds(0))
    throw_value("a timeout is longer than nothing, not " + std::to_string(timeout.count()) + " ms");
  std::atomic_ref(options_->timeout).store(timeout, std::memory_order_relaxed);
}

void Group::require_usable() const {
  if (forks_ != forks.load(std::memory_order_relaxed)) {
    throw_failure(
        "this process was forked after the process group was made, and the group is its parent's; call "
        "init_process_group in the child, or start processes with spawn");
  }
}

void Group::prepare(Milliseconds timeout) {
  require_usable();
  if (comm_ == nullptr) throw_failure("this process group was destroyed; make a new one with init_process_group");
  const Milliseconds wanted = timeout > Milliseconds(0) ? timeout : this->timeout();
  if (wanted != set_timeout_) {
    check(tutti_set_timeout(comm_, wanted.count()));
    set_timeout_ = wanted;
  }
  if (kept_count_.load(std::memory_order_relaxed) != 0) sweep();
}

void Group::fail_to_start(tutti_code code) {
  // A wrong argument leaves the group as it was.
  if (code != TUTTI_INVALID_ARGUMENT && code != TUTTI_UNSUPPORTED) note_failure();
  throw_code(code);
}

// Works that ended and that nobody has asked about would keep their tensors.
void Group::sweep() {
  for (;;) {
    WorkPtr first;
    {
      const std::lock_guard lock(changed_mutex_);
      if (kept_.empty() || !kept_.front()->ended_) return;
      first = kept_.front();
    }
    first->settle();
  }
}

void Group::settle_all() {
  for (;;) {
    WorkPtr first;
    {
      const std::lock_guard lock(changed_mutex_);
      if (kept_.empty()) return;
      first = kept_.front();
    }
    first->conclude();
  }
}

void Group::keep(const WorkPtr& work) {
  bool later = false;
  {
    const std::lock_guard lock(changed_mutex_);
    kept_.push_back(work);
    work->place_ = std::prev(kept_.end());
    work->is_kept_ = true;
    if (!work->ended_) open_.fetch_add(1, std::memory_order_release);
    kept_count_.store(static_cast<int>(kept_.size()), std::memory_order_relaxed);
    later = static_cast<bool>(work->copies_);
  }
  if (later) complete_later(*work);
}

void Group::release(Work& work) {
  WorkPtr last;  // goes after the lock
  const std::lock_guard lock(changed_mutex_);
  if (!std::exchange(work.is_kept_, false)) return;
  last = std::move(*work.place_);
  kept_.erase(work.place_);
  kept_count_.store(static_cast<int>(kept_.size()), std::memory_order_relaxed);
}

void Group::ended(void* context) {
  auto* const work = static_cast<Work*>(context);
  Group& group = *work->group_;
  const std::lock_guard lock(group.changed_mutex_);
  if (--work->open_handles_ > 0) return;
  work->ended_ = true;
  const bool last = group.open_.fetch_sub(1, std::memory_order_release) == 1;
  if (last && group.futures_awaited_since_) {
    group.waited_for_futures_[work->core_verb()] += std::chrono::steady_clock::now() - *group.futures_awaited_since_;
    group.futures_awaited_since_.reset();
    tutti_trace_wait_end(&group.traced_wait_);
  }
  if (work->wanted_) group.hand_over(*work);
  group.changed_.notify_all();
}

void Group::await(Work& work, Milliseconds timeout) {
  require_usable();
  const bool limited = timeout > Milliseconds(0);
  const auto until = std::chrono::steady_clock::now() + timeout;
  const auto left = [&] {
    if (!limited) return kNoTimeout;
    return std::max(Milliseconds(1), std::chrono::ceil<Milliseconds>(until - std::chrono::steady_clock::now()));
  };
  std::unique_lock lock(changed_mutex_);
  futures_awaited_since_.reset();  // the core counts this
  traced_wait_ = {};
  std::optional<RecordedWait> recorded;  // the core records what this thread drives
  while (!work.ended_) {
    if (!driving_ && !leaving_) {
      driving_ = true;
      lock.unlock();
      std::exception_ptr late;
      try {
        work.drive(left());
      } catch (...) {
        late = std::current_exception();
      }
      lock.lock();
      driving_ = false;
      changed_.notify_all();
      if (late && !work.ended_) std::rethrow_exception(late);
      continue;
    }
    if (!recorded) recorded.emplace();
    if (!limited) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, until) == std::cv_status::timeout && !work.ended_) {
      throw_failure("rank " + std::to_string(rank_) + ", " + work.verb_ +
                    ": still under way when the time given to wait() had passed");
    }
  }
}

void Group::await_all() {
  std::unique_lock lock(changed_mutex_);
  const RecordedWait recorded;
  changed_.wait(lock, [&] { return open_.load() == 0; });
}

void Group::complete_later(Work& work) {
  const std::lock_guard lock(changed_mutex_);
  if (std::exchange(work.wanted_, true)) return;
  if (threads_.empty() && !stop_) start_thread();
  if (work.ended_) hand_over(work);
}

void Group::start_thread() {
  threads_.emplace_back([self = shared_from_this()] { self->settle_loop(); });
}

void Group::hand_over(Work& work) {
  completions_.push_back(WorkPtr::reclaim_copy(&work));
  if (in_callbacks_ == threads_.size() && !stop_) start_thread();
  changed_.notify_all();
}

void Group::enter_callbacks() {
  if (settles_for != this) return;
  const std::lock_guard lock(changed_mutex_);
  ++in_callbacks_;
  if (in_callbacks_ == threads_.size() && !completions_.empty() && !stop_) start_thread();
}

void Group::leave_callbacks() {
  if (settles_for != this) return;
  const std::lock_guard lock(changed_mutex_);
  --in_callbacks_;
}

void Group::settle_loop() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "tutti-futures");
  settles_for = this;
  std::unique_lock lock(changed_mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !completions_.empty(); });
    if (completions_.empty()) return;
    WorkPtr work = std::move(completions_.front());
    completions_.pop_front();
    lock.unlock();
    work->conclude();
    work.reset();
    lock.lock();
  }
}

void Group::stop_completions() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(changed_mutex_);
    stop_ = true;
    threads.swap(threads_);
    changed_.notify_all();
  }
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();  // a callback let the last handle of the group go
    } else {
      thread.join();
    }
  }
}

void Group::leave(bool now) {
  if (forks_ != forks.load()) return;  // the group is the parent's
  const WithoutPython without;
  {
    std::unique_lock lock(changed_mutex_);
    if (!now) changed_.wait_for(lock, kGrace, [&] { return leaving_ || open_.load() == 0 || failed(); });
    if (std::exchange(leaving_, true)) {
      changed_.wait(lock, [&] { return left_; });
      return;
    }
    if (driving_ || open_.load() > 0) tutti_abort(comm_);
  }
  std::unique_lock calls(calls_, std::try_to_lock);
  if (!calls.owns_lock()) {
    tutti_abort(comm_);
    calls.lock();
  }
  {
    std::unique_lock lock(changed_mutex_);
    changed_.wait(lock, [&] { return !driving_; });
  }
  tutti_comm leaving = nullptr;
  {
    const std::lock_guard lock(changed_mutex_);  // abort() looks at it
    leaving = std::exchange(comm_, nullptr);
  }
  if (leaving != nullptr) tutti_comm_free(&leaving);  // works under way were aborted, and hold on to it until they end
  calls.unlock();
  settle_all();
  stop_completions();
  {
    const std::lock_guard lock(changed_mutex_);
    left_ = true;
    changed_.notify_all();
  }
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.groups.erase(weak_from_this());
}

// The core's tutti_abort takes none of the locks that it calls ended() with.
void Group::abort() {
  if (forks_ != forks.load()) return;
  const std::lock_guard lock(changed_mutex_);
  failed_.store(true);
  if (comm_ != nullptr) tutti_abort(comm_);
  changed_.notify_all();
}

bool Group::tuned() {
  int tuned = 0;
  enter(Milliseconds(0), [&](tutti_comm comm) { check(tutti_tuned(comm, &tuned)); });
  return tuned != 0;
}

void Group::took_future() {
  const int pass = torch::autograd::get_current_graph_task_id();
  {
    const std::lock_guard lock(changed_mutex_);
    const bool wanted = marked_ || is_traced();
    if (!wanted || pass < 0 || std::exchange(watched_pass_, pass) == pass) return;
  }
  // DDP asks for its own word at the end when it has started its last call, and so comes later.
  torch::autograd::Engine::get_default_engine().queue_callback([group = weak_from_this()] {
    const std::shared_ptr<Group> self = group.lock();
    if (!self) return;
    const std::lock_guard lock(self->changed_mutex_);
    if (self->open_.load() == 0) return;
    self->futures_awaited_since_ = std::chrono::steady_clock::now();
    tutti_trace_wait_begin(&self->traced_wait_);
  });
}

tutti_mark Group::mark() {
  tutti_mark mark;
  enter(Milliseconds(0), [&](tutti_comm comm) { check(tutti_take_mark(comm, &mark)); });
  const std::lock_guard lock(changed_mutex_);
  marked_ = true;
  for (std::size_t verb = 0; verb < TUTTI_VERBS; ++verb)
    mark.verbs[verb].waited_ns +=
        static_cast<std::uint64_t>(std::chrono::nanoseconds(waited_for_futures_[verb]).count());
  return mark;
}

std::shared_ptr<void> Group::allocate(std::size_t bytes) {
  void* memory = nullptr;
  tutti_memory owner = nullptr;
  enter(Milliseconds(0), [&](tutti_comm comm) {
    check(tutti_alloc(comm, bytes, &memory));
    check(tutti_memory_keep(comm, memory, &owner));
  });
  // A child that was forked does not tell the others that its parent is done.
  return {memory, [owner, made = forks_](void*) mutable {
            if (made == forks.load()) tutti_memory_free(&owner);
          }};
}

void Group::leave_all() {
  std::vector<std::shared_ptr<Group>> groups;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    for (const auto& group : all.groups) {
      if (auto alive = group.lock()) groups.push_back(std::move(alive));
    }
  }
  for (const auto& group : groups) group->leave(true);
}

}  // namespace tutti::pytorch
