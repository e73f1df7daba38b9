// All of Tutti for C++: include this one. docs/api.md shows every verb; tutti.h is the same for C.
//
//   tutti::Communicator comm = tutti::init();
//   comm.all_reduce(gradients, tutti::ReduceOp::average);
#pragma once

#include "tutti/batch.h"         // IWYU pragma: export
#include "tutti/coalesced.h"     // IWYU pragma: export
#include "tutti/communicator.h"  // IWYU pragma: export
#include "tutti/init.h"          // IWYU pragma: export
#include "tutti/interrupt.h"     // IWYU pragma: export
#include "tutti/local.h"         // IWYU pragma: export
#include "tutti/reduce_local.h"  // IWYU pragma: export
#include "tutti/streams.h"       // IWYU pragma: export
#include "tutti/tune.h"          // IWYU pragma: export
