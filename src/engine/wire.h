// What lies between two hosts, found out by sending: no file or driver knows what a switch or a neighbour leaves of it.
#pragma once

#include "choice/prices.h"

namespace tutti::engine {

class Engine;

// The wire between this rank and one of another host: some milliseconds of traffic, tens on slow links. Both are to
// call it, before any call of the caller's; `leads` on one of them, whose clock counts.
choice::Wire measure_wire(Engine& engine, int peer, bool leads);

}  // namespace tutti::engine
