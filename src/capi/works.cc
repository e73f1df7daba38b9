// Handles of calls under way: waiting frees them.
#include <algorithm>
#include <exception>
#include <vector>

#include "capi/errors.h"
#include "capi/handles.h"

using namespace tutti::capi;

namespace {

// The call has ended: says what it received, frees the handle.
void end(tutti_work& work) {
  const std::unique_ptr<tutti_work_s> record(work);
  work = nullptr;
  if (record->received != nullptr) *record->received = to_c(record->work.received());
}

// Calls wait(work) and frees the handle once the call has ended, well or not.
template <class Wait>
void wait_and_end(tutti_work& work, Wait&& wait) {
  if (work == nullptr) return;
  try {
    wait(work->work);
  } catch (...) {
    if (work->work.error() == nullptr) throw;  // still under way
    const std::unique_ptr<tutti_work_s> record(work);
    work = nullptr;
    throw;
  }
  end(work);
}

// Waits for work_at(0) to work_at(count - 1); throws the first error after all have ended.
template <class WorkAt>
void wait_for_each(size_t count, WorkAt&& work_at) {
  std::exception_ptr first;
  for (size_t i = 0; i < count; ++i) {
    try {
      wait_and_end(work_at(i), [](tutti::Work& under_way) { under_way.wait(); });
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// Waits until one of them has ended; false where all are NULL.
bool await_any(tutti_work* works, size_t count, int64_t timeout_ms) {
  std::vector<tutti::Work*> under_way;
  for (size_t i = 0; i < count; ++i) under_way.push_back(works[i] == nullptr ? nullptr : &works[i]->work);
  return tutti::await_any(under_way, std::chrono::milliseconds(timeout_ms));
}

bool has_ended(tutti_work work) { return work != nullptr && work->work.ended(); }

}  // namespace

extern "C" {

tutti_code tutti_wait(tutti_work* work) {
  return guarded(
      [&] { wait_and_end(place(work, "tutti_wait: work"), [](tutti::Work& under_way) { under_way.wait(); }); });
}

tutti_code tutti_wait_for(tutti_work* work, int64_t timeout_ms) {
  return guarded([&] {
    wait_and_end(place(work, "tutti_wait_for: work"),
                 [&](tutti::Work& under_way) { under_way.wait(std::chrono::milliseconds(timeout_ms)); });
  });
}

tutti_code tutti_wait_all(tutti_work* works, size_t count) {
  return guarded([&] {
    if (count != 0) place(works, "tutti_wait_all: works");
    wait_for_each(count, [&](size_t i) -> tutti_work& { return works[i]; });
  });
}

tutti_code tutti_wait_any(tutti_work* works, size_t count, int64_t timeout_ms, size_t* index) {
  return guarded([&] {
    place(index, "tutti_wait_any: index") = TUTTI_NONE;
    if (count != 0) place(works, "tutti_wait_any: works");
    if (!await_any(works, count, timeout_ms)) return;
    *index = static_cast<size_t>(std::find_if(works, works + count, has_ended) - works);
    wait_and_end(works[*index], [](tutti::Work& ended) { ended.wait(); });
  });
}

tutti_code tutti_wait_some(tutti_work* works, size_t count, int64_t timeout_ms, size_t* indices, size_t* ended) {
  return guarded([&] {
    size_t& found = place(ended, "tutti_wait_some: ended") = 0;
    if (count != 0) {
      place(works, "tutti_wait_some: works");
      place(indices, "tutti_wait_some: indices");
    }
    await_any(works, count, timeout_ms);
    for (size_t i = 0; i < count; ++i) {
      if (has_ended(works[i])) indices[found++] = i;
    }
    wait_for_each(found, [&](size_t i) -> tutti_work& { return works[indices[i]]; });
  });
}

tutti_code tutti_test_any(tutti_work* works, size_t count, size_t* index) {
  return guarded([&] {
    place(index, "tutti_test_any: index") = TUTTI_NONE;
    if (count != 0) place(works, "tutti_test_any: works");
    for (size_t i = 0; i < count; ++i) {
      int done = 0;
      if (works[i] == nullptr || (tutti_test(works[i], &done), done == 0)) continue;
      *index = i;
      return wait_and_end(works[i], [](tutti::Work& ended) { ended.wait(); });
    }
  });
}

tutti_code tutti_on_end(tutti_work work, void (*ended)(void* context), void* context) {
  return guarded([&] {
    place(work, "tutti_on_end: work");
    if (ended == nullptr) reject("tutti_on_end: ended is NULL");
    work->work.on_end([ended, context] { ended(context); });
  });
}

tutti_code tutti_test(tutti_work work, int* done) {
  return guarded([&] {
    int& ended = place(done, "tutti_test: done");
    ended = 1;
    if (work == nullptr) return;
    try {
      ended = work->work.test() ? 1 : 0;
    } catch (...) {
      if (work->work.error() == nullptr) throw;  // otherwise it has ended, and tutti_wait says how
    }
  });
}

}  // extern "C"
