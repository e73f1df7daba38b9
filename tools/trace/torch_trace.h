// Traces that torch.profiler exported, one file a rank, as one TracedJob. Pure.
//
// Where kernels of a GPU were profiled, compute is when any kernel ran that is none of NCCL's, and communication when
// one of those did. On CPUs compute is when any operator ran, and communication when a row nccl:, gloo:, tutti: or
// another backend's was there, or an operator of c10d.
//
// Clocks are not trusted across ranks. All ranks are through with a collective at about the same time, so that the rank
// whose part was the shortest came last, and what the others' parts are longer by is their waiting.
#pragma once

#include <span>
#include <string>

#include "tools/trace/event_file.h"
#include "tools/trace/traced_job.h"

namespace tutti::analysis {

struct NamedEvents {
  std::string name;  // of the file
  const EventFile* file = nullptr;
};

// Throws Error(invalid_argument) where they are no such traces, or not of one job.
TracedJob torch_trace(std::span<const NamedEvents> files);

}  // namespace tutti::analysis
