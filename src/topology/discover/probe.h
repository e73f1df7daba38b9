// The speeds of this machine, measured in a moment. On threads of its own: the caller's keep their cores.
#pragma once

#include "topology/rates.h"

namespace tutti::topology {

// Takes at most 50 ms or so, however busy the machine is. What cannot be measured here stays 0: with one core there is
// none to hand a line to, and a system may refuse calls. Never throws.
Speeds measure_speeds();

}  // namespace tutti::topology
