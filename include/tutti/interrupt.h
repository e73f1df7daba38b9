// Stopping calls that wait, for languages whose signal handlers run only where a call looks for them.
//
//   const tutti::InterruptCheck check(python_wants_to_stop);
//   comm.all_reduce(x);
//
// While it lives, calls of its thread that have to wait ask `asked` a few times a second; calls that need not wait do
// not ask. Where it says true the call throws Error(aborted): a blocking call that has begun aborts its communicator,
// and the other ranks learn of it; one that waits for async calls before it has not been made; a wait for a Work leaves
// the operation under way; a rank that was joining leaves.
#pragma once

#include "tutti/export.h"

namespace tutti {

class TUTTI_API InterruptCheck {
 public:
  using Asked = bool (*)(void* context);  // must not throw

  explicit InterruptCheck(Asked asked, void* context = nullptr);
  InterruptCheck(const InterruptCheck&) = delete;
  InterruptCheck& operator=(const InterruptCheck&) = delete;
  ~InterruptCheck();  // on the same thread; the one that was there before counts again

 private:
  Asked before_;
  void* context_before_;
};

}  // namespace tutti
