// A step of a study as the simulator has it.
#pragma once

#include "tools/study_ranks.h"

namespace tutti::tools {

// Until the last rank has ended, in microseconds: every rank starts when its work is done, on a host whose links and
// memory are as quick as the costs that hold on this one (`tutti tune` measures them). `asked` names an algorithm of
// messages: those are what the simulator knows.
double simulated_step_us(const StepsRequest& asked);

}  // namespace tutti::tools
