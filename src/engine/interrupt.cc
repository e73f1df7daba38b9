#include "tutti/interrupt.h"

#include "base/interrupt.h"

namespace tutti {

InterruptCheck::InterruptCheck(Asked asked, void* context)
    : before_(interrupt().asked), context_before_(interrupt().context) {
  interrupt() = {asked, context};
}

InterruptCheck::~InterruptCheck() { interrupt() = {before_, context_before_}; }

}  // namespace tutti
