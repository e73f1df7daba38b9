// Handles of calls under way: waiting frees them.
#include <exception>

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
    std::exception_ptr first;
    for (size_t i = 0; i < count; ++i) {
      try {
        wait_and_end(works[i], [](tutti::Work& under_way) { under_way.wait(); });
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
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
