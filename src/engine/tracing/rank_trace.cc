#include "engine/tracing/rank_trace.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/file_descriptor.h"
#include "base/system_error.h"
#include "trace/merge.h"
#include "trace/ring_folder.h"

namespace tutti::engine {
namespace {

// The folder of the rings; others may have made it.
std::string make_folder(const std::string& file) {
  const std::string folder = trace::rings_of(file);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw_errno("cannot make the folder '" + folder + "' for the rings of the trace '" + file + "'");
  return folder;
}

// Of ranks that end at once, one.
bool is_first_to_merge(const std::string& folder) {
  return FileDescriptor(::open((folder + "/merging").c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600)).valid();
}

// What a thread has found, and what it was told to use.
struct Known {
  std::uint64_t changes = 0;
  std::shared_ptr<RankTrace> current;
  std::weak_ptr<RankTrace> own;
};
thread_local Known known;

}  // namespace

RankTrace::RankTrace(std::string file, const trace::RingFacts& facts, const trace::RingShape& shape)
    : file_(std::move(file)), recorder_(make_folder(file_), facts, shape) {}

RankTrace::~RankTrace() { end(); }

void RankTrace::end() {
  if (!home_.is_here() || ended_.exchange(true)) return;
  {
    const std::lock_guard lock(attached_mutex_);
    for (std::atomic<trace::Recorder*>* const of : attached_) {
      trace::Recorder* own = &recorder_;
      of->compare_exchange_strong(own, nullptr);  // it may record elsewhere by now
    }
    attached_.clear();
  }
  const std::string folder = trace::rings_of(file_);
  const trace::FolderHold hold(folder);
  recorder_.end();
  LiveTraces::of_process().note_end();
  try {
    if (!trace::all_ended(folder, recorder_.facts()) || !is_first_to_merge(folder)) return;
    trace::merge(folder, file_);
    trace::remove_rings(folder);
  } catch (const std::exception&) {
    // The rings stay, to be merged by who wants to know why.
  }
}

void RankTrace::attach(std::atomic<trace::Recorder*>& of) {
  const std::lock_guard lock(attached_mutex_);
  if (ended()) return;
  attached_.push_back(&of);
  of.store(&recorder_, std::memory_order_release);
}

void RankTrace::detach(std::atomic<trace::Recorder*>& of) {
  const std::lock_guard lock(attached_mutex_);
  std::erase(attached_, &of);
}

LiveTraces& LiveTraces::of_process() {
  static LiveTraces* const kTraces = new LiveTraces;  // for ends behind that of main()
  return *kTraces;
}

void LiveTraces::add(const std::shared_ptr<RankTrace>& trace) {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [](const auto& other) { return other.expired(); });
  // Groups that meet later go on with the trace of their process.
  const bool listed = std::ranges::any_of(all_, [&](const auto& other) { return other.lock() == trace; });
  if (!listed) all_.push_back(trace);
  known.own = trace;
  count_.fetch_add(1, std::memory_order_relaxed);
  note_end();
}

RankTrace* LiveTraces::find() {
  const std::uint64_t changes = changes_.load(std::memory_order_acquire);
  if (known.changes == changes) return known.current.get();
  known.changes = changes;
  known.current = known.own.lock();
  if (known.current != nullptr && known.current->ended()) known.current = nullptr;
  if (known.current != nullptr) return known.current.get();
  const std::lock_guard lock(mutex_);
  std::shared_ptr<RankTrace> only;
  for (const auto& other : all_) {
    const auto trace = other.lock();
    if (trace == nullptr || trace->ended()) continue;
    if (only != nullptr && only != trace) return nullptr;  // which of them?
    only = trace;
  }
  known.current = only;
  return only.get();
}

std::shared_ptr<RankTrace> LiveTraces::find(std::uint64_t recorder) {
  const std::lock_guard lock(mutex_);
  for (const auto& other : all_) {
    auto trace = other.lock();
    if (trace != nullptr && !trace->ended() && trace->recorder().id() == recorder) return trace;
  }
  return nullptr;
}

}  // namespace tutti::engine
