#include "base/interrupt.h"

#include "tutti/error.h"

namespace tutti {

Interrupt& interrupt() {
  thread_local Interrupt of_this_thread;
  return of_this_thread;
}

void throw_if_interrupted() {
  const Interrupt& now = interrupt();
  if (now.asked != nullptr && now.asked(now.context))
    throw Error(ErrorCode::aborted, "interrupted by the program while it waited");
}

}  // namespace tutti
